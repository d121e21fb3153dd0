package show

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"text/tabwriter"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/gpu/rig"
	"pitstop.dev/test/lab"
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
		all.Go(func() { rigs[i], errs[i] = s.giveGPUs(ctx, node) })
	}
	all.Wait()
	s.rigs = rigs
	return errors.Join(errs...)
}

func (s *show) giveGPUs(ctx context.Context, node lab.Node) (*rig.Rig, error) {
	r, err := rig.Start(ctx, rig.Config{Node: node, UUIDs: uuids(node.Name), MiB: gpuMiB})
	if err != nil {
		return nil, err
	}
	var offered error
	var wait sync.WaitGroup
	wait.Go(func() { offered = s.WaitGPUs(ctx, node.Name, nodeGPUs) }) // kubelet takes some seconds for it
	err = s.RestartAgent(ctx, node.Name)
	wait.Wait()
	return r, errors.Join(err, offered)
}

// uuids are those of the node's GPUs; the last digit of each is the last letter of the node's name.
func uuids(node string) []string {
	var list []string
	for i := range nodeGPUs {
		list = append(list, fmt.Sprintf("GPU-%d-0000-4000-8000-00000000000%s", 10000000+i, node[len(node)-1:]))
	}
	return list
}

// end removes what has GPUs, and then the GPUs: kubelet would count those that are taken for whoever comes next.
func (s *show) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err := s.RemoveServing(ctx, serving)
	for _, r := range s.rigs {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	return err
}

// checkGPUs promises that a Pod has the GPU that it had, and its new engine the memory of it that the old one had.
func (s *show) checkGPUs(r row) {
	if len(r.order.Status.GPUs) != 1 {
		s.broke("%s: %d GPUs were looked at, want 1", r.name, len(r.order.Status.GPUs))
	}
	for _, g := range r.order.Status.GPUs {
		if g.Verdict != v1alpha1.VerdictReloaded || mib(g.Before) != mib(g.After) || mib(g.After) != fmt.Sprintf("%d MiB", engineMiB) {
			s.broke("%s: %s held %s before and %s after: %s, want %s of %d MiB", r.name, g.UUID, mib(g.Before), mib(g.After), g.Verdict,
				v1alpha1.VerdictReloaded, engineMiB)
		}
	}
}

// gpuTable prints one line per GPU of the Pods.
func (s *show) gpuTable(rows []row) {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\n  POD\tGPU\tBEFORE\tAFTER\tVERDICT")
	for _, r := range rows {
		for _, g := range r.order.Status.GPUs {
			_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", r.name, g.UUID, mib(g.Before), mib(g.After), g.Verdict)
		}
	}
	_ = w.Flush()
}

func mib(v *int64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%d MiB", *v)
}
