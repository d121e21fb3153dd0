package show

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu/attribution"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/gpu/rig"
)

const (
	nodeGPUs = 8
	// gpuMiB is the memory of a GPU, and engineMiB what an engine takes of it: there is no room for two.
	gpuMiB    = 80 << 10
	engineMiB = 60 << 10
)

// startGPUs gives each node GPUs, and an agent that has seen them.
func (s *show) startGPUs(ctx context.Context) error {
	s.title(fmt.Sprintf("%d GPUs on each node: a stub of the driver's library, and a device plugin, with which kubelet assigns them", nodeGPUs))
	nodes := s.Nodes()
	rigs, errs := make([]*rig.Rig, len(nodes)), make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			rigs[i], errs[i] = s.GPUsSeen(ctx, rig.Config{Node: node, UUIDs: cluster.UUIDs(node.Name, nodeGPUs), MiB: gpuMiB})
		})
	}
	all.Wait()
	s.rigs, s.kubelets = rigs, map[string]*attribution.PodResources{}
	for _, node := range nodes {
		s.kubelets[node.Name] = attribution.NewPodResources(attribution.PodResourcesConfig{Dir: filepath.Join(node.KubeletDir, "pod-resources")})
	}
	return errors.Join(errs...)
}

// end removes what has GPUs, and then the GPUs: kubelet would count those that are taken for whoever comes next. The agents
// start anew meanwhile, for a probe keeps the library that it has loaded.
func (s *show) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var dropped error
	var agents sync.WaitGroup
	agents.Go(func() { dropped = s.DropGPUs(ctx) })
	err := s.RemoveServing(ctx, serving)
	for _, r := range s.rigs {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	agents.Wait()
	return errors.Join(err, dropped)
}

// checkGPUs promises that a Pod has the GPU that it had, and its new engine the memory of it that the old one had.
func (s *show) checkGPUs(r row) {
	s.same(r.name+": GPUs", strings.Join(r.before.gpus, ","), strings.Join(r.after.gpus, ","))
	if len(r.order.Status.GPUs) != 1 {
		s.broke("%s: %d GPUs were looked at, want 1", r.name, len(r.order.Status.GPUs))
	}
	for _, g := range r.order.Status.GPUs {
		if has := strings.Join(r.after.gpus, ","); has != g.UUID {
			s.broke("%s: the agent looked at %s, its engine has %q", r.name, g.UUID, has)
		}
		if g.Verdict != v1alpha1.VerdictReloaded || mib(g.Before) != mib(g.After) || mib(g.After) != fmt.Sprintf("%d MiB", engineMiB) {
			s.broke("%s: %s held %s before and %s after: %s, want %s of %d MiB", r.name, g.UUID, mib(g.Before), mib(g.After), g.Verdict,
				v1alpha1.VerdictReloaded, engineMiB)
		}
	}
}

// gpuTable prints one line per GPU of the Pods.
func (s *show) gpuTable(rows []row) {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\n  POD\tGPU BEFORE\tGPU AFTER\tMEMORY BEFORE\tMEMORY AFTER\tVERDICT")
	for _, r := range rows {
		for i := range max(len(r.before.gpus), len(r.after.gpus)) {
			before, after := nth(r.before.gpus, i), nth(r.after.gpus, i)
			var g v1alpha1.GPUReport
			for _, o := range r.order.Status.GPUs {
				if o.UUID == before {
					g = o
				}
			}
			_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\n", r.name, before, after, mib(g.Before), mib(g.After), cmp.Or(g.Verdict, "-"))
		}
	}
	_ = w.Flush()
	s.say("  GPU is what kubelet has given to the engine, MEMORY what the driver says that its processes hold there.")
}

func nth(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "-"
}

func mib(v *int64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%d MiB", *v)
}
