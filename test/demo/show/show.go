// Package show is the demo: scenes on the lab's cluster, each of which prints what was measured
// and adds to the list of broken promises.
package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/verb"
	"pitstop.dev/gpu/attribution"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/load"
	"pitstop.dev/test/engine/server"
	"pitstop.dev/test/gpu/rig"
)

// clients is how many streams of one second run at any time.
const clients = 8

// A show is one run of the demo.
type show struct {
	*cluster.Cluster
	out        io.Writer
	clock      clock.Clock
	start      time.Time
	broken     []error
	v1, v2, v3 string
	rigs       []*rig.Rig                           // the GPUs of the nodes
	kubelets   map[string]*attribution.PodResources // who gives them to containers, by node
}

// Run plays all scenes and returns what was not as promised.
func Run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Minute) // the first build takes most of it
	defer cancel()
	s := &show{out: out, clock: clock.RealClock{}}
	s.start = s.clock.Now()
	s.title("a Kubernetes of two nodes on this machine, with the Pitstop agent on each")
	if s.Cluster, err = cluster.Start(ctx, out); err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, s.end(ctx)); err == nil {
			s.say("The lab stays up, without GPUs and what had some: kubectl --kubeconfig %s get nodes; make lab-down ends it.  [%.1f s]",
				s.KubeconfigPath(), s.clock.Since(s.start).Seconds())
		}
	}()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, scene := range []func(context.Context) error{s.inPlace, s.wrongTag, s.recreate} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(s.broken...); err != nil {
		return fmt.Errorf("not as promised:\n%w", err)
	}
	s.title("all as promised")
	return nil
}

func (s *show) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *show) title(text string) {
	s.say("\n=== %s  [%.1f s]", text, s.clock.Since(s.start).Seconds())
}

// broke notes a promise that was not kept.
func (s *show) broke(format string, args ...any) {
	s.broken = append(s.broken, fmt.Errorf(format, args...))
}

// same promises that what is named did not change.
func (s *show) same(what, before, after string) {
	if before != after {
		s.broke("%s changed from %s to %s", what, before, after)
	}
}

// prepare pushes the images and starts two pairs of engines, each behind a Service.
func (s *show) prepare(ctx context.Context) error {
	var err error
	if s.v1, err = s.Engine(ctx, "v1", nil); err != nil {
		return err
	}
	if s.v2, err = s.Engine(ctx, "v2", nil); err != nil {
		return err
	}
	if s.v3, err = s.Engine(ctx, "v3", nil); err != nil {
		return err
	}
	names := pair("recreate")
	if err := errors.Join(s.Remove(ctx, names...), s.RemoveServing(ctx, serving)); err != nil {
		return err
	}
	if err := s.startGPUs(ctx); err != nil {
		return err
	}
	s.title("a ModelServing of 3 groups at v1: prefill with a worker, and decode, a GPU each; two more engines for the comparison")
	if _, err := s.Declare(ctx, s.serving()); err != nil {
		return err
	}
	for i, name := range names {
		if _, err := s.Create(ctx, s.engine(name, s.Nodes()[i%2].Name, s.v1)); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := s.WaitPod(ctx, name, readiness.Ready); err != nil {
			return err
		}
	}
	if _, err := s.WaitServing(ctx, serving, cluster.Complete); err != nil {
		return err
	}
	return s.get(ctx)
}

// serving is the name of the demo's ModelServing.
const serving = "chat"

// serving is updated in place, one group after the other.
func (s *show) serving() cluster.ServingSpec {
	return cluster.ServingSpec{
		Name: serving, Replicas: 3, Workers: 1, Prefill: s.v1, Decode: s.v1, Back: true,
		GPUs: 1, Env: map[string]string{"PITSTOP_ENGINE_STATE": "/scratch", server.EnvGPUMiB: strconv.Itoa(engineMiB)},
		Strategy: v1alpha1.RolloutStrategy{
			UpdateMethod: v1alpha1.UpdateInPlace,
			Drain:        v1alpha1.Drain{Mode: v1alpha1.DrainEngineMetrics, TimeoutSeconds: new(int32(60))},
		},
	}
}

// get prints what kubectl pitstop get shows.
func (s *show) get(ctx context.Context) error { return s.verb(ctx, "get", serving) }

func (s *show) verb(ctx context.Context, args ...string) error {
	streams, _, out, errs := genericiooptions.NewTestIOStreams()
	all := append(slices.Clone(args), "--kubeconfig", s.KubeconfigPath(), "-n", cluster.Namespace)
	if code := verb.Execute(ctx, all, verb.Env{Streams: streams, Clock: clock.RealClock{}, Version: "demo", Connect: verb.Connect}); code != 0 {
		return fmt.Errorf("kubectl pitstop %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	s.say("\n  $ kubectl pitstop %s", strings.Join(args, " "))
	for line := range strings.Lines(out.String()) {
		s.say("  %s", strings.TrimRight(line, "\n"))
	}
	return nil
}

func pair(app string) []string { return []string{app + "-0", app + "-1"} }

func (s *show) engine(name, node, image string) cluster.PodSpec {
	app, _, _ := strings.Cut(name, "-")
	return cluster.PodSpec{
		Name: name, Node: node, Image: image, Labels: map[string]string{"app": app},
		Env: map[string]string{"PITSTOP_ENGINE_STATE": "/scratch"},
	}
}

// traffic streams through the Service of app, which selects Pods, until the load is stopped.
func (s *show) traffic(ctx context.Context, app string, selector map[string]string) (*load.Load, error) {
	url, err := s.Expose(ctx, app, selector)
	if err != nil {
		return nil, err
	}
	return load.Start(ctx, load.Config{URL: url, Clients: clients}, s.clock)
}
