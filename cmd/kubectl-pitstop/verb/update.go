package verb

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// updateFlags are the flags of update that become part of the order.
type updateFlags struct {
	drain       string
	drainFor    time.Duration
	propagation time.Duration
	stopTimeout time.Duration
	deadline    time.Duration
}

func newUpdate(c *cli) *cobra.Command {
	var f updateFlags
	var r report
	cmd := &cobra.Command{
		Use:   "update POD CONTAINER=IMAGE...",
		Short: "Change images of a running Pod in place",
		Long: "Change images of a running Pod in place. The images are pulled and proved first, then the Pod is taken out " +
			"of traffic, drained, patched, proved and put back. A new update supersedes one that is under way.",
		Example: "  kubectl pitstop update engine-0 engine=registry.example/vllm:0.12 --wait",
		Args:    cobra.MinimumNArgs(2),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.drain, "drain", string(v1alpha1.DrainEngineMetrics), "how the end of running requests is proved: EngineMetrics, Router (the router in front of the Pod says so too), or Delay (a plain wait of --drain-timeout)")
	flags.DurationVar(&f.drainFor, "drain-timeout", 300*time.Second, "how long requests may take to end before they are cut")
	flags.DurationVar(&f.propagation, "propagation", 3*time.Second, "time for endpoints and routers to follow before the drain")
	flags.DurationVar(&f.stopTimeout, "stop-timeout", 30*time.Second, "how long an old container may take to stop before it is killed")
	flags.DurationVar(&f.deadline, "deadline", 1800*time.Second, "how long any stage that waits may last")
	r.addFlags(cmd)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		request, err := f.request(args[1:])
		if err != nil {
			return err
		}
		return c.update(ctx, cl, args[0], request, r)
	})
	return cmd
}

func (c *cli) update(ctx context.Context, cl *cluster, name string, request order.Request, r report) error {
	pod, last, err := cl.ordered(ctx, name)
	if err != nil {
		return err
	}
	next, err := order.Update(pod, last, request)
	if err != nil {
		return err
	}
	written, err := cl.write(ctx, next)
	if err != nil {
		return err
	}
	return c.ordered(ctx, cl, written, r, inService)
}

func inService(u *v1alpha1.InPlaceUpdate) bool { return u.Status.Stage == v1alpha1.StageInService }

// request reads the flags and the arguments after the Pod.
func (f updateFlags) request(args []string) (order.Request, error) {
	containers, err := containerImages(args)
	if err != nil {
		return order.Request{}, err
	}
	mode := v1alpha1.DrainMode(f.drain)
	switch mode {
	case v1alpha1.DrainEngineMetrics, v1alpha1.DrainRouter, v1alpha1.DrainDelay:
	default:
		return order.Request{}, usagef("--drain %q: there are %s, %s and %s", f.drain, v1alpha1.DrainEngineMetrics, v1alpha1.DrainRouter, v1alpha1.DrainDelay)
	}
	for _, limit := range []struct {
		flag     string
		value    time.Duration
		min, max time.Duration
	}{
		{"--drain-timeout", f.drainFor, 0, 24 * time.Hour},
		{"--propagation", f.propagation, 0, time.Hour},
		{"--stop-timeout", f.stopTimeout, time.Second, 24 * time.Hour},
		{"--deadline", f.deadline, time.Second, 7 * 24 * time.Hour},
	} {
		if limit.value < limit.min || limit.value > limit.max || math.Mod(limit.value.Seconds(), 1) != 0 {
			return order.Request{}, usagef("%s %s: whole seconds from %s to %s", limit.flag, limit.value, limit.min, limit.max)
		}
	}
	return order.Request{
		Containers:  containers,
		Drain:       mode,
		DrainFor:    f.drainFor,
		Propagation: &f.propagation,
		StopTimeout: &f.stopTimeout,
		Deadline:    &f.deadline,
	}, nil
}

func containerImages(args []string) ([]v1alpha1.ContainerImage, error) {
	var all []v1alpha1.ContainerImage
	named := map[string]bool{}
	for _, arg := range args {
		name, image, ok := strings.Cut(arg, "=")
		if !ok || name == "" || image == "" {
			return nil, usagef("%q is not CONTAINER=IMAGE", arg)
		}
		if named[name] {
			return nil, usagef("container %q is named twice", name)
		}
		named[name] = true
		all = append(all, v1alpha1.ContainerImage{Name: name, Image: image})
	}
	return all, nil
}
