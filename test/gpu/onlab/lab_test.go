//go:build lab

package onlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
	"pitstop.dev/gpu/probe"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/server"
	"pitstop.dev/test/gpu/rig"
	"pitstop.dev/test/gpu/stub"
	"pitstop.dev/test/lab"
)

// uuids are the GPUs of the node.
func uuids() []string {
	return []string{"GPU-00000001-0000-4000-8000-00000000000a", "GPU-00000001-0000-4000-8000-00000000000b", "GPU-00000001-0000-4000-8000-00000000000c"}
}

// A scene is a node with GPUs and a Pod that has two of them.
type scene struct {
	*cluster.Cluster
	t     *testing.T
	node  lab.Node
	rig   *rig.Rig
	probe *probe.Client
	pod   *corev1.Pod
}

const (
	engineMiB = 1000
	// nodeMiB is what each GPU has: not enough for two engines.
	nodeMiB = 1500
	// manyMiB is what each of the second node's has: enough for two engines, unless they are large.
	manyMiB  = 4000
	largeMiB = 3000
)

var (
	shared *cluster.Cluster
	// many are the GPUs of the second node, whose agent sees them. Tests of updates share them.
	many   *rig.Rig
	images struct{ engine, slow, weights, next, late, leaking, loading, large, larger string }
)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	err := errors.Join(cluster.SideBySide("10"), start(ctx))
	code := 1
	if err == nil {
		code = m.Run()
		err = errors.Join(many.Close(), shared.DropGPUs(ctx))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "onlab:", err)
		code = 1
	}
	os.Exit(code)
}

func start(ctx context.Context) error {
	var err error
	if shared, err = cluster.Start(ctx, os.Stderr); err != nil {
		return err
	}
	node := shared.Nodes()[1]
	if many, err = shared.GPUs(ctx, rig.Config{Node: node, UUIDs: manyUUIDs(), MiB: manyMiB}); err != nil {
		return err
	}
	if err := shared.RestartAgent(ctx, node.Name); err != nil {
		return err
	}
	with := func(mib int, more ...string) map[string]string {
		env := map[string]string{server.EnvGPUMiB: fmt.Sprint(mib)}
		for pair := range slices.Chunk(more, 2) {
			env[pair[0]] = pair[1]
		}
		return env
	}
	return shared.Engines(ctx,
		cluster.EngineTag{Ref: &images.engine, Name: "gpu", Env: with(engineMiB)},
		cluster.EngineTag{Ref: &images.slow, Name: "gpu-slow", Env: with(engineMiB, server.EnvGPURelease, "5s")},
		cluster.EngineTag{Ref: &images.weights, Name: "weights"},
		cluster.EngineTag{Ref: &images.next, Name: "gpu-next", Env: with(engineMiB)},
		cluster.EngineTag{Ref: &images.late, Name: "gpu-late", Env: with(engineMiB, server.EnvGPURelease, "20s")},
		cluster.EngineTag{Ref: &images.leaking, Name: "gpu-leaking", Env: with(engineMiB, server.EnvGPURelease, "never")},
		cluster.EngineTag{Ref: &images.loading, Name: "gpu-loading", Env: with(engineMiB, server.EnvLoad, "20s")},
		cluster.EngineTag{Ref: &images.large, Name: "gpu-large", Env: with(largeMiB, server.EnvGPURelease, "5s")},
		cluster.EngineTag{Ref: &images.larger, Name: "gpu-larger", Env: with(largeMiB)},
	)
}

// newScene gives the first node GPUs and runs the Pod there. All of it is gone at the end of the test.
func newScene(t *testing.T, spec cluster.PodSpec) *scene {
	t.Helper()
	s := &scene{Cluster: shared, t: t, node: shared.Nodes()[0]}
	var err error
	if s.rig, err = s.GPUs(t.Context(), rig.Config{Node: s.node, UUIDs: uuids(), MiB: nodeMiB}); err != nil {
		t.Fatal(err)
	}
	s.probe = s.driver()
	t.Cleanup(func() {
		if err := errors.Join(s.Remove(context.WithoutCancel(t.Context()), spec.Name), s.rig.Close()); err != nil {
			t.Error(err)
		}
	})
	spec.Node, spec.Ungated = s.node.Name, true
	if s.pod, err = s.Run(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return s
}

// assigned waits until kubelet's answer is Known and returns what the engine has; doubts are the reasons that it was
// not before. Answers from before since do not count.
func (s *scene) assigned(client *attribution.PodResources, since time.Time) (devices []attribution.Assigned, doubts []attribution.Doubt) {
	s.t.Helper()
	var got attribution.Assignments
	err := wait.PollUntilContextTimeout(s.t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if got = client.Read(ctx); got.At.Before(since) {
			return false, nil
		}
		doubts = append(doubts, got.Reason)
		return got.Confidence == attribution.Known, nil
	})
	if err != nil {
		s.t.Fatalf("%v: %+v", err, got)
	}
	return got.Of(attribution.PodName{Namespace: s.pod.Namespace, Name: s.pod.Name}, "engine"), slices.Compact(doubts)
}

// agent is the Pod of the agent on the node: one that kubelet knows from the API server alone.
func (s *scene) agent() attribution.PodName {
	s.t.Helper()
	list, err := s.Core.CoreV1().Pods(cluster.System).List(s.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.node.Name})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range list.Items {
		if strings.HasPrefix(p.Name, cluster.DaemonSet) {
			return attribution.PodName{Namespace: p.Namespace, Name: p.Name}
		}
	}
	s.t.Fatal("no agent on the node")
	return attribution.PodName{}
}

// driver returns the probe of the node's GPUs, which has loaded the node's library.
func (s *scene) driver() *probe.Client {
	s.t.Helper()
	dir := s.t.TempDir()
	path, err := stub.Probe(s.t.Context(), filepath.Join("..", "..", ".."), dir)
	if err != nil {
		s.t.Fatal(err)
	}
	client := probe.New(probe.Config{Path: path, Args: []string{"--library=" + filepath.Join(s.node.GPUDir, stub.LibraryName)}})
	ctx, stop := context.WithCancel(s.t.Context())
	var run sync.WaitGroup
	run.Go(func() { client.Run(ctx) })
	s.t.Cleanup(func() { stop(); run.Wait() })
	return client
}

// reading is what the driver says.
func (s *scene) reading() gpu.Reading {
	s.t.Helper()
	r := s.probe.Read(s.t.Context())
	if r.State != gpu.Up || len(r.Devices) != len(uuids()) {
		s.t.Fatalf("the driver says %+v", r)
	}
	return r
}

// holders joins a reading with procfs and the runtime of a node.
func (s *scene) holders(node string, r gpu.Reading) []attribution.Holders {
	s.t.Helper()
	client, err := s.Runtime(node)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	list, known := attribution.Attributor{Procfs: attribution.Procfs{Root: "/proc"}, Runtime: attribution.CRI{Client: client}}.Attribute(s.t.Context(), r)
	if !known {
		s.t.Fatal("the devices are not known")
	}
	return list
}

func TestAPodHasGPUsAndItsEngineTheirMemory(t *testing.T) {
	s := newScene(t, cluster.PodSpec{Name: "gpu-engine", Image: images.engine, GPUs: 2})
	client := attribution.NewPodResources(attribution.PodResourcesConfig{Dir: filepath.Join(s.node.KubeletDir, "pod-resources"), Witness: s.agent()})
	devices, doubts := s.assigned(client, time.Time{})
	t.Logf("kubelet's answer was %q before it was Known", doubts)
	r := s.reading()
	var has []string
	for _, d := range devices {
		target, ok := d.Ref.Find(r)
		if !ok || d.Resource != "nvidia.com/gpu" {
			t.Fatalf("device %+v is none of the node's", d)
		}
		has = append(has, target.Device.UUID)
	}
	if len(has) != 2 {
		t.Fatalf("the engine has %q, asked for 2", has)
	}
	t.Logf("kubelet gave %q", has)

	holder := func(o attribution.Outcome, reason attribution.Reason, name string) attribution.Holder {
		_, id, _ := strings.Cut(s.pod.Status.ContainerStatuses[0].ContainerID, "://")
		return attribution.Holder{
			MiB: engineMiB, Outcome: o, Reason: reason, PodUID: string(s.pod.UID), ContainerID: id, Container: name, Command: "engine", Line: "/engine",
		}
	}
	for node, want := range map[string]attribution.Holder{
		s.node.Name:       holder(attribution.Attributed, "", "engine"),
		s.Nodes()[1].Name: holder(attribution.Unattributed, attribution.UnknownContainer, ""),
	} {
		for _, got := range s.holders(node, r) {
			var wanted []attribution.Holder
			if slices.Contains(has, got.UUID) {
				wanted = []attribution.Holder{want}
			}
			if diff := cmp.Diff(wanted, got.List, cmpopts.IgnoreFields(attribution.Holder{}, "Message", "Identity")); diff != "" || !got.Known {
				t.Errorf("%s by the runtime of %s (-want +got):\n%s", got.UUID, node, diff)
			}
			t.Logf("%s by the runtime of %s: %+v", got.UUID, node, got.List)
		}
	}
	s.squatters(has[0])
	s.kubeletRestarts(client, devices)
	s.pluginComesAndGoes()

	if err := s.Remove(t.Context(), s.pod.Name); err != nil {
		t.Fatal(err)
	}
	if held, err := s.rig.Held(t.Context()); err != nil || len(held) > 0 {
		t.Errorf("without the Pod %+v, %v is held", held, err)
	}
}

// squatters: a process of the machine is told from the Pod's.
func (s *scene) squatters(uuid string) {
	t := s.t
	t.Helper()
	pid, stop, err := s.rig.Squat(t.Context(), uuid, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, on := range s.holders(s.node.Name, s.reading()) {
		for _, h := range on.List {
			if h.PID == pid && (h.Outcome != attribution.Unattributed || h.Reason != attribution.OnHost || h.Command != "sleep" || on.UUID != uuid) {
				t.Errorf("the squatter on %s is %+v", on.UUID, h)
			}
			if h.PID != pid && h.Outcome != attribution.Attributed {
				t.Errorf("beside a squatter on %s: %+v", on.UUID, h)
			}
		}
	}
}

// kubeletRestarts: for a while its answer means nothing, and then it is the same.
func (s *scene) kubeletRestarts(client *attribution.PodResources, before []attribution.Assigned) {
	t := s.t
	t.Helper()
	if err := s.node.RestartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, doubts := s.assigned(client, time.Now())
	t.Logf("after kubelet's restart its answer was %q before it was Known", doubts)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after kubelet's restart (-before +after):\n%s", diff)
	}
	if !slices.Contains(doubts, attribution.KubeletStarting) {
		t.Errorf("doubts after kubelet's restart: %q", doubts)
	}
	if err := s.WaitGPUs(t.Context(), s.node.Name, 3); err != nil {
		t.Error(err)
	}
}

func (s *scene) pluginComesAndGoes() {
	t := s.t
	t.Helper()
	offers := func(n int) {
		t.Helper()
		if err := s.WaitGPUs(t.Context(), s.node.Name, n); err != nil {
			t.Error(err)
		}
	}
	s.rig.Plugin().SetUnhealthy(uuids()[2])
	offers(2)
	s.rig.Plugin().SetHealthy(uuids()[2])
	offers(3)
	s.rig.StopPlugin()
	offers(0)
	if err := s.rig.StartPlugin(t.Context()); err != nil {
		t.Fatal(err)
	}
	offers(3)
	pod, err := s.Pod(t.Context(), s.pod.Name)
	if err != nil || !readiness.Ready(pod) || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the Pod is ready %t with %+v, %v", readiness.Ready(pod), pod.Status.ContainerStatuses, err)
	}
}
