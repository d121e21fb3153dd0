//go:build lab

package onlab

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
)

// on says which containers hold how much of the device.
func (s *scene) on(uuid string) map[string]int64 {
	s.t.Helper()
	held := map[string]int64{}
	for _, device := range s.holders(s.node.Name, s.reading()) {
		for _, h := range device.List {
			if h.Outcome != attribution.Attributed || h.PodUID != string(s.pod.UID) {
				s.t.Errorf("on %s is %+v", device.UUID, h)
			}
			if device.UUID == uuid {
				held[h.Container] = h.MiB
			}
		}
	}
	return held
}

func TestAWeightServerSharesTheGPUsOfItsEngine(t *testing.T) {
	s := newScene(t, cluster.PodSpec{Name: "gpu-weights", Image: images.engine, GPUs: 3, Sidecar: images.weights, SidecarGPUMiB: 300})
	for _, uuid := range uuids() {
		if diff := cmp.Diff(map[string]int64{"engine": engineMiB, "sidecar": 300}, s.on(uuid)); diff != "" {
			t.Errorf("on %s (-want +got):\n%s", uuid, diff)
		}
	}
}

// The memory of a dead engine is free after 5 s: the next one finds too little, ends, and kubelet's back-off brings
// one that finds enough.
func TestAnEngineThatComesTooEarlyFindsNoMemory(t *testing.T) {
	s := newScene(t, cluster.PodSpec{Name: "gpu-slow", Image: images.slow, GPUs: 3})
	client, err := s.Runtime(s.node.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	pod, err := client.Pod(t.Context(), string(s.pod.UID))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := pod.Newest("engine")
	if err := client.Stop(t.Context(), before.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	// The driver lists the memory as long as it is not free, and whose it was cannot be told any more.
	if h := s.holders(s.node.Name, s.reading())[0].List; len(h) != 1 || h[0].Outcome != attribution.Unattributed || h[0].MiB != engineMiB {
		t.Errorf("after its end %+v holds memory", h)
	}
	released := s.untilFree()
	t.Logf("memory of the dead engine was free %s after its end", released.Sub(died).Round(100*time.Millisecond))
	last := s.mustPod(s.WaitPod(t.Context(), s.pod.Name, func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount >= 2 && readiness.Ready(p)
	}))
	if end := last.Status.ContainerStatuses[0].LastTerminationState.Terminated; last.Status.ContainerStatuses[0].RestartCount != 2 || end == nil || end.ExitCode != 1 {
		t.Errorf("after it %+v", last.Status.ContainerStatuses[0])
	}
	if diff := cmp.Diff(map[string]int64{"engine": engineMiB}, s.on(uuids()[0])); diff != "" {
		t.Errorf("at last (-want +got):\n%s", diff)
	}
}

// untilFree waits until the driver lists nothing on the first device.
func (s *scene) untilFree() time.Time {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		r := s.probe.Read(ctx)
		return r.State == gpu.Up && len(r.Devices[0].Processes.List) == 0, nil
	})
	if err != nil {
		s.t.Fatalf("memory is not released: %v", err)
	}
	return time.Now()
}

func (s *scene) mustPod(pod *corev1.Pod, err error) *corev1.Pod {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}
