package verb

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"pitstop.dev/cmd/kubectl-pitstop/history"
)

func newHistory(c *cli) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "history MODELSERVING",
		Short: "List the stored revisions of a ModelServing, what uses them and what changed",
		Args:  oneName,
	}
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		facts, _, err := c.past(ctx, cl, args[0])
		if err != nil {
			return err
		}
		if facts.Groups, err = cl.groups(ctx, cl.namespace); err != nil {
			return err
		}
		h := history.Of(facts)
		if f == formatJSON {
			return printJSON(c.Streams.Out, h)
		}
		_, err = fmt.Fprint(c.Streams.Out, h.Text())
		return err
	})
	return cmd
}

// past reads a ModelServing and its revisions. It returns also the object as it was read.
func (c *cli) past(ctx context.Context, cl *cluster, arg string) (history.Facts, *unstructured.Unstructured, error) {
	name, err := servingName(arg)
	if err != nil {
		return history.Facts{}, nil, err
	}
	ms, object, err := cl.serving(ctx, name)
	if err != nil {
		return history.Facts{}, nil, err
	}
	revisions, err := cl.revisions(ctx, cl.namespace, name)
	return history.Facts{Serving: ms, Revisions: revisions, Now: c.Clock.Now()}, object, err
}
