package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/process"
)

// Limits of waits for a node's programs.
const (
	containerdLimit = 60 * time.Second
	kubeletLimit    = 60 * time.Second
	stopGrace       = 10 * time.Second
)

// A Node is one node of a lab. Its paths are those of this machine; the node itself sees
// the same folders in the usual places.
type Node struct {
	Name          string
	Dir           string // all below
	RuntimeSocket string // the node's /run/containerd/containerd.sock
	KubeletDir    string // the node's /var/lib/kubelet
	JournalDir    string // the node's /var/lib/pitstop
	lab           *Lab
	state         nodeState
}

func nodeName(i int) string { return fmt.Sprintf("node%d", i+1) }

func (l *Lab) node(i int) Node {
	s := l.state.Nodes[i]
	dir := l.path("nodes", s.Name)
	return Node{
		Name:          s.Name,
		Dir:           dir,
		RuntimeSocket: filepath.Join(dir, "run-containerd", "containerd.sock"),
		KubeletDir:    filepath.Join(dir, "kubelet"),
		JournalDir:    filepath.Join(dir, "pitstop"),
		lab:           l,
		state:         s,
	}
}

// mounts maps what a node sees to the folder of the node that it is.
func mounts() map[string]string {
	return map[string]string{
		"/run/containerd":     "run-containerd",
		"/var/lib/containerd": "containerd",
		"/var/lib/kubelet":    "kubelet",
		"/var/lib/pitstop":    "pitstop",
		"/var/lib/cni":        "cni-cache",
		"/var/log/pods":       "pod-logs",
		"/var/log/containers": "container-logs",
	}
}

func (n Node) process(what string) string { return n.Name + "-" + what }

// namespaceScript makes a mount namespace's own tree, and then only keeps it alive. From
// there on mounts must spread to containers, as kubelet's do on any machine.
func (n Node) namespaceScript() string {
	lines := []string{"set -e", "mount --make-rprivate /"}
	for at, from := range mounts() {
		lines = append(lines, fmt.Sprintf("mount --bind '%s' '%s'", filepath.Join(n.Dir, from), at))
	}
	return strings.Join(append(lines, "mount --make-rshared /", "exec sleep infinity"), "\n")
}

// start brings up what of the node does not run.
func (n Node) start(ctx context.Context) error {
	if err := n.enter(ctx); err != nil {
		return fmt.Errorf("make node %s: %w", n.Name, err)
	}
	if err := n.StartContainerd(ctx); err != nil {
		return err
	}
	if err := pull(ctx, n.RuntimeSocket, n.lab.pauseRef()); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return n.StartKubelet(ctx)
}

// enter makes the node's folders, control group and mount namespace.
func (n Node) enter(ctx context.Context) error {
	holder := n.process("mounts")
	if _, ok := n.lab.group.Running(holder); ok {
		return nil
	}
	if err := n.write(); err != nil {
		return err
	}
	r, err := n.lab.group.Start(ctx, process.Spec{
		Name: holder,
		Args: []string{"/usr/bin/unshare", "--mount", "--", "/bin/sh", "-c", n.namespaceScript()},
	})
	if err != nil {
		return err
	}
	return await.Until(ctx, "the mounts of "+n.Name, 10*time.Second, func(context.Context) error {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", r.PID))
		if err != nil || strings.TrimSpace(string(comm)) != "sleep" {
			return errors.Join(err, errors.New(n.lab.group.Tail(holder)))
		}
		return nil
	})
}

// write makes the node's folders and files.
func (n Node) write() error {
	l := n.lab
	for at, from := range mounts() {
		if err := errors.Join(os.MkdirAll(at, 0o755), os.MkdirAll(filepath.Join(n.Dir, from), 0o755)); err != nil {
			return err
		}
	}
	tree, err := cgroups()
	if err != nil {
		return err
	}
	if err := tree.Make(n.cgroup()); err != nil {
		return err
	}
	snapshotter, err := snapshotterFor(n.Dir)
	if err != nil {
		return err
	}
	runtime := runtimeConfig{
		root: "/var/lib/containerd", state: "/run/containerd", cni: filepath.Join(n.Dir, "cni"),
		certs: filepath.Join(n.Dir, "certs.d"), pause: l.pauseRef(), snapshotter: snapshotter,
	}
	kubelet := kubeletConfig{
		address: l.state.Address, port: n.state.Kubelet, health: n.state.Health,
		ca: l.pki.CA(), cgroup: n.cgroup(),
	}
	return errors.Join(
		os.MkdirAll(runtime.certs, 0o755),
		writeFile(filepath.Join(n.Dir, "containerd.toml"), []byte(runtime.render())),
		writeFile(filepath.Join(n.Dir, "cni", "lab.conflist"), []byte(cniConfig(podRange, l.path("ipam")))),
		writeFile(filepath.Join(n.Dir, "kubelet.yaml"), []byte(kubelet.render())),
		writeKubeconfig(filepath.Join(n.Dir, "kubeconfig"), l.access(nodeUser(n.Name))),
	)
}

func (n Node) cgroup() string { return cgroupOf(n.lab.config.StateDir) + "/" + n.Name }

// spec runs a program inside the node.
func (n Node) spec(name string, args ...string) (process.Spec, error) {
	r, ok := n.lab.group.Running(n.process("mounts"))
	if !ok {
		return process.Spec{}, fmt.Errorf("node %s has no mount namespace", n.Name)
	}
	inside := []string{"/usr/bin/nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", r.PID), "--"}
	return process.Spec{
		Name: name,
		Args: append(inside, args...),
		Env:  []string{"PATH=" + filepath.Dir(n.lab.set.Path("containerd")) + ":/usr/sbin:/usr/bin:/sbin:/bin"},
	}, nil
}

// run starts a program inside the node unless it runs, and waits until it is ready.
func (n Node) run(ctx context.Context, name string, limit time.Duration, args []string, ready func(context.Context) error) error {
	if _, ok := n.lab.group.Running(name); !ok {
		s, err := n.spec(name, args...)
		if err != nil {
			return err
		}
		if _, err := n.lab.group.Start(ctx, s); err != nil {
			return err
		}
	}
	err := await.Until(ctx, name, limit, func(ctx context.Context) error {
		if _, ok := n.lab.group.Running(name); !ok {
			return errors.New(n.lab.group.Tail(name))
		}
		return ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, n.lab.group.Tail(name))
	}
	return nil
}

// StartContainerd starts the node's containerd and returns once it serves CRI.
func (n Node) StartContainerd(ctx context.Context) error {
	args := []string{n.lab.set.Path("containerd"), "--config", filepath.Join(n.Dir, "containerd.toml")}
	return n.run(ctx, n.process("containerd"), containerdLimit, args, func(ctx context.Context) error {
		return runtimeReady(ctx, n.RuntimeSocket)
	})
}

// StopContainerd ends the node's containerd; containers and their shims go on.
func (n Node) StopContainerd(ctx context.Context) error {
	return n.lab.group.Stop(ctx, n.process("containerd"), stopGrace)
}

// RestartContainerd stops containerd and starts it again.
func (n Node) RestartContainerd(ctx context.Context) error {
	if err := n.StopContainerd(ctx); err != nil {
		return err
	}
	return n.StartContainerd(ctx)
}

// StartKubelet starts the node's kubelet and returns once it says that it is healthy.
func (n Node) StartKubelet(ctx context.Context) error {
	args := []string{
		n.lab.set.Path("kubelet"),
		"--config=" + filepath.Join(n.Dir, "kubelet.yaml"),
		"--kubeconfig=" + filepath.Join(n.Dir, "kubeconfig"),
		"--hostname-override=" + n.Name,
		"--node-ip=" + n.lab.state.Address,
		"--v=2",
	}
	return n.run(ctx, n.process("kubelet"), kubeletLimit, args, func(ctx context.Context) error {
		return healthy(ctx, n.state.Health)
	})
}

// StopKubelet ends the node's kubelet; its Pods go on.
func (n Node) StopKubelet(ctx context.Context) error {
	return n.lab.group.Stop(ctx, n.process("kubelet"), stopGrace)
}

// RestartKubelet stops the kubelet and starts it again.
func (n Node) RestartKubelet(ctx context.Context) error {
	if err := n.StopKubelet(ctx); err != nil {
		return err
	}
	return n.StartKubelet(ctx)
}

// healthy asks the health port of a component on this machine.
func healthy(ctx context.Context, port int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback(port)+"/healthz", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health on port %d: %s", port, resp.Status)
	}
	return nil
}
