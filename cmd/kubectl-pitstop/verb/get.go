package verb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/tree"
)

func newGet(c *cli) *cobra.Command {
	var f format
	var all bool
	cmd := &cobra.Command{
		Use:   "get [MODELSERVING]",
		Short: "Show a ModelServing as a tree: groups, role instances, Pods",
		Long: "Show ModelServings as trees: their groups, role instances and Pods, with revision, readiness and stage. " +
			"What is under way is marked ~, what is not as it should be !.",
		Example: "  kubectl pitstop get llm\n  kubectl pitstop get -A",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "ModelServings of all namespaces")
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		switch {
		case all && len(args) > 0:
			return usagef("a ModelServing's name and --all-namespaces exclude each other")
		case len(args) > 0:
			return c.getOne(ctx, cl, args[0], f)
		case all:
			return c.getAll(ctx, cl, "", f)
		}
		return c.getAll(ctx, cl, cl.namespace, f)
	})
	return cmd
}

func (c *cli) getOne(ctx context.Context, cl *cluster, arg string, f format) error {
	name, err := servingName(arg)
	if err != nil {
		return err
	}
	ms, _, err := cl.serving(ctx, name)
	if err != nil {
		return err
	}
	o, err := cl.forest(ctx, cl.namespace, name)
	if err != nil {
		return err
	}
	o.Serving, o.Now = ms, c.Clock.Now()
	t := tree.Grow(o)
	if f == formatJSON {
		return printJSON(c.Streams.Out, t)
	}
	_, err = fmt.Fprint(c.Streams.Out, t.Text())
	return err
}

// A forest is what get prints as JSON if no name is given.
type forest struct {
	Items []tree.Tree `json:"items"`
}

func (c *cli) getAll(ctx context.Context, cl *cluster, namespace string, f format) error {
	all, err := cl.servings(ctx, namespace)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *v1alpha1.ModelServing) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	out := forest{Items: []tree.Tree{}}
	if len(all) > 0 {
		o, err := cl.forest(ctx, namespace, "")
		if err != nil {
			return err
		}
		o.Now = c.Clock.Now()
		for _, ms := range all {
			o.Serving = ms
			out.Items = append(out.Items, tree.Grow(o))
		}
	}
	switch {
	case f == formatJSON:
		return printJSON(c.Streams.Out, out)
	case len(all) == 0 && namespace == "":
		fmt.Fprintln(c.Streams.ErrOut, "no ModelServings found")
	case len(all) == 0:
		fmt.Fprintf(c.Streams.ErrOut, "no ModelServings found in namespace %s\n", namespace)
	}
	for i, t := range out.Items {
		if i > 0 {
			fmt.Fprintln(c.Streams.Out)
		}
		fmt.Fprint(c.Streams.Out, t.Text())
	}
	return nil
}

// forest reads what belongs to one ModelServing, or, if its name is empty, to all.
func (c *cluster) forest(ctx context.Context, namespace, name string) (tree.Objects, error) {
	var o tree.Objects
	var err error
	if o.Groups, err = c.groups(ctx, namespace); err != nil {
		return o, err
	}
	if o.Pods, err = c.pods(ctx, namespace, name); err != nil {
		return o, err
	}
	o.Pins = c.pins(ctx, namespace, name)
	o.Orders, err = c.updates(ctx, namespace)
	return o, err
}
