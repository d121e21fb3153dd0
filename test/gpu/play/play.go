// Package play is a lab with GPUs for a person to try things on: the lab with Pitstop in it, GPUs that are stubs on each
// node, an engine on two of them, and what a driver may say of a GPU.
package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/server"
	"pitstop.dev/test/gpu/rig"
	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/binaries"
)

const (
	// Engine is the Pod that has GPUs of the first node.
	Engine = "engine-0"
	// nodeGPUs is how many each node has, and engineGPUs what the engine has of them.
	nodeGPUs, engineGPUs = 4, 2
	// engineMiB is what the engine takes of each of its GPUs.
	engineMiB = 60 << 10
	// judged bounds the wait for the agents' first word about the GPUs.
	judged = 2 * time.Minute
)

// A scene is what Run holds.
type scene struct {
	*cluster.Cluster
	out    io.Writer
	images []string // of the engine: two versions
	rigs   []*rig.Rig
}

// Run brings all of it up, says so on out, and holds it until ctx ends: then engine and GPUs go, and the lab stays. Only
// one may run on a machine.
func Run(ctx context.Context, out io.Writer) (err error) {
	unlock, err := alone(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s := &scene{out: out}
	if s.Cluster, err = cluster.Start(ctx, out); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end(ctx)) }()
	for _, step := range []func(context.Context) error{s.push, s.give, s.engine, s.judged} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.tell()
	<-ctx.Done()
	return nil
}

// alone keeps a second one from taking the GPUs away.
func alone(ctx context.Context) (unlock func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "pitstop")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err = binaries.Lock(ctx, filepath.Join(dir, "gpus.lock"), time.Second)
	if err != nil {
		return nil, fmt.Errorf("somebody else holds GPUs in the lab of this machine, so end that first: %w", err)
	}
	return unlock, nil
}

func (s *scene) push(ctx context.Context) error {
	for _, tag := range []string{"v1", "v2"} {
		ref, err := s.Engine(ctx, tag, nil)
		if err != nil {
			return err
		}
		s.images = append(s.images, ref)
	}
	return s.Remove(ctx, Engine)
}

func (s *scene) give(ctx context.Context) error {
	nodes := s.Nodes()
	errs := make([]error, len(nodes))
	s.rigs = make([]*rig.Rig, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			s.rigs[i], errs[i] = s.GPUsSeen(ctx, rig.Config{Node: node, UUIDs: cluster.UUIDs(node.Name, nodeGPUs)})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *scene) engine(ctx context.Context) error {
	_, err := s.Run(ctx, cluster.PodSpec{
		Name: Engine, Node: s.Nodes()[0].Name, Image: s.images[0], GPUs: engineGPUs, Env: map[string]string{server.EnvGPUMiB: strconv.Itoa(engineMiB)},
	})
	return err
}

// judged waits until the agents have looked often enough to say that the GPUs are well.
func (s *scene) judged(ctx context.Context) error {
	return await.Until(ctx, "the agents' word on the GPUs", judged, func(ctx context.Context) error {
		for _, n := range s.Nodes() {
			node, err := s.Core.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			well := func(c corev1.NodeCondition) bool {
				return c.Type == v1alpha1.GPUHealthy && c.Status == corev1.ConditionTrue
			}
			if !slices.ContainsFunc(node.Status.Conditions, well) {
				return fmt.Errorf("node %s: conditions %+v", n.Name, node.Status.Conditions)
			}
		}
		return nil
	})
}

func (s *scene) tell() {
	fmt.Fprintf(s.out, `
%d GPUs on each node, and Pod %s on %d of node1's: until you end this (Ctrl-C). In another terminal:

  export KUBECONFIG=%s
  bin/kubectl-pitstop node node1
  bin/kubectl-pitstop update %s engine=%s --wait
  go run ./test/gpu/cmd/gpus xid node1 0 79
  go run ./test/gpu/cmd/gpus recovery node1 1 reset
`, nodeGPUs, Engine, engineGPUs, s.KubeconfigPath(), Engine, s.images[1])
}

// end lasts beyond ctx, which has ended.
func (s *scene) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	err := s.Remove(ctx, Engine)
	for _, r := range s.rigs {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	if err = errors.Join(err, s.DropGPUs(ctx)); err == nil {
		fmt.Fprintln(s.out, "\nEngine and GPUs are gone. The lab stays up; make lab-down ends it.")
	}
	return err
}

// On returns the GPUs of a node of the lab that runs.
func On(l *lab.Lab, node string) (GPUs, error) {
	var names []string
	for _, n := range l.Nodes() {
		if n.Name == node {
			return in(n.GPUDir, node)
		}
		names = append(names, n.Name)
	}
	return GPUs{}, fmt.Errorf("the lab has no node %q, but %q", node, names)
}
