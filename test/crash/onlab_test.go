//go:build lab

package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"pitstop.dev/cri"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/crash/victim"
	"pitstop.dev/test/lab"
)

// Killed at any write on a real node, in its own Pod, and started again by kubelet: the update
// ends as if nothing had been. Each write point has a fresh Pod and a fresh agent.
func TestOnTheLabKilledAtAnyWrite(t *testing.T) {
	began := time.Now()
	l := newLabWorld(t)
	points := l.learn(t)
	for _, p := range points {
		t.Run(p.String(), func(t *testing.T) { l.killAndSee(t, p) })
	}
	t.Logf("%d write points on the lab, %s", len(points), time.Since(began).Round(time.Second))
}

// A labWorld is one node of the lab whose agent is this test's.
type labWorld struct {
	*watcher
	*cluster.Cluster
	node    lab.Node
	runtime *cri.Client
	agent   corev1.PodSpec // of the DaemonSet, with the image of this test
	v1      string
	serial  int
}

func newLabWorld(t *testing.T) *labWorld {
	t.Helper()
	c, err := cluster.Start(t.Context(), os.Stderr)
	must(t, err)
	l := &labWorld{Cluster: c, node: quietest(t, c)}
	l.runtime, err = c.Runtime(l.node.Name)
	must(t, err)
	t.Cleanup(func() { must(t, l.runtime.Close()) })
	l.v1, err = c.Engine(t.Context(), "v1", nil)
	must(t, err)
	l.prepareAgent(t)
	l.takeNode(t)
	l.watcher, err = newWatcher(c.Updates, informers.NewSharedInformerFactoryWithOptions(c.Core, 0,
		informers.WithNamespace(namespace)).Core().V1().Pods().Informer())
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() { l.run(ctx) })
	l.await(t)
	return l
}

// quietest returns the node with the fewest Pods of the agent's: each of them may add commits.
func quietest(t *testing.T, c *cluster.Cluster) lab.Node {
	t.Helper()
	pods, err := c.Core.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	gated := map[string]int{}
	for i := range pods.Items {
		gated[pods.Items[i].Spec.NodeName] += count(readiness.HasGate(&pods.Items[i]))
	}
	return slices.MinFunc(c.Nodes(), func(a, b lab.Node) int { return gated[a.Name] - gated[b.Name] })
}

// prepareAgent builds the agent's image, and takes its Pod from the DaemonSet.
func (l *labWorld) prepareAgent(t *testing.T) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "crashagent")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "./cmd/crashagent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	data, err := os.ReadFile(binary)
	must(t, err)
	img, err := lab.StaticImage("/crashagent", data)
	must(t, err)
	digest, err := img.Digest()
	must(t, err)
	_, err = l.PushAs(t.Context(), "crashagent:dev", img)
	must(t, err)
	set, err := l.Core.AppsV1().DaemonSets(cluster.System).Get(t.Context(), cluster.DaemonSet, metav1.GetOptions{})
	must(t, err)
	l.agent = set.Spec.Template.Spec
	l.agent.Containers[0].Image = l.Registry().Ref("crashagent@" + digest.String())
	// The node is a fixed one, and no other.
	l.agent.NodeName, l.agent.NodeSelector, l.agent.Affinity = l.node.Name, nil, nil
	l.agent.TerminationGracePeriodSeconds = new(int64(1))
	l.agent.Containers[0].ReadinessProbe.PeriodSeconds = 1
}

// takeNode makes the DaemonSet withdraw from the node, without a change to the DaemonSet.
func (l *labWorld) takeNode(t *testing.T) {
	t.Helper()
	label := func(ctx context.Context, value string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, cluster.NoAgent, value)
		_, err := l.Core.CoreV1().Nodes().Patch(ctx, l.node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	must(t, label(t.Context(), `"true"`))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		must(t, errors.Join(label(ctx, "null"), l.WaitAgents(ctx)))
	})
	if !eventually(t, patient, func() bool { return !l.agentOfDaemonSet(t) }) {
		t.Fatal("the DaemonSet's agent stays on the node")
	}
}

func (l *labWorld) agentOfDaemonSet(t *testing.T) bool {
	t.Helper()
	list, err := l.Core.CoreV1().Pods(cluster.System).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + l.node.Name})
	must(t, err)
	for _, pod := range list.Items {
		if owner := metav1.GetControllerOf(&pod); owner != nil && owner.Kind == appsv1.SchemeGroupVersion.WithKind("DaemonSet").Kind && owner.Name == cluster.DaemonSet {
			return true
		}
	}
	return false
}

// A labScene is one Pod in service with an order, and an agent that is to die once.
type labScene struct {
	subject
	*labWorld
	name  string
	agent *corev1.Pod
}

func (l *labWorld) newScene(t *testing.T, p victim.Point) *labScene {
	t.Helper()
	l.serial++
	s := &labScene{labWorld: l, name: fmt.Sprintf("crash-%d", l.serial)}
	s.subject = subject{watcher: l.watcher, core: l.Core, runtime: l.runtime, t: t, change: map[string]string{}}
	var err error
	// Another image each time, so that it has to be pulled.
	s.change["engine"], err = l.Engine(t.Context(), s.name, nil)
	must(t, err)
	t.Cleanup(s.clean)
	s.clean() // of a run that was broken off
	s.startAgent(p)
	s.pod, err = l.Run(t.Context(), cluster.PodSpec{Name: s.name, Node: l.node.Name, Image: l.v1, Sidecar: l.v1})
	must(t, err)
	s.remember()
	return s
}

// folder is where the agent's journal is, on the node and on this machine.
func (s *labScene) folder() (onNode, here string) {
	return "/var/lib/pitstop/crash/" + s.name, filepath.Join(s.node.JournalDir, "crash", s.name)
}

func (s *labScene) agentName() string { return "agent-" + s.name }

func (s *labScene) startAgent(p victim.Point) {
	t := s.t
	t.Helper()
	onNode, _ := s.folder()
	spec := s.labWorld.agent.DeepCopy()
	moved := 0
	for i, v := range spec.Volumes {
		if v.HostPath != nil && v.HostPath.Path == "/var/lib/pitstop" {
			spec.Volumes[i].HostPath = &corev1.HostPathVolumeSource{Path: onNode, Type: ptr.To(corev1.HostPathDirectoryOrCreate)}
			moved++
		}
	}
	if moved != 1 {
		t.Fatalf("%d volumes for the journal in the DaemonSet", moved)
	}
	spec.Containers[0].Args = append(spec.Containers[0].Args, "--point="+p.String(), "--only="+s.name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.agentName(), Namespace: cluster.System}, Spec: *spec}
	var err error
	s.agent, err = s.Core.CoreV1().Pods(cluster.System).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
}

// clean takes everything away again and waits until it is gone.
func (s *labScene) clean() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 2*patient)
	defer cancel()
	agents := s.Core.CoreV1().Pods(cluster.System)
	if err := agents.Delete(ctx, s.agentName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	must(s.t, s.Remove(ctx, s.name)) // its order goes with it
	if !eventually(s.t, patient, func() bool {
		_, err := agents.Get(ctx, s.agentName(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}) {
		s.t.Fatal("the agent's Pod does not go")
	}
	_, here := s.folder()
	must(s.t, os.RemoveAll(here))
}

func (s *labScene) give() {
	s.t.Helper()
	u := cluster.Order(s.pod, s.change)
	u.Spec.PropagationSeconds = new(int32(0))
	u.Spec.Revision = "v2"
	_, err := s.Give(s.t.Context(), u)
	must(s.t, err)
}

func (s *labScene) traced() []string {
	_, here := s.folder()
	data, err := os.ReadFile(filepath.Join(here, "trace"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (s *labScene) awaitService() {
	s.t.Helper()
	if !eventually(s.t, 2*patient, s.inService) {
		s.t.Fatalf("the update does not end\n%s", s.story())
	}
	if s.agentOfDaemonSet(s.t) {
		s.t.Fatal("the DaemonSet's agent works on the node too")
	}
	awaitQuiet(s.t, s.traced)
}

func (s *labScene) story() string {
	out, _ := s.Kubectl(s.t.Context(), "-n", cluster.System, "logs", s.agentName(), "--tail=200")
	before, _ := s.Kubectl(s.t.Context(), "-n", cluster.System, "logs", s.agentName(), "--previous", "--tail=200")
	return s.subject.story() + "--- before\n" + before + "--- after\n" + out + "--- trace\n" + strings.Join(s.traced(), "\n")
}

func (l *labWorld) learn(t *testing.T) []victim.Point {
	t.Helper()
	var points []victim.Point
	t.Run("undisturbed", func(t *testing.T) {
		s := l.newScene(t, victim.Point{})
		before := len(s.traced()) // the opening of the new Pod's gate comes first
		s.give()
		s.awaitService()
		s.check(s.story)
		for _, line := range s.traced()[before:] {
			t.Log(line)
		}
		points = parsePoints(t, s.traced())
	})
	return points
}

func (l *labWorld) killAndSee(t *testing.T, p victim.Point) {
	t.Helper()
	for range tries {
		s := l.newScene(t, p)
		s.give()
		s.awaitService()
		if !s.killed() {
			t.Logf("write point %s was not reached\n%s", p, s.story())
			continue
		}
		s.awaitRestart()
		awaitQuiet(t, s.traced)
		s.check(s.story)
		return
	}
	t.Fatalf("write point %s was never reached", p)
}

// killed reports whether the agent has come to its write point.
func (s *labScene) killed() bool {
	_, here := s.folder()
	_, err := os.Stat(filepath.Join(here, "killed"))
	return err == nil
}

// awaitRestart waits until kubelet has started the agent again, once, and it is ready.
func (s *labScene) awaitRestart() {
	t := s.t
	t.Helper()
	var last corev1.ContainerStatus
	if !eventually(t, patient, func() bool {
		pod, err := s.Core.CoreV1().Pods(cluster.System).Get(t.Context(), s.agentName(), metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		last = pod.Status.ContainerStatuses[0]
		return last.Ready && last.RestartCount > 0
	}) {
		t.Fatalf("the agent does not come back: %+v\n%s", last, s.story())
	}
	died := last.LastTerminationState.Terminated
	if last.RestartCount != 1 || died == nil || died.ExitCode != 128+int32(syscall.SIGKILL) {
		t.Fatalf("the agent was started again %d times, it had ended with %+v\n%s", last.RestartCount, died, s.story())
	}
}
