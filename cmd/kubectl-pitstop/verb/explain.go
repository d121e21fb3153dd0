package verb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

func newExplain(c *cli) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "explain POD|modelserving/NAME",
		Short: "Say why a Pod or a ModelServing waits, and what would free it",
		Long: "Say why a Pod waits or is out of traffic, or which units of a ModelServing wait for what; since when, and what would " +
			"free them.",
		Example: "  kubectl pitstop explain llm-0-prefill-0-0\n  kubectl pitstop explain modelserving/llm\n  kubectl pitstop explain ms/llm -o json",
		Args:    oneName,
	}
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		d, err := cl.explain(ctx, args[0], c.Clock.Now())
		if err != nil {
			return err
		}
		return write(c.Streams.Out, f, d)
	})
	return cmd
}

// A texter has a form for people; encoding it gives that for scripts.
type texter interface{ Text() string }

func write(w io.Writer, f format, v texter) error {
	if f == formatJSON {
		return printJSON(w, v)
	}
	_, err := fmt.Fprint(w, v.Text())
	return err
}

// explain diagnoses what arg names: a Pod, or, after a slash, a ModelServing.
func (c *cluster) explain(ctx context.Context, arg string, now time.Time) (texter, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if ok && isServing(kind) && name != "" {
		facts, err := c.servingFacts(ctx, name, now)
		if err != nil {
			return nil, err
		}
		return diagnose.Serving(facts), nil
	}
	if !ok {
		kind, name = "pod", arg
	}
	if kind = strings.ToLower(kind); name == "" || kind != "pod" && kind != "pods" && kind != "po" {
		return nil, usagef("%q is neither POD nor pod/POD nor modelserving/NAME", arg)
	}
	facts, err := c.facts(ctx, name, now)
	if err != nil {
		return nil, c.orServing(ctx, name, err)
	}
	return diagnose.Diagnose(facts), nil
}

// servingFacts reads what the diagnosis of a ModelServing is made from.
func (c *cluster) servingFacts(ctx context.Context, name string, now time.Time) (diagnose.ServingFacts, error) {
	ms, _, err := c.serving(ctx, name)
	if err != nil {
		return diagnose.ServingFacts{}, err
	}
	f := diagnose.ServingFacts{Serving: ms, Now: now}
	if f.Groups, err = c.groups(ctx, c.namespace); err != nil {
		return f, err
	}
	if pods, err := c.pods(ctx, c.namespace, name); err == nil { // without them the words of the coordinator are shown
		f.Pods = pods
	}
	f.Pins = c.pins(ctx, c.namespace, name)
	f.Lease, f.LeaseUnknown = c.lease(ctx, diagnose.CoordinatorLease)
	return f, nil
}

// orServing says of a Pod that is not there whether a ModelServing has the name.
func (c *cluster) orServing(ctx context.Context, name string, err error) error {
	if _, missing := errors.AsType[missingPodError](err); !missing {
		return err
	}
	if _, none := c.object(ctx, v1alpha1.ModelServings, name); none != nil {
		return err
	}
	return &order.RefusalError{
		Object: fmt.Sprintf("pod %s/%s", c.namespace, name),
		Why:    "does not exist, and a ModelServing of that name does",
		Way:    "`kubectl pitstop explain modelserving/" + name + " -n " + c.namespace + "`",
	}
}
