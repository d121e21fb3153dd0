package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// kubeletLimit bounds the wait for a starting kubelet.
const kubeletLimit = 60 * time.Second

// A Node is one node of a lab. Its paths are those of this machine; the node itself sees
// the same folders in the usual places.
type Node struct {
	Host
	KubeletDir string // the node's /var/lib/kubelet
	JournalDir string // the node's /var/lib/pitstop
	GPUDir     string // the node's /var/lib/pitstop-gpu: what stands in for GPUs and their driver
	lab        *Lab
	state      nodeState
}

func nodeName(i int) string { return fmt.Sprintf("node%d", i+1) }

func (l *Lab) node(i int) Node {
	s := l.state.Nodes[i]
	dir := l.path("nodes", s.Name)
	return Node{
		Host: Host{
			Name:          s.Name,
			Dir:           dir,
			RuntimeSocket: filepath.Join(dir, "run-containerd", "containerd.sock"),
			Cgroup:        cgroupOf(l.config.StateDir) + "/" + s.Name,
			programs:      l.group,
			set:           l.set,
			mounts:        nodeMounts(),
			pause:         l.Registry().Ref(pauseImage),
			subnet:        podRange,
			ipam:          l.path("ipam"),
		},
		KubeletDir: filepath.Join(dir, "kubelet"),
		JournalDir: filepath.Join(dir, "pitstop"),
		GPUDir:     filepath.Join(dir, "gpu"),
		lab:        l,
		state:      s,
	}
}

// nodeMounts maps what a node sees to the folder of the node that it is.
func nodeMounts() map[string]string {
	return map[string]string{
		"/run/containerd":      "run-containerd",
		"/var/lib/containerd":  "containerd",
		"/var/lib/kubelet":     "kubelet",
		"/var/lib/pitstop":     "pitstop",
		"/var/lib/pitstop-gpu": "gpu",
		"/var/lib/cni":         "cni-cache",
		"/var/log/pods":        "pod-logs",
		"/var/log/containers":  "container-logs",
	}
}

// absent lists the folders that a node's mounts need and this machine lacks.
func absent() []string {
	var dirs []string
	for at := range nodeMounts() {
		if _, err := os.Stat(at); errors.Is(err, os.ErrNotExist) {
			dirs = append(dirs, at)
		}
	}
	return dirs
}

// start brings up what of the node does not run.
func (n Node) start(ctx context.Context) error {
	if err := n.write(); err != nil {
		return fmt.Errorf("configure node %s: %w", n.Name, err)
	}
	if err := n.Host.start(ctx); err != nil {
		return err
	}
	return n.StartKubelet(ctx)
}

// write makes the kubelet's files.
func (n Node) write() error {
	kubelet := kubeletConfig{
		address: n.lab.state.Address, port: n.state.Kubelet, health: n.state.Health,
		ca: n.lab.pki.CA(), cgroup: n.Cgroup,
	}
	return errors.Join(
		writeFile(filepath.Join(n.Dir, "kubelet.yaml"), []byte(kubelet.render())),
		writeKubeconfig(filepath.Join(n.Dir, "kubeconfig"), n.lab.access(nodeUser(n.Name))),
	)
}

// StartKubelet starts the node's kubelet and returns once it says that it is healthy.
func (n Node) StartKubelet(ctx context.Context) error {
	args := []string{
		n.set.Path("kubelet"),
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

// KillKubelet kills the node's kubelet; its Pods go on. StartKubelet starts it again.
func (n Node) KillKubelet(ctx context.Context) error {
	return n.lab.group.Stop(ctx, n.process("kubelet"), 0)
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
