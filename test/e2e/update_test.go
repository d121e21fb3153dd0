//go:build lab

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
)

func TestAnImageChangesInPlace(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "plain"})
	s.give(s.order(img.v2))
	u := s.ends(v1alpha1.StageInService, "")
	s.serves(img.v2, 1)
	c := u.Status.Containers[0]
	if c.Planned != 1 || c.Crashes != 0 || c.Before.ContainerID == c.After.ContainerID || c.Before.ImageID == c.After.ImageID {
		t.Errorf("report: %+v before %+v after %+v", c, c.Before, c.After)
	}
}

func TestTwoTagsOfOneDigest(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "alias"})
	s.give(s.order(img.alias))
	u := s.ends(v1alpha1.StageInService, "")
	s.serves(img.alias, 1)
	if c := u.Status.Containers[0]; c.Before.ImageID != c.After.ImageID || c.Planned != 1 {
		t.Errorf("report: before %+v after %+v planned %d", c.Before, c.After, c.Planned)
	}
}

func TestTheImageThatRunsAlready(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "same"})
	s.give(s.order(img.v1))
	s.ends(v1alpha1.StageInService, "")
	s.serves(img.v1, 0)
}

func TestNoContainers(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "none"})
	u := s.order(img.v2)
	u.Spec.Containers = nil
	u.Spec.Labels = map[string]v1alpha1.LabelValue{"pitstop.dev/stable": "true"}
	u.Spec.Revision = "r2"
	s.give(u)
	s.ends(v1alpha1.StageInService, "")
	s.serves(img.v1, 0)
	pod := s.must(s.Pod(t.Context(), "none"))
	if pod.Labels["pitstop.dev/stable"] != "true" || pod.Labels[v1alpha1.LabelRevision] != "r2" {
		t.Errorf("labels %v", pod.Labels)
	}
}

func TestOneOfTwoContainersChanges(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "two", Sidecar: img.v1})
	s.give(s.order(img.v2))
	u := s.ends(v1alpha1.StageInService, "")
	s.serves(img.v2, 1)
	i := slices.IndexFunc(u.Status.Containers, func(c v1alpha1.ContainerReport) bool { return c.Name == "sidecar" })
	side := u.Status.Containers[i]
	if side.Planned+side.Crashes+side.Peer != 0 || side.Before.ContainerID != side.After.ContainerID {
		t.Errorf("sidecar: %+v before %+v after %+v", side, side.Before, side.After)
	}
}

func TestRefusedLeavesThePodAlone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec   cluster.PodSpec
		image  *string
		want   v1alpha1.Reason
		target string
	}{
		"no-gate":    {cluster.PodSpec{Ungated: true}, &img.v2, v1alpha1.RefusedNoGate, "engine"},
		"always":     {cluster.PodSpec{PullPolicy: corev1.PullAlways}, &img.v2, v1alpha1.RefusedPullAlways, "engine"},
		"platform":   {cluster.PodSpec{}, &img.foreign, v1alpha1.RefusedPlatform, "engine"},
		"wrong-tag":  {cluster.PodSpec{}, new("127.0.0.1:25499/engine:nope"), v1alpha1.RefusedNotFound, "engine"},
		"no-such-co": {cluster.PodSpec{}, &img.v2, v1alpha1.RefusedNotRegular, "router"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.spec.Name = "refused-" + name
			s := newScene(t, tt.spec)
			before := s.containerID()
			image := *tt.image
			if name == "wrong-tag" {
				image = img.v2 + "-nope"
			}
			u := s.order(image)
			u.Spec.Containers[0].Name = tt.target
			s.give(u)
			got := s.ends(v1alpha1.StageRefused, tt.want)
			if got.Status.Message == "" {
				t.Error("no message")
			}
			pod := s.must(s.Pod(t.Context(), tt.spec.Name))
			if !readiness.Ready(pod) || s.containerID() != before || len(readiness.Holds(pod)) > 0 {
				t.Errorf("the Pod was touched: ready %t, holds %v", readiness.Ready(pod), readiness.Holds(pod))
			}
		})
	}
}

func TestAContainerThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "stubborn", Image: img.stubborn, Grace: 300})
	u := s.order(img.v2)
	u.Spec.StopTimeoutSeconds = new(int32(2))
	s.give(u)
	got := s.ends(v1alpha1.StageInService, "")
	s.serves(img.v2, 1)
	if took := got.Status.Timings; took == nil || took.Stop == nil || took.OutOfService == nil {
		t.Fatalf("in service without all its timings: %+v %+v", got.Status, took)
	}
	t.Logf("stop took %d ms with stopTimeoutSeconds 2 and a grace of 300 s; out of service %d ms", *got.Status.Timings.Stop, *got.Status.Timings.OutOfService)
}

func TestACrashOfTheNewImage(t *testing.T) {
	t.Parallel()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		image, err := shared.Engine(t.Context(), "crash-once", map[string]string{"PITSTOP_ENGINE_CRASH_TIMES": "1", "PITSTOP_ENGINE_STATE": "/scratch"})
		if err != nil {
			t.Fatal(err)
		}
		s := newScene(t, cluster.PodSpec{Name: "crash-once"})
		s.give(s.order(image))
		u := s.ends(v1alpha1.StageInService, "")
		s.serves(image, 2)
		if c := u.Status.Containers[0]; c.Planned != 1 || c.Crashes != 1 {
			t.Errorf("planned %d crashes %d, want 1 and 1", c.Planned, c.Crashes)
		}
	})
	t.Run("for ever, then the old image again", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, cluster.PodSpec{Name: "crash-ever"})
		s.give(s.order(img.bad))
		s.ends(v1alpha1.StageFailed, v1alpha1.FailedCrashLooping)
		s.must(s.WaitPod(t.Context(), "crash-ever", func(p *corev1.Pod) bool {
			return len(readiness.Holds(p)) == 1 && !readiness.GateOf(p).Open
		}))
		s.give(s.order(img.v1))
		u := s.ends(v1alpha1.StageInService, "")
		if c := u.Status.Containers[0]; c.Planned != 1 || c.Crashes != 0 {
			t.Errorf("planned %d crashes %d, want 1 and 0", c.Planned, c.Crashes)
		}
		s.serves(img.v1, u.Status.Containers[0].After.RestartCount)
	})
	t.Run("superseded at once by the old image", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, cluster.PodSpec{Name: "a-bad-a"})
		s.give(s.order(img.bad))
		s.must(s.WaitPod(t.Context(), "a-bad-a", func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == img.bad }))
		s.give(s.order(img.v1))
		u := s.ends(v1alpha1.StageInService, "")
		s.serves(img.v1, u.Status.Containers[0].After.RestartCount)
	})
}

func TestAWrongTagAfterThePatch(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "typo", Image: img.stubborn, Grace: 40})
	s.give(s.order(img.v2))
	s.must(s.WaitPod(t.Context(), "typo", func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == img.v2 }))
	typo := s.order(img.v2 + "-nope")
	typo.Spec.StopTimeoutSeconds = new(int32(2))
	s.give(typo)
	s.ends(v1alpha1.StageRefused, v1alpha1.RefusedNotFound)
	s.serves(img.v2, 1) // the attempt before is seen through
}

func TestTheSameBadImageAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "bad-again"})
	s.give(s.order(img.bad))
	s.must(s.WaitPod(t.Context(), "bad-again", func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == img.bad }))
	s.give(s.order(img.bad))
	s.ends(v1alpha1.StageFailed, v1alpha1.FailedCrashLooping)
}

func TestSomebodyChangesTheImageAfterThePatch(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "meddled"})
	s.give(s.order(img.slow))
	s.must(s.WaitPod(t.Context(), "meddled", func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == img.slow }))
	s.setImage(img.v3)
	s.ends(v1alpha1.StageFailed, v1alpha1.FailedImageRewritten)
	s.give(s.order(img.v3))
	u := s.ends(v1alpha1.StageInService, "")
	pod := s.must(s.WaitPod(t.Context(), "meddled", readiness.Ready))
	if pod.Spec.Containers[0].Image != img.v3 || len(readiness.Holds(pod)) > 0 {
		t.Errorf("ended %s with image %s and holds %v", u.Status.Stage, pod.Spec.Containers[0].Image, readiness.Holds(pod))
	}
}

func TestTheStopIsBoundedThoughTheMarkOrTheOrderIsGone(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*scene){
		"mark": func(s *scene) {
			s.patch([]byte(`{"metadata":{"annotations":{"`+v1alpha1.PatchedAt+`":null}}}`), nil)
		},
		"order": func(s *scene) {
			if err := s.Withdraw(s.t.Context(), s.pod.Name); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, cluster.PodSpec{Name: "lost-" + name, Image: img.stubborn, Grace: 600})
			u := s.order(img.v2)
			u.Spec.StopTimeoutSeconds = new(int32(8))
			s.give(u)
			s.must(s.WaitPod(t.Context(), s.pod.Name, func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == img.v2 }))
			lose(s)
			s.serves(img.v2, 1)
		})
	}
}
