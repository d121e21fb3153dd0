package verb

import (
	"context"

	"github.com/spf13/cobra"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/ask"
)

func newRetry(c *cli) *cobra.Command {
	r := request{Request: ask.Request{Verb: v1alpha1.VerbRetry}}
	cmd := &cobra.Command{
		Use:   "retry MODELSERVING",
		Short: "Try again what was given up for the declared revision",
		Long: "Try again what was given up for the declared revision: a revision that was rejected (onFailure Rollback) is no longer, and " +
			"units that were refused, cancelled, or wait for their next try are tried at once. A unit that failed after its swap is " +
			"recreated instead: `kubectl pitstop recreate UNIT`.",
		Args: oneName,
	}
	r.addFlags(cmd)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		name, err := servingName(args[0])
		if err != nil {
			return err
		}
		r.ID = c.NewID()
		asked, err := c.ask(ctx, cl, name, r)
		if err != nil {
			return err
		}
		return c.tell(asked, r)
	})
	return cmd
}
