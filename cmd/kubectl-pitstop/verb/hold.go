package verb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// A holdResult is what hold and release print as JSON.
type holdResult struct {
	Namespace string       `json:"namespace"`
	Pod       string       `json:"pod"`
	Holds     []order.Hold `json:"holds"`
}

func newHold(c *cli) *cobra.Command {
	var f format
	var h order.Hold
	cmd := &cobra.Command{
		Use:   "hold POD --reason TEXT",
		Short: "Keep a Pod out of traffic until it is released",
		Long:  "Keep a Pod out of traffic until it is released. The Pod runs on; the agent of its node lowers its readiness gate.",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&h.Value, "reason", "", "why, for whoever finds the Pod held (required)")
	addHolderFlag(cmd, &h.Holder)
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		if h.Value == "" {
			return usagef("--reason is missing: say why the Pod is held")
		}
		pod, err := cl.annotateIf(ctx, args[0], h.Holder, &h.Value, func(pod *corev1.Pod) error { return order.MayHold(pod, h) })
		if err != nil {
			return err
		}
		return c.holdDone(pod, f, "held by "+h.Holder+": "+h.Value)
	})
	return cmd
}

func newRelease(c *cli) *cobra.Command {
	var f format
	var holder string
	cmd := &cobra.Command{
		Use:   "release POD",
		Short: "End a hold, so that the Pod goes back in traffic if nobody else holds it",
		Args:  cobra.ExactArgs(1),
	}
	addHolderFlag(cmd, &holder)
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		pod, err := cl.annotateIf(ctx, args[0], holder, nil, func(pod *corev1.Pod) error { return order.MayRelease(pod, holder) })
		if err != nil {
			return err
		}
		text := "released; nobody holds it now"
		if rest := order.Holds(pod); len(rest) > 0 {
			text = fmt.Sprintf("released; still held by %s: %s", rest[0].Holder, rest[0].Value)
		}
		return c.holdDone(pod, f, text)
	})
	return cmd
}

func addHolderFlag(cmd *cobra.Command, holder *string) {
	cmd.Flags().StringVar(holder, "holder", order.Operator, "in whose name; each holder has one hold on a Pod")
}

func (c *cli) holdDone(pod *corev1.Pod, f format, text string) error {
	if f == formatJSON {
		return printJSON(c.Streams.Out, holdResult{pod.Namespace, pod.Name, order.Holds(pod)})
	}
	_, err := fmt.Fprintf(c.Streams.Out, "pod %s/%s %s\n", pod.Namespace, pod.Name, text)
	return err
}

// annotateIf sets the hold of a holder on a Pod, or removes it if value is nil, unless judge
// objects. It reads and judges the Pod anew if that changed in between, as it does all the time.
func (c *cluster) annotateIf(ctx context.Context, name, holder string, value *string, judge func(*corev1.Pod) error) (*corev1.Pod, error) {
	var pod *corev1.Pod
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		read, err := c.pod(ctx, name)
		if err != nil {
			return err
		}
		if err := judge(read); err != nil {
			return err
		}
		patch, err := holdPatch(read, holder, value)
		if err != nil {
			return err
		}
		pod, err = c.patch(ctx, read, patch)
		return err
	})
	if apierrors.IsConflict(err) {
		return nil, &order.ConflictError{Object: fmt.Sprintf("pod %s/%s", c.namespace, name), Why: "kept changing while it was written", Way: "repeat the command"}
	}
	return pod, err
}

// holdPatch is the merge patch that sets or removes a hold on just this state of this Pod.
func holdPatch(pod *corev1.Pod, holder string, value *string) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             pod.UID,
		"resourceVersion": pod.ResourceVersion,
		"annotations":     map[string]*string{v1alpha1.HoldPrefix + holder: value},
	}})
}
