package verb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
	"pitstop.dev/cmd/kubectl-pitstop/node"
)

func newGPU(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "gpu", Short: "What a person may ask of the agent about the GPUs of a node", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGPURelease(c))
	return cmd
}

// A releaseResult is what gpu release prints as JSON.
type releaseResult struct {
	Node string `json:"node"`
	// Until is when the agent takes the driver again; empty: at once.
	Until string `json:"until,omitempty"`
	// Message says what happens, Warnings what else to think of.
	Message  string   `json:"message"`
	Warnings []string `json:"warnings,omitempty"`
}

// A releaseLength is the value of --for; 0: the flag was not given.
type releaseLength time.Duration

func (l *releaseLength) String() string { return "" }

func (l *releaseLength) Type() string { return "DURATION" }

func (l *releaseLength) Set(s string) error {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no duration; write 10m or 1h for instance", s)
	case d < v1alpha1.LeastGPURelease || d > v1alpha1.MostGPURelease:
		return fmt.Errorf("from %s to %s is possible: a shorter one may be over before the agent, which looks every 20 s, has let go; --end ends a release", short(v1alpha1.LeastGPURelease), short(v1alpha1.MostGPURelease))
	}
	*l = releaseLength(d)
	return nil
}

type releaseFlags struct {
	format
	length releaseLength
	end    bool
}

func newGPURelease(c *cli) *cobra.Command {
	var f releaseFlags
	cmd := &cobra.Command{
		Use:   "release NODE --for DURATION",
		Short: "Have the agent let go of the GPU driver, so that GPUs can be reset",
		Long: "Have the agent of a node let go of the GPU driver for a while: an open handle keeps GPUs from being reset, their MIG mode from being " +
			"changed and the driver from being unloaded. Engines are not touched. Meanwhile nothing is known of the GPUs. It ends by itself.",
		Example: "  kubectl pitstop gpu release gpu-0 --for 10m\n  kubectl pitstop gpu release gpu-0 --end",
		Args:    oneName,
	}
	cmd.Flags().Var(&f.length, "for", "for how long: from "+short(v1alpha1.LeastGPURelease)+" to "+short(v1alpha1.MostGPURelease))
	cmd.Flags().BoolVar(&f.end, "end", false, "have the agent take the driver again")
	addOutputFlag(cmd, &f.format)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error { return c.releaseGPUs(ctx, cl, args[0], f) })
	return cmd
}

func short(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}

func (c *cli) releaseGPUs(ctx context.Context, cl *cluster, name string, f releaseFlags) error {
	if f.end == (f.length != 0) {
		return usagef("say either --for DURATION or --end")
	}
	facts, err := cl.releaseFacts(ctx, name, c.Clock.Now())
	if err != nil {
		return err
	}
	plan := node.PlanEnd(facts)
	if !f.end {
		if plan, err = node.PlanRelease(facts, time.Duration(f.length)); err != nil {
			return err
		}
	}
	if plan.Write {
		if err := cl.annotateRelease(ctx, facts.Node, plan.Until); err != nil {
			return err
		}
	}
	if f.format == formatJSON {
		return printJSON(c.Streams.Out, releaseResult{Node: name, Until: plan.Until, Message: plan.Says, Warnings: plan.Warnings})
	}
	_, err = fmt.Fprintf(c.Streams.Out, "node %s: %s\n", name, plan.Says)
	for _, w := range plan.Warnings {
		fmt.Fprintln(c.Streams.Out, "warning: "+w)
	}
	return err
}

// releaseFacts reads the Node, and what else may be read.
func (c *cluster) releaseFacts(ctx context.Context, name string, now time.Time) (node.ReleaseFacts, error) {
	f := node.ReleaseFacts{Agent: diagnose.Agent{State: diagnose.AgentUnknown}, Now: now}
	var err error
	if f.Node, err = c.node(ctx, name); err != nil {
		return f, err
	}
	if lease, unknown := c.lease(ctx, v1alpha1.AgentLeaseName(name)); !unknown {
		f.Agent = diagnose.AgentOf(lease, now)
	}
	f.Orders, err = c.updates(ctx, "")
	f.OrdersUnknown = err != nil
	return f, nil
}

// annotateRelease writes the annotation, or removes it if until is empty. Applied twice it is the same as once.
func (c *cluster) annotateRelease(ctx context.Context, n *corev1.Node, until string) error {
	var value any // nil removes the annotation
	if until != "" {
		value = until
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "annotations": map[string]any{v1alpha1.AnnotationGPURelease: value},
	}})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := c.Core.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return c.denied(ctx, access{"patch", corev1.Resource("nodes"), ""}, err)
	}
	return nil
}
