//go:build lab

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
)

// images are the references that the tests share.
type images struct {
	v1, v2, v3, alias, bad, slow, stubborn, foreign string
}

var (
	shared *cluster.Cluster
	img    images
)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	if err := errors.Join(cluster.SideBySide("6"), start(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func start(ctx context.Context) error {
	var err error
	if shared, err = cluster.Start(ctx, os.Stderr); err != nil {
		return err
	}
	if err = shared.Engines(ctx,
		cluster.EngineTag{Ref: &img.v1, Name: "v1"},
		cluster.EngineTag{Ref: &img.v2, Name: "v2"},
		cluster.EngineTag{Ref: &img.v3, Name: "v3"},
		cluster.EngineTag{Ref: &img.bad, Name: "bad", Env: map[string]string{"PITSTOP_ENGINE_CRASH_AFTER": "0s"}},
		cluster.EngineTag{Ref: &img.slow, Name: "slow", Env: map[string]string{"PITSTOP_ENGINE_LOAD": "8s"}},
		cluster.EngineTag{Ref: &img.stubborn, Name: "stubborn", Env: map[string]string{"PITSTOP_ENGINE_IGNORE_SIGTERM": "true"}},
	); err != nil {
		return err
	}
	same, err := shared.Builder.Engine(ctx, "v1", nil)
	if err != nil {
		return err
	}
	if img.alias, err = shared.PushAs(ctx, "engine:v1-alias", same); err != nil {
		return err
	}
	other := shared.Builder
	other.Arch = "arm64"
	foreign, err := other.Engine(ctx, "v2", nil)
	if err != nil {
		return err
	}
	img.foreign, err = shared.PushAs(ctx, "engine:v2-arm64", foreign)
	return err
}

// A scene is one Pod of one test.
type scene struct {
	*cluster.Cluster
	t   *testing.T
	pod *corev1.Pod // as it was when it was first Ready
}

// newScene starts a Pod; whatever happens, it is gone and left no hold at the end of the test.
func newScene(t *testing.T, spec cluster.PodSpec) *scene {
	t.Helper()
	s := &scene{Cluster: shared, t: t}
	t.Cleanup(func() {
		if err := shared.Remove(context.Background(), spec.Name); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	if spec.Image == "" {
		spec.Image = img.v1
	}
	s.pod = s.must(shared.Run(t.Context(), spec))
	return s
}

func (s *scene) must(pod *corev1.Pod, err error) *corev1.Pod {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// order returns an order that drains at once and changes the engine to the image.
func (s *scene) order(image string) *v1alpha1.InPlaceUpdate {
	u := cluster.Order(s.pod, map[string]string{"engine": image})
	u.Spec.PropagationSeconds = new(int32(0))
	return u
}

func (s *scene) give(u *v1alpha1.InPlaceUpdate) *v1alpha1.InPlaceUpdate {
	s.t.Helper()
	out, err := s.Give(s.t.Context(), u)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// ends waits for the end of the present attempt.
func (s *scene) ends(want v1alpha1.Stage, reason v1alpha1.Reason) *v1alpha1.InPlaceUpdate {
	s.t.Helper()
	u, err := s.WaitStage(s.t.Context(), s.pod.Name,
		v1alpha1.StageInService, v1alpha1.StageRefused, v1alpha1.StageCancelled, v1alpha1.StageFailed)
	if err != nil {
		s.t.Fatal(err)
	}
	if u.Status.Stage != want || u.Status.Reason != reason {
		s.t.Fatalf("ended %s (%s) %q, want %s (%s)", u.Status.Stage, u.Status.Reason, u.Status.Message, want, reason)
	}
	return u
}

// serves checks that the Pod is in service with the image, kept its identity and was restarted
// so many times.
func (s *scene) serves(image string, restarts int32) {
	s.t.Helper()
	pod := s.must(s.WaitPod(s.t.Context(), s.pod.Name, func(p *corev1.Pod) bool {
		return readiness.Ready(p) && len(readiness.Holds(p)) == 0
	}))
	if pod.UID != s.pod.UID || pod.Status.PodIP != s.pod.Status.PodIP || pod.Spec.NodeName != s.pod.Spec.NodeName {
		s.t.Errorf("the Pod is another one: uid %s ip %s", pod.UID, pod.Status.PodIP)
	}
	if got := pod.Spec.Containers[0].Image; got != image {
		s.t.Errorf("image %s, want %s", got, image)
	}
	if got := pod.Status.ContainerStatuses[0].RestartCount; got != restarts {
		s.t.Errorf("%d restarts, want %d", got, restarts)
	}
	if !readiness.GateOf(pod).Open {
		s.t.Error("the gate is closed")
	}
}

func (s *scene) containerID() string {
	s.t.Helper()
	return s.must(s.Pod(s.t.Context(), s.pod.Name)).Status.ContainerStatuses[0].ContainerID
}

// patch writes metadata of the Pod as an operator does.
func (s *scene) patch(data []byte, err error) {
	s.t.Helper()
	if err == nil {
		_, err = s.Core.CoreV1().Pods(cluster.Namespace).Patch(s.t.Context(), s.pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// setImage changes the engine's image as one does who knows nothing of Pitstop.
func (s *scene) setImage(image string) {
	s.t.Helper()
	s.patch([]byte(`{"spec":{"containers":[{"name":"engine","image":"`+image+`"}]}}`), nil)
}
