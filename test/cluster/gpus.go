package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/test/gpu/plugin"
	"pitstop.dev/test/gpu/rig"
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
