package verb

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/ask"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

func newCancel(c *cli) *cobra.Command {
	r := request{Request: ask.Request{Verb: v1alpha1.VerbCancel}}
	cmd := &cobra.Command{
		Use:   "cancel UNIT|POD",
		Short: "Take the update of a unit, or of a Pod, back before anything was changed",
		Long: "Take an update back before it has changed anything: the unit or Pod goes back in service as it was. Once its Pods are " +
			"being changed or replaced the way back is another update: `kubectl pitstop undo`, or for a Pod one to the old images.\n\n" +
			"UNIT is SERVINGGROUP or SERVINGGROUP/ROLE-N of a ModelServing. It is not chosen again for 5 minutes, or until " +
			"`kubectl pitstop retry`. POD is a Pod that was updated by `kubectl pitstop update`. Where a Pod and a ServingGroup have " +
			"the same name write pod/NAME or sg/NAME.",
		Example: "  kubectl pitstop cancel llm-0\n  kubectl pitstop cancel llm-0/decode-1\n  kubectl pitstop cancel pod/engine-0",
		Args:    oneName,
	}
	r.addWaitFlag(cmd)
	r.addFlags(cmd)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		s, err := cl.subject(ctx, args[0])
		if err != nil {
			return err
		}
		if s.Pod == "" {
			return c.ofUnit(ctx, cl, s, r)
		}
		return c.cancelPod(ctx, cl, s.Pod, r)
	})
	return cmd
}

// subject finds out whether the argument names a Pod or a unit.
func (c *cluster) subject(ctx context.Context, arg string) (ask.Subject, error) {
	s, ok := ask.ReadSubject(arg)
	switch {
	case !ok:
		return s, usagef("%q is neither a Pod nor a unit: POD, SERVINGGROUP or SERVINGGROUP/ROLE-N", arg)
	case s.Pod == "" || s.Group == "":
		return s, nil
	}
	group, err := c.hasGroup(ctx, s.Group)
	if err != nil || !group {
		return ask.Subject{Pod: s.Pod}, err
	}
	_, err = c.pod(ctx, s.Pod)
	var missing missingPodError
	switch {
	case errors.As(err, &missing):
		return ask.Subject{Group: s.Group}, nil
	case err != nil:
		return s, err
	}
	return s, usagef("%q is the name of a Pod and of a ServingGroup: write pod/%s or sg/%s", arg, arg, arg)
}

// hasGroup reports whether there is a ServingGroup of this name. Whoever may not see any means none.
func (c *cluster) hasGroup(ctx context.Context, name string) (bool, error) {
	_, err := get[v1alpha1.ServingGroup](ctx, c, v1alpha1.ServingGroups, name)
	var denied *order.RefusalError
	if apierrors.IsNotFound(err) || errors.As(err, &denied) {
		return false, nil
	}
	return err == nil, err
}

// cancelPod orders a cancel for a Pod.
func (c *cli) cancelPod(ctx context.Context, cl *cluster, name string, r request) error {
	pod, last, err := cl.ordered(ctx, name)
	if err != nil {
		return err
	}
	next, err := order.Cancel(pod, last)
	if err != nil {
		return err
	}
	written, err := cl.write(ctx, next)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	limit := r.timeout
	if limit == 0 {
		limit = endTimeout
	}
	return c.ordered(ctx, cl, written, report{wait: r.wait, timeout: limit, format: r.format}, cancelled)
}

func cancelled(u *v1alpha1.InPlaceUpdate) bool {
	return u.Status.Stage == v1alpha1.StageCancelled ||
		u.Status.Stage == v1alpha1.StageInService && u.Status.Reason != v1alpha1.EndedCancelTooLate
}
