package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/agent/health"
	"pitstop.dev/readiness"
	"pitstop.dev/test/gpu/plugin"
	"pitstop.dev/test/gpu/rig"
	"pitstop.dev/test/gpu/stub"
	"pitstop.dev/test/lab"
)

// GPUs gives a node GPUs, and returns once Pods can have them. The caller closes them.
func (c *Cluster) GPUs(ctx context.Context, config rig.Config) (*rig.Rig, error) {
	r, err := rig.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := c.WaitGPUs(ctx, config.Node.Name, len(config.UUIDs)); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// DropGPUs takes the driver's library off all nodes, so that their agents know of no GPU any more.
func (c *Cluster) DropGPUs(ctx context.Context) error {
	for _, node := range c.Nodes() {
		err := os.Remove(filepath.Join(node.GPUDir, stub.LibraryName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = c.RestartAgent(ctx, node.Name)
		}
		if err != nil {
			return fmt.Errorf("GPUs of %s: %w", node.Name, err)
		}
	}
	return nil
}

// RestartAgent replaces the node's agent by one that remembers no GPU, as after a reboot: those of a test come and go as
// no machine's do. An agent that found no GPUs looks for some once a minute: a new one does so at once.
func (c *Cluster) RestartAgent(ctx context.Context, node string) error {
	for _, n := range c.Nodes() {
		if n.Name != node {
			continue
		}
		// The old one writes it again only if something changes until it ends.
		if err := os.Remove(filepath.Join(n.JournalDir, "agent", health.KeptFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("agent of %s: %w", node, err)
		}
	}
	return c.ReplaceAgent(ctx, node)
}

// ReplaceAgent replaces the node's agent, and returns once the new one is ready.
func (c *Cluster) ReplaceAgent(ctx context.Context, node string) error {
	ctx, cancel := within(ctx)
	defer cancel()
	pods := c.Core.CoreV1().Pods(System)
	of := metav1.ListOptions{FieldSelector: "spec.nodeName=" + node, LabelSelector: "app.kubernetes.io/component=agent"}
	old, err := pods.List(ctx, of)
	if err != nil {
		return fmt.Errorf("agent of %s: %w", node, err)
	}
	for _, p := range old.Items {
		if err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("agent of %s: %w", node, err)
		}
	}
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, of)
		if err != nil {
			return false, nil //nolint:nilerr // tried again
		}
		return len(list.Items) == 1 && readiness.Ready(&list.Items[0]) &&
			!slices.ContainsFunc(old.Items, func(p corev1.Pod) bool { return p.UID == list.Items[0].UID }), nil
	})
	if err != nil {
		return fmt.Errorf("agent of %s: %w", node, err)
	}
	return nil
}

// WaitGPUs waits until the node offers so many GPUs.
func (c *Cluster) WaitGPUs(ctx context.Context, node string, n int) error {
	ctx, cancel := within(ctx)
	defer cancel()
	var got int64
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		is, err := c.Core.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // tried again
		}
		offered := is.Status.Allocatable[plugin.Resource]
		got = offered.Value()
		return got == int64(n), nil
	})
	if err != nil {
		return fmt.Errorf("node %s offers %d GPUs, not %d: %w", node, got, n, err)
	}
	return nil
}

// Node returns the node of the lab with this name.
func (c *Cluster) Node(name string) (lab.Node, error) {
	for _, n := range c.Nodes() {
		if n.Name == name {
			return n, nil
		}
	}
	return lab.Node{}, fmt.Errorf("no node %s in the lab", name)
}
