//go:build lab

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri/fake"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/crash/victim"
)

// patient bounds every wait for something that must come.
const patient = time.Minute

// The containers of the Pod. The first two are updated.
var containers = []string{"engine", "router", "sidecar"}

// A scene is one Pod in service on a node of its own with an order to change two of its three
// images, and what is on the disk of that node's agent.
type scene struct {
	subject
	world  *world
	name   string
	dir    string // of everything; the journal's folder is in it
	agents int
	open   bool          // the update was under way when its agent died
	holder *agentProcess // the one that hangs with the journal locked
}

func newScene(t *testing.T, w *world) *scene {
	t.Helper()
	s := &scene{world: w, name: w.next()}
	s.subject = subject{
		watcher: w.watcher, core: w.core, runtime: w.runtime, t: t,
		change: map[string]string{"engine": s.image("engine", "v2"), "router": s.image("router", "v2")},
	}
	s.dir = filepath.Join(w.dir, s.name)
	must(t, os.MkdirAll(s.dir, 0o755))
	for _, c := range containers {
		for _, v := range []string{"v1", "v2"} {
			w.fake.Publish(s.image(c, v), fake.Image{})
		}
	}
	s.run()
	return s
}

func (s *scene) image(container, version string) string {
	return "registry.example/" + container + ":" + version + "-" + s.name
}

func (s *scene) journal() string { return filepath.Join(s.dir, "journal") }

// run makes the Pod and waits until it is in service.
func (s *scene) run() {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Annotations: map[string]string{v1alpha1.MetricsPort: s.world.engine}},
		Spec: corev1.PodSpec{
			NodeName: s.name, AutomountServiceAccountToken: new(false),
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}},
		},
	}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: c, Image: s.image(c, "v1"), ImagePullPolicy: corev1.PullIfNotPresent,
		})
	}
	var err error
	s.pod, err = s.core.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patient)
		defer cancel()
		must(t, s.core.CoreV1().Pods(namespace).Delete(ctx, s.name, uidOnly(s.pod)))
	})
	if !eventually(t, patient, s.opened) {
		t.Fatalf("the gate is not open: %+v", s.latest(s.pod.UID))
	}
	if !eventually(t, patient, func() bool { return s.latest(s.pod.UID).Ready == corev1.ConditionTrue }) {
		t.Fatalf("the Pod is not Ready: %+v", s.latest(s.pod.UID))
	}
	s.remember()
}

// opened opens the gate of the new Pod and reports whether that is done: kubelet writes too.
func (s *scene) opened() bool {
	pods := s.core.CoreV1().Pods(namespace)
	live, err := pods.Get(s.t.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	if data, needed := readiness.Sync(live, live.CreationTimestamp.Time); needed {
		_, err = pods.Patch(s.t.Context(), s.name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	}
	return err == nil
}

// give creates the order.
func (s *scene) give() {
	s.t.Helper()
	u := cluster.Order(s.pod, s.change)
	u.Spec.PropagationSeconds = new(int32(0))
	u.Spec.Revision = "v2"
	must(s.t, s.world.updates.Post().Namespace(namespace).Resource("inplaceupdates").Body(u).Do(s.t.Context()).Error())
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patient)
		defer cancel()
		must(s.t, s.world.updates.Delete().Namespace(namespace).Resource("inplaceupdates").Name(s.name).Do(ctx).Error())
	})
}

// An agent is a process of its own.
type agentProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    string
	socket string
	exited chan struct{}
	err    error // valid once exited is closed
}

// start runs an agent of the scene's node.
func (s *scene) start(o victim.Options) *agentProcess {
	t := s.t
	t.Helper()
	s.agents++
	p := &agentProcess{
		t: t, log: filepath.Join(s.dir, fmt.Sprintf("agent%d.log", s.agents)),
		socket: filepath.Join(s.dir, fmt.Sprintf("%d.sock", s.agents)), exited: make(chan struct{}),
	}
	o.Node, o.Namespace, o.Identity = s.name, namespace, fmt.Sprintf("%s-%d", s.name, s.agents)
	o.Kubeconfig, o.QPS, o.Burst = s.world.plane.KubeconfigPath(), 100, 200
	o.Runtime, o.KubeletDir, o.JournalDir = s.world.fake.Endpoint(), s.world.kubeletDir(), s.journal()
	o.Listen, o.Trace = "unix:"+p.socket, s.trace()
	text, err := json.Marshal(o)
	must(t, err)
	out, err := os.Create(p.log)
	must(t, err)
	defer out.Close() //nolint:errcheck // the child has it
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	p.cmd.Env = append(os.Environ(), victimOptions+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(p.kill)
	return p
}

func (s *scene) trace() string { return filepath.Join(s.dir, "trace") }

func (p *agentProcess) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// end asks the process to end and returns how it did.
func (p *agentProcess) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if !eventually(p.t, patient, p.gone) {
		return fmt.Errorf("agent %d does not end", p.cmd.Process.Pid)
	}
	return p.err
}

func (p *agentProcess) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// killed reports whether the process has ended by SIGKILL.
func (p *agentProcess) killed() bool {
	if !p.gone() {
		return false
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stopped reports whether the process is frozen by SIGSTOP.
func (p *agentProcess) stopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(after, []byte("T"))
}

// ready asks /readyz.
func (p *agentProcess) ready() (status int, text string, err error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
		},
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://agent/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// story is all that is known of a case that went wrong.
func (s *scene) story() string {
	var b strings.Builder
	b.WriteString(s.subject.story())
	names, _ := filepath.Glob(filepath.Join(s.dir, "*"))
	slices.Sort(names)
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil {
			fmt.Fprintf(&b, "--- %s\n%s", filepath.Base(name), data)
		}
	}
	return b.String()
}

// awaitService waits for the end of the update.
func (s *scene) awaitService() {
	s.t.Helper()
	if !eventually(s.t, patient, s.inService) {
		s.t.Fatalf("the update does not end\n%s", s.story())
	}
}
