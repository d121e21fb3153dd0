package verb

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
)

func newExplain(c *cli) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "explain POD",
		Short: "Say why a Pod waits or is out of traffic, and what would free it",
		Args:  cobra.ExactArgs(1),
	}
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		facts, err := cl.facts(ctx, args[0], c.Clock.Now())
		if err != nil {
			return err
		}
		d := diagnose.Diagnose(facts)
		if f == formatJSON {
			return printJSON(c.Streams.Out, d)
		}
		_, err = fmt.Fprint(c.Streams.Out, d.Text())
		return err
	})
	return cmd
}
