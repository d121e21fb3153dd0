package agent

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/gpu/residency"
)

// A swapped container was patched at second 0; "a" is the old container and "b" the new one.
func swapSight(now float64, containers ...cri.Container) (*sight, *Update) {
	order := &v1alpha1.InPlaceUpdate{}
	order.Spec.Attempt, order.Status.Attempt = 1, 1
	order.Status.Containers = []v1alpha1.ContainerReport{{Name: "engine", Before: &v1alpha1.ContainerState{Image: "v1", ContainerID: "a"}}}
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{}
	s := &sight{now: at(now), order: order, pod: pod, track: &track{}, cri: cri.Pod{Containers: containers}}
	u := &Update{Pod: Pod{Patched: Patch{At: at(0)}}, Node: Node{RuntimeUp: true}}
	c := Container{Name: "engine", Regular: true, SpecImage: "v2", SpecHash: "new"}
	if newest, ok := s.cri.Newest("engine"); ok {
		c.Now = Running{ID: newest.ID, Up: newest.State == cri.Running, Made: newest.State == cri.Created, Hash: newest.Hash}
	}
	u.Containers = []Container{c}
	return s, u
}

func TestWhenTheOldContainersEnded(t *testing.T) {
	old := func(state cri.State, finished float64) cri.Container {
		c := cri.Container{ID: "a", Name: "engine", State: state, Hash: "old", CreatedAt: at(-1000)}
		if finished > 0 {
			c.FinishedAt = at(finished)
		}
		return c
	}
	made := func(id string, created float64) cri.Container {
		return cri.Container{ID: id, Name: "engine", State: cri.Running, Hash: "new", CreatedAt: at(created)}
	}
	reported := func(s *sight) { s.order.Status.Timings = &v1alpha1.Timings{Stop: new(int64(3000))} }
	for name, tt := range map[string]struct {
		containers []cri.Container
		change     func(*sight)
		want       time.Time // zero: not known
	}{
		"while it runs": {[]cri.Container{old(cri.Running, 0)}, nil, time.Time{}},
		"while nothing replaces it, and its end is not known": {[]cri.Container{old(cri.Unknown, 0)}, nil, time.Time{}},
		"as the runtime says": {[]cri.Container{made("b", 5), old(cri.Exited, 3)}, nil, at(3)},
		"when the next one was made, if the runtime has lost track of it": {
			[]cri.Container{made("b", 5), old(cri.Unknown, 0)}, nil, at(5),
		},
		"when the next one was made, if it was collected": {[]cri.Container{made("b", 5)}, nil, at(5)},
		"when the next one is first seen, if the runtime's clock says that it is from before the patch": {
			[]cri.Container{made("b", -5), old(cri.Unknown, 0)}, nil, at(50),
		},
		"as reported, which outlives its collection and the next ones'": {[]cri.Container{made("c", 40)}, reported, at(3.001)},
		"not as reported on another attempt": {
			[]cri.Container{made("b", 5), old(cri.Exited, 4)}, func(s *sight) { reported(s); s.order.Status.Attempt = 0 }, at(0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := swapSight(50, tt.containers...)
			s.pod.Annotations[v1alpha1.PatchedAt] = v1alpha1.PatchMark{Token: "x/1", At: at(0)}.String()
			if tt.change != nil {
				tt.change(s)
			}
			if got := s.oldEnded(u); !got.Equal(tt.want) {
				t.Errorf("ended at %v, want %v", got.Sub(at(0)), tt.want.Sub(at(0)))
			}
		})
	}
}

func TestTheReleaseDeadlineOutlivesARestartAndACollection(t *testing.T) {
	a := &Agent{}
	old := cri.Container{ID: "a", Name: "engine", State: cri.Exited, Hash: "old", FinishedAt: at(3), CreatedAt: at(-1000)}
	next := cri.Container{ID: "b", Name: "engine", State: cri.Running, Hash: "new", CreatedAt: at(5)}
	s, u := swapSight(10, next, old)
	s.track.memory.baseline = &residency.Baseline{}
	u.GPUs.Judged, u.Pod.patchedByOrder = true, true
	if got := a.circumstances(s, u).Since; !got.Equal(at(3)) {
		t.Fatalf("since %v", got.Sub(at(0)))
	}
	a.fillTimings(s, *u, Step{Stage: v1alpha1.StageProved}, &s.order.Status)

	next.ID, next.CreatedAt = "d", at(300)
	later, u := swapSight(301, next)
	later.order = s.order
	if got := a.circumstances(later, u).Since; got.Before(at(3)) || got.After(at(4)) {
		t.Errorf("since %v for the next agent", got.Sub(at(0)))
	}
}

func TestWhoseFirstStartFailedForWantOfMemory(t *testing.T) {
	first := func(state cri.State) cri.Container {
		c := cri.Container{ID: "b", Name: "engine", State: state, Hash: "new", RestartCount: 1, CreatedAt: at(5), StartedAt: at(5.1)}
		switch state {
		case cri.Exited:
			c.FinishedAt, c.ExitCode = at(6), 1
		case cri.Created:
			c.StartedAt = time.Time{}
		case cri.Running, cri.Unknown:
		}
		return c
	}
	second := cri.Container{ID: "c", Name: "engine", State: cri.Running, Hash: "new", RestartCount: 2, CreatedAt: at(7), StartedAt: at(7)}
	ended := func(id string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "engine", ContainerID: "containerd://c", LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ContainerID: "containerd://" + id, ExitCode: code, StartedAt: metav1.NewTime(at(5))},
		}}
	}
	for name, tt := range map[string]struct {
		seen   []cri.Container // at an earlier look
		now    []cri.Container
		status corev1.ContainerStatus
		held   float64 // until when old memory was seen
		want   bool
	}{
		"one that the runtime still has":                     {nil, []cri.Container{second, first(cri.Exited)}, ended("b", 1), 7, true},
		"one that still runs":                                {nil, []cri.Container{first(cri.Running)}, corev1.ContainerStatus{}, 7, false},
		"one that was collected, and the Pod's status tells": {[]cri.Container{first(cri.Running)}, []cri.Container{second}, ended("b", 1), 7, true},
		"one that was seen before it was started":            {[]cri.Container{first(cri.Created)}, []cri.Container{second}, ended("b", 1), 6, true},
		"and not if memory was held before that, as far as whole seconds tell": {
			[]cri.Container{first(cri.Created)}, []cri.Container{second}, ended("b", 1), 5.9, false,
		},
		"one that ended well": {[]cri.Container{first(cri.Running)}, []cri.Container{second}, ended("b", 0), 7, false},
		"one that was collected, and the status tells of another": {[]cri.Container{first(cri.Running)}, []cri.Container{second}, ended("c", 1), 7, false},
		"one that nobody saw is a crash":                          {nil, []cri.Container{second}, ended("b", 1), 7, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := swapSight(8, tt.seen...)
			s.starve(&u.Containers[0])
			s.cri.Containers = tt.now
			s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{tt.status}
			s.track.memory.watch.HeldAt = at(tt.held)
			if s.starve(&u.Containers[0]); u.Containers[0].Starved != tt.want {
				t.Errorf("starved %t", u.Containers[0].Starved)
			}
		})
	}
}

func TestSlimKeepsHowAContainerEndedLast(t *testing.T) {
	end := corev1.ContainerStateTerminated{ExitCode: 1, ContainerID: "containerd://b", StartedAt: metav1.NewTime(at(5)), Message: "a long one"}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "engine", LastTerminationState: corev1.ContainerState{Terminated: &end}}, {Name: "side"},
	}}}
	got := slimPod(pod).Status.ContainerStatuses
	kept := got[0].LastTerminationState.Terminated
	if kept == nil || kept.ExitCode != 1 || kept.ContainerID != end.ContainerID || !kept.StartedAt.Equal(&end.StartedAt) || kept.Message != "" {
		t.Errorf("kept %+v", kept)
	}
	if got[1].LastTerminationState.Terminated != nil {
		t.Error("made up an end")
	}
}
