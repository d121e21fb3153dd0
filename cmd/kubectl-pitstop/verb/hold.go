package verb

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/readiness"
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
		Args:  oneName,
	}
	cmd.Flags().StringVar(&h.Value, "reason", "", "why, for whoever finds the Pod held (required)")
	addHolderFlag(cmd, &h.Holder)
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		if h.Value == "" {
			return usagef("--reason is missing: say why the Pod is held")
		}
		pod, err := cl.pod(ctx, args[0])
		if err != nil {
			return err
		}
		if err := order.MayHold(pod, h); err != nil {
			return err
		}
		patch, err := readiness.Put(pod, h.Holder, h.Value)
		if err != nil {
			return err
		}
		if pod, err = cl.patch(ctx, pod, patch); err != nil {
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
		Args:  oneName,
	}
	addHolderFlag(cmd, &holder)
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		pod, err := cl.pod(ctx, args[0])
		if err != nil {
			return err
		}
		if err := order.MayRelease(pod, holder); err != nil {
			return err
		}
		patch, err := readiness.Release(pod, holder)
		if err != nil {
			return err
		}
		if pod, err = cl.patch(ctx, pod, patch); err != nil {
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
