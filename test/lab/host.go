package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/binaries"
	"pitstop.dev/test/lab/process"
)

// Limits of waits for a host's programs.
const (
	mountsLimit     = 10 * time.Second
	containerdLimit = 60 * time.Second
	stopGrace       = 10 * time.Second
)

// programs starts and stops what runs on a host.
type programs interface {
	Start(context.Context, process.Spec) (process.Record, error)
	Stop(ctx context.Context, name string, grace time.Duration) error
	Running(name string) (process.Record, bool)
	Tail(name string) string
}

// A Host is a mount namespace with a containerd in it. Its paths are those of this machine.
type Host struct {
	Name          string
	Dir           string // all below
	RuntimeSocket string // of containerd
	Cgroup        string // the control group of all its containers

	programs programs
	set      binaries.Set
	scratch  string            // a folder of the machine that is empty inside, or none
	mounts   map[string]string // what it sees to the folder in Dir that it is
	pause    string            // image
	subnet   string            // of the Pods
	ipam     string            // folder of the addresses in use, shared by hosts of one subnet
}

func (h Host) process(what string) string { return h.Name + "-" + what }

// start brings the namespace and containerd up and fetches the pause image.
func (h Host) start(ctx context.Context) error {
	if err := h.enter(ctx); err != nil {
		return fmt.Errorf("make host %s: %w", h.Name, err)
	}
	if err := h.StartContainerd(ctx); err != nil {
		return err
	}
	if err := pull(ctx, h.RuntimeSocket, h.pause); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	return nil
}

// enter makes the host's folders, control group and mount namespace, unless it has them.
func (h Host) enter(ctx context.Context) error {
	holder := h.process("mounts")
	if _, ok := h.programs.Running(holder); ok {
		return nil
	}
	if _, ok := h.inside(); ok { // the namespace outlived its holder
		s, err := h.spec(holder, "/bin/sleep", "infinity")
		if err == nil {
			_, err = h.programs.Start(ctx, s)
		}
		return err
	}
	if err := h.write(); err != nil {
		return err
	}
	tree, err := cgroups()
	if err != nil {
		return err
	}
	if err := tree.Make(h.Cgroup); err != nil {
		return err
	}
	r, err := h.programs.Start(ctx, process.Spec{
		Name: holder,
		Args: []string{"/usr/bin/unshare", "--mount", "--", "/bin/sh", "-c", h.script()},
	})
	if err != nil {
		return err
	}
	return await.Until(ctx, "the mounts of "+h.Name, mountsLimit, func(context.Context) error {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", r.PID))
		if err != nil || strings.TrimSpace(string(comm)) != "sleep" {
			return errors.Join(err, errors.New(h.programs.Tail(holder)))
		}
		return nil
	})
}

// script makes a mount namespace's own tree, and then only keeps it alive. From there on
// mounts must spread to containers, as kubelet's do on any machine.
func (h Host) script() string {
	lines := []string{"set -e", "mount --make-rprivate /"}
	if h.scratch != "" {
		lines = append(lines, fmt.Sprintf("mount -t tmpfs lab '%s'", h.scratch))
	}
	for _, at := range slices.Sorted(maps.Keys(h.mounts)) {
		lines = append(lines,
			fmt.Sprintf("mkdir -p '%s'", at),
			fmt.Sprintf("mount --bind '%s' '%s'", filepath.Join(h.Dir, h.mounts[at]), at))
	}
	return strings.Join(append(lines, "mount --make-rshared /", "exec sleep infinity"), "\n")
}

// write makes the host's folders and the files of containerd.
func (h Host) write() error {
	for _, from := range h.mounts {
		if err := os.MkdirAll(filepath.Join(h.Dir, from), 0o755); err != nil {
			return err
		}
	}
	snapshotter, err := snapshotterFor(h.Dir)
	if err != nil {
		return err
	}
	c := runtimeConfig{
		root: filepath.Join(h.Dir, "containerd"), state: "/run/containerd",
		cni: filepath.Join(h.Dir, "cni"), certs: filepath.Join(h.Dir, "certs.d"),
		pause: h.pause, snapshotter: snapshotter,
	}
	if _, ok := h.mounts["/var/lib/containerd"]; ok {
		c.root = "/var/lib/containerd"
	}
	return errors.Join(
		os.MkdirAll(c.certs, 0o755),
		writeFile(filepath.Join(h.Dir, "containerd.toml"), []byte(c.render())),
		writeFile(filepath.Join(h.Dir, "cni", "lab.conflist"), []byte(cniConfig(h.subnet, h.ipam))),
	)
}

// inside returns a process in the host's mount namespace, which lives as long as any does.
func (h Host) inside() (process.Record, bool) {
	for _, what := range []string{"mounts", "containerd", "kubelet"} {
		if r, ok := h.programs.Running(h.process(what)); ok {
			return r, true
		}
	}
	return process.Record{}, false
}

// spec runs a program inside the host.
func (h Host) spec(name string, args ...string) (process.Spec, error) {
	r, ok := h.inside()
	if !ok {
		return process.Spec{}, fmt.Errorf("host %s has no mount namespace", h.Name)
	}
	inside := []string{"/usr/bin/nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", r.PID), "--"}
	return process.Spec{
		Name: name,
		Args: append(inside, args...),
		Env:  []string{"PATH=" + filepath.Dir(h.set.Path("containerd")) + ":/usr/sbin:/usr/bin:/sbin:/bin"},
	}, nil
}

// Binary returns the path of one of the lab's programs, such as crictl.
func (h Host) Binary(name string) string { return h.set.Path(name) }

// Command returns a command that runs inside the host, on its own mounts, such as crictl or
// a mount over one of its folders.
func (h Host) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	s, err := h.spec("", args...)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.Args[0], s.Args[1:]...)
	cmd.Env = append(cmd.Environ(), s.Env...)
	return cmd, nil
}

// run starts a program inside the host unless it runs, and waits until it is ready.
func (h Host) run(ctx context.Context, name string, limit time.Duration, args []string, ready func(context.Context) error) error {
	if _, ok := h.programs.Running(name); !ok {
		s, err := h.spec(name, args...)
		if err != nil {
			return err
		}
		if _, err := h.programs.Start(ctx, s); err != nil {
			return err
		}
	}
	err := await.Until(ctx, name, limit, func(ctx context.Context) error {
		if _, ok := h.programs.Running(name); !ok {
			return errors.New(h.programs.Tail(name))
		}
		return ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, h.programs.Tail(name))
	}
	return nil
}

// StartContainerd starts the host's containerd and returns once it serves CRI.
func (h Host) StartContainerd(ctx context.Context) error {
	args := []string{h.set.Path("containerd"), "--config", filepath.Join(h.Dir, "containerd.toml")}
	return h.run(ctx, h.process("containerd"), containerdLimit, args, func(ctx context.Context) error {
		return runtimeReady(ctx, h.RuntimeSocket)
	})
}

// StopContainerd ends the host's containerd; containers and their shims go on.
func (h Host) StopContainerd(ctx context.Context) error {
	return h.programs.Stop(ctx, h.process("containerd"), stopGrace)
}

// RestartContainerd stops containerd and starts it again.
func (h Host) RestartContainerd(ctx context.Context) error {
	if err := h.StopContainerd(ctx); err != nil {
		return err
	}
	return h.StartContainerd(ctx)
}

// KillContainerd kills the host's containerd; containers and their shims go on. StartContainerd
// starts it again.
func (h Host) KillContainerd(ctx context.Context) error {
	return h.programs.Stop(ctx, h.process("containerd"), 0)
}
