//go:build lab

package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
)

// A park brings an update to a stage and keeps it there.
type park struct {
	stage   string
	spec    cluster.PodSpec
	patched bool // the images are patched at that stage
	order   func(*scene) *v1alpha1.InPlaceUpdate
	reached func(*v1alpha1.InPlaceUpdate, *corev1.Pod) bool
	during  func(*scene) // what keeps it there
}

func parks() []park {
	at := func(stage v1alpha1.Stage) func(*v1alpha1.InPlaceUpdate, *corev1.Pod) bool {
		return func(u *v1alpha1.InPlaceUpdate, _ *corev1.Pod) bool { return u.Status.Stage == stage }
	}
	withPermit := func(p v1alpha1.Permit) func(*scene) *v1alpha1.InPlaceUpdate {
		return func(s *scene) *v1alpha1.InPlaceUpdate {
			u := s.order(img.v2)
			u.Spec.Permit = p
			return u
		}
	}
	return []park{
		{
			stage:   "preparing", // the registry is not there
			order:   func(s *scene) *v1alpha1.InPlaceUpdate { return s.order("127.0.0.1:1/engine:v2") },
			reached: at(v1alpha1.StagePreparing),
		},
		{stage: "prepared", order: withPermit(v1alpha1.PermitPrepare), reached: at(v1alpha1.StagePrepared)},
		{
			stage: "draining", order: withPermit(v1alpha1.PermitServe), during: stream,
			reached: func(_ *v1alpha1.InPlaceUpdate, p *corev1.Pod) bool { return readiness.Acknowledged(p) },
		},
		{stage: "drained", order: withPermit(v1alpha1.PermitDrain), reached: at(v1alpha1.StageDrained)},
		{
			stage: "swapping", spec: cluster.PodSpec{Image: "stubborn", Grace: 40}, patched: true,
			order: withPermit(v1alpha1.PermitServe),
			reached: func(_ *v1alpha1.InPlaceUpdate, p *corev1.Pod) bool {
				return p.Annotations[v1alpha1.PatchedAt] != ""
			},
		},
		{
			stage: "proved", patched: true,
			order: func(s *scene) *v1alpha1.InPlaceUpdate { return s.order(img.slow) },
			reached: func(_ *v1alpha1.InPlaceUpdate, p *corev1.Pod) bool {
				return p.Annotations[v1alpha1.PatchedAt] != "" && readiness.GateOf(p).Open
			},
		},
	}
}

// stream keeps the engine busy for longer than a test lasts.
func stream(s *scene) {
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.pod.Status.PodIP+":8000/v1/completions?duration=50s&chunks=100", nil)
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
}

// parked brings a new Pod to the stage.
func parked(t *testing.T, p park, name string) *scene {
	t.Helper()
	p.spec.Name = name + "-" + p.stage
	if p.spec.Image == "stubborn" {
		p.spec.Image = img.stubborn
	}
	s := newScene(t, p.spec)
	if p.during != nil {
		p.during(s)
	}
	s.give(p.order(s))
	deadline := time.Now().Add(time.Minute)
	for {
		u, err := s.Update(t.Context(), p.spec.Name)
		if err != nil {
			t.Fatal(err)
		}
		if p.reached(u, s.must(s.Pod(t.Context(), p.spec.Name))) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("did not reach %s: %s %s %s", p.stage, u.Status.Stage, u.Status.Reason, u.Status.Message)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// eachStage runs the test once per stage, with a Pod whose update stands there.
func eachStage(t *testing.T, name string, test func(park, *scene)) {
	t.Helper()
	t.Parallel()
	for _, p := range parks() {
		t.Run(p.stage, func(t *testing.T) {
			t.Parallel()
			test(p, parked(t, p, name))
		})
	}
}

func TestANewAttemptInEachStage(t *testing.T) {
	eachStage(t, "next", func(p park, s *scene) {
		t := s.t
		next := s.order(img.v3)
		next.Spec.StopTimeoutSeconds = new(int32(2))
		next.Spec.Drain.TimeoutSeconds = new(int32(2))
		s.give(next)
		u := s.ends(v1alpha1.StageInService, "")
		c := u.Status.Containers[0]
		s.serves(img.v3, c.After.RestartCount)
		if !p.patched && c.After.RestartCount != 1 || c.Planned != 1 {
			t.Errorf("%d restarts, %d planned", c.After.RestartCount, c.Planned)
		}
		if p.stage == "draining" && (u.Status.RequestsCut == nil || *u.Status.RequestsCut != 1) {
			t.Errorf("requests cut %v, want 1", u.Status.RequestsCut)
		}
	})
}

func TestACancelInEachStage(t *testing.T) {
	eachStage(t, "cancel", func(p park, s *scene) {
		t := s.t
		cancel := s.order("")
		cancel.Spec.Containers = nil
		cancel.Spec.StopTimeoutSeconds = new(int32(2))
		s.give(cancel)
		if !p.patched {
			s.ends(v1alpha1.StageCancelled, v1alpha1.EndedCancelled)
			s.serves(img.v1, 0)
			return
		}
		u, err := s.WaitStage(t.Context(), s.pod.Name, v1alpha1.StageInService, v1alpha1.StageCancelled)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("ended %s (%s)", u.Status.Stage, u.Status.Reason)
		pod := s.must(s.WaitPod(t.Context(), s.pod.Name, func(p *corev1.Pod) bool {
			return readiness.Ready(p) && len(readiness.Holds(p)) == 0
		}))
		if image := pod.Spec.Containers[0].Image; image != img.v2 && image != img.slow {
			t.Errorf("after the patch a cancel is too late, yet the image is %s", image)
		}
	})
}

func TestThePodDeletedInEachStage(t *testing.T) {
	eachStage(t, "gone", func(_ park, s *scene) {
		t := s.t
		name := s.pod.Name
		if err := s.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		waitNoOrder(t, s, name)
		// The name is free again, and nothing of the old update touches the new Pod.
		again := s.must(s.Run(t.Context(), cluster.PodSpec{Name: name, Image: img.v1}))
		if again.Spec.Containers[0].Image != img.v1 || again.Status.ContainerStatuses[0].RestartCount != 0 || len(readiness.Holds(again)) > 0 {
			t.Errorf("the new Pod was touched: %+v", again.Annotations)
		}
	})
}

func waitNoOrder(t *testing.T, s *scene, name string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := s.Update(t.Context(), name)
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the order outlives its Pod: %v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestTheOrderDeletedInEachStage(t *testing.T) {
	eachStage(t, "withdrawn", func(p park, s *scene) {
		t := s.t
		if err := s.Withdraw(t.Context(), s.pod.Name); err != nil {
			t.Fatal(err)
		}
		pod := s.must(s.WaitPod(t.Context(), s.pod.Name, func(p *corev1.Pod) bool {
			return readiness.Ready(p) && len(readiness.Holds(p)) == 0
		}))
		if !p.patched {
			s.serves(img.v1, 0)
		} else if strings.HasSuffix(pod.Spec.Containers[0].Image, ":v1") {
			t.Error("the patch was lost")
		}
	})
}

func TestAnOrderForAnEarlierPodOfTheName(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "same-name"})
	old := s.order(img.v2)
	old.Spec.PodUID = "00000000-0000-0000-0000-000000000000"
	s.give(old)
	s.ends(v1alpha1.StageCancelled, v1alpha1.EndedPodGone)
	s.serves(img.v1, 0)
}
