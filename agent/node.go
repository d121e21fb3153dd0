package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// kubelet is what can be told of the node's kubelet and device plugins from their sockets: one
// that accepts a connection is alive, and it was made anew when its owner started.
type kubelet struct{ dir string }

// up reports whether kubelet accepts connections. It cannot be told apart from a kubelet whose
// folder is not mounted; both are not up.
func (k kubelet) up(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(k.dir, "pod-resources", "kubelet.sock"))
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// started returns when kubelet or a device plugin last started, as far as is known.
func (k kubelet) started() time.Time {
	latest := modified(filepath.Join(k.dir, "pod-resources", "kubelet.sock"))
	plugins, _ := filepath.Glob(filepath.Join(k.dir, "device-plugins", "*.sock"))
	for _, path := range plugins {
		if at := modified(path); at.After(latest) {
			latest = at
		}
	}
	return latest
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// extended returns the resources of the Pod that device plugins serve.
func extended(pod *corev1.Pod) []corev1.ResourceName {
	var names []corev1.ResourceName
	for _, c := range pod.Spec.Containers {
		for name := range c.Resources.Limits {
			names = append(names, name)
		}
	}
	return names
}

// nodeFor is how long one reading of the Node object counts.
const nodeFor = 2 * time.Second

// nodeReader reads the Node object, at most once per nodeFor whoever asks.
type nodeReader struct {
	api  *apiServer
	name string

	mu   sync.Mutex
	node *corev1.Node
	err  error
	at   time.Time
}

func (r *nodeReader) read(ctx context.Context, now time.Time) (*corev1.Node, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || now.Sub(r.at) >= nodeFor {
		r.node, r.err = r.api.node(ctx, r.name)
		r.at = now
	}
	return r.node, r.err
}

// notWhileSick fills in that a GPU of the Pod is in no state to start an engine on, as far as that is known.
func (a *Agent) notWhileSick(s *sight) {
	if a.cfg.Health == nil || s.node.NotNow != "" || len(extended(s.pod)) == 0 {
		return
	}
	var uuids []string
	if s.track != nil {
		for _, d := range s.track.memory.last.Devices {
			uuids = append(uuids, d.UUID)
		}
	}
	if why := a.cfg.Health.Sick(s.pod, uuids); why != "" {
		s.node.NotNow, s.node.NotNowMessage, s.node.NotNowUntil = v1alpha1.WaitingGPU, why, s.now.Add(relist)
	}
}

// notNow fills in why the Pod may not be taken out of traffic now. kubelet admits Pods anew when
// it starts, and a container that is down while its device plugin is not registered loses the
// Pod its devices.
func (a *Agent) notNow(ctx context.Context, pod *corev1.Pod, n *Node) {
	resources := extended(pod)
	if len(resources) == 0 {
		return
	}
	now := a.cfg.Clock.Now()
	if until := a.kubelet.started().Add(a.cfg.Settle); now.Before(until) {
		n.NotNow, n.NotNowUntil = v1alpha1.WaitingSettle, until
		n.NotNowMessage = "kubelet or a device plugin started less than " + a.cfg.Settle.String() + " ago"
		return
	}
	node, err := a.node.read(ctx, now)
	for _, name := range resources {
		if err != nil {
			n.NotNow, n.NotNowMessage = v1alpha1.WaitingDevicePlugin, err.Error()
		} else if q := node.Status.Allocatable[name]; q.IsZero() {
			n.NotNow = v1alpha1.WaitingDevicePlugin
			n.NotNowMessage = fmt.Sprintf("node %s offers no %s: see its device plugin", a.cfg.NodeName, name)
		}
		n.NotNowUntil = now.Add(relist)
	}
}
