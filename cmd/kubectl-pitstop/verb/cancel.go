package verb

import (
	"context"

	"github.com/spf13/cobra"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

func newCancel(c *cli) *cobra.Command {
	var r report
	cmd := &cobra.Command{
		Use:   "cancel POD",
		Short: "Take an update back before it has patched the Pod",
		Long: "Take an update back before it has patched the Pod: nothing is changed and the Pod goes back in service. " +
			"Once the images are patched the way back is another update, to the old images.",
		Args: cobra.ExactArgs(1),
	}
	r.addFlags(cmd)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		pod, err := cl.pod(ctx, args[0])
		if err != nil {
			return err
		}
		last, err := cl.update(ctx, args[0])
		if err != nil {
			return err
		}
		next, err := order.Cancel(pod, last)
		if err != nil {
			return err
		}
		written, err := cl.write(ctx, next)
		if err != nil {
			return err
		}
		return c.ordered(ctx, cl, written, r, cancelled)
	})
	return cmd
}

func cancelled(u *v1alpha1.InPlaceUpdate) bool {
	return u.Status.Stage == v1alpha1.StageCancelled ||
		u.Status.Stage == v1alpha1.StageInService && u.Status.Reason != v1alpha1.EndedCancelTooLate
}
