package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pitstop.dev/test/lab/process"
	"pitstop.dev/test/lab/registry"
)

// A Runtime is one containerd with a registry and without Kubernetes, for tests that speak
// CRI. Its programs end with the process that started it, at the latest.
type Runtime struct {
	Host
	group    *process.Tether
	registry *registry.Control
}

// StartRuntime starts a containerd that keeps everything in c.StateDir, which must be
// given and is the caller's to remove after Close. It needs root.
func StartRuntime(ctx context.Context, c Config) (*Runtime, error) {
	if c.StateDir == "" {
		return nil, errors.New("a runtime needs a folder of its own")
	}
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	if err := prerequisites(ctx, c.Log); err != nil {
		return nil, err
	}
	set, err := Build(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := endOrphans(ctx); err != nil {
		return nil, err
	}
	var port int
	if err := choosePorts(nil, &port); err != nil {
		return nil, err
	}
	r := &Runtime{group: process.NewTether(c.StateDir)}
	r.registry = registry.NewControl(loopback(port), filepath.Join(c.StateDir, "registry", "control.sock"))
	r.Host = Host{
		Name:          "runtime",
		Dir:           c.StateDir,
		RuntimeSocket: filepath.Join(c.StateDir, "run", "containerd.sock"),
		Cgroup:        cgroupOf(c.StateDir),
		programs:      r.group,
		set:           set,
		scratch:       "/run",
		mounts:        map[string]string{"/run/containerd": "run", "/var/lib/cni": "cni-cache"},
		pause:         r.registry.Ref(pauseImage),
		subnet:        runtimeRange(port),
		ipam:          filepath.Join(c.StateDir, "ipam"),
	}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a runtime: %w", err), r.Close(ctx))
	}
	return r, nil
}

// runtimeRange returns Pod addresses beside those of the lab, others for each registry
// port, and so for each runtime that runs.
func runtimeRange(port int) string {
	return fmt.Sprintf("198.18.%d.%d/28", 64+port/16%64, port%16*16)
}

func (r *Runtime) start(ctx context.Context) error {
	err := startRegistry(ctx, r.group, r.set, r.registry, filepath.Join(r.Dir, "registry"))
	if err != nil {
		return err
	}
	if err := pushPause(ctx, r.set, r.registry); err != nil {
		return err
	}
	return r.Host.start(ctx)
}

// Registry returns the control of the registry from which the runtime pulls.
func (r *Runtime) Registry() *registry.Control { return r.registry }

// Push stores an image in the registry; ref needs no address, as in engine:v1.
func (r *Runtime) Push(ctx context.Context, ref string, img v1.Image) error {
	return r.registry.Push(ctx, ref, img)
}

// Close ends containerd, its containers and the registry, also if ctx has ended.
func (r *Runtime) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	r.group.Close()
	return errors.Join(
		endAll(ctx, r.group.Group, r.Cgroup),
		awaitNoPodLinks(ctx, r.subnet),
	)
}

// endOrphans ends what the runtimes and control planes of dead tests left behind.
func endOrphans(ctx context.Context) error {
	var failed error
	for _, g := range process.Orphans() {
		failed = errors.Join(failed, endAll(ctx, g, cgroupOf(g.Dir)))
	}
	return failed
}
