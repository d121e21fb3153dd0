package verb

import (
	"context"

	"github.com/spf13/cobra"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/ask"
)

func newRecreate(c *cli) *cobra.Command {
	r := request{Request: ask.Request{Verb: v1alpha1.VerbRecreate}}
	cmd := &cobra.Command{
		Use:   "recreate UNIT",
		Short: "Delete the Pods of a unit and create them anew at its revision",
		Long: "Drain the Pods of a unit if they serve, delete them, and create them anew at the revision that the unit has. It is the way " +
			"out for a unit that cannot be helped in place, and is done also while the ModelServing is paused or blocked. A unit that " +
			"serves needs a place in the budget (maxUnavailable); one that does not costs nothing.\n\n" +
			"UNIT is SERVINGGROUP, or SERVINGGROUP/ROLE-N with RoleRollingUpdate.",
		Example: "  kubectl pitstop recreate llm-0\n  kubectl pitstop recreate llm-0/decode-1 --wait",
		Args:    oneName,
	}
	r.addWaitFlag(cmd)
	r.addFlags(cmd)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		s, ok := ask.ReadSubject(args[0])
		if !ok || s.Group == "" {
			return usagef("%q is no unit: SERVINGGROUP or SERVINGGROUP/ROLE-N", args[0])
		}
		return c.ofUnit(ctx, cl, s, r)
	})
	return cmd
}
