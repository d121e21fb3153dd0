//go:build lab

package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/lab"
)

// The tests of this file disturb a node or the registry, so they run one after the other.

func node2() lab.Node { return shared.Nodes()[1] }

func TestTheImageIsRemovedBetweenPreparedAndSwap(t *testing.T) {
	for _, permit := range []v1alpha1.Permit{v1alpha1.PermitPrepare, v1alpha1.PermitDrain} {
		t.Run("after "+string(permit), func(t *testing.T) {
			image, err := shared.Engine(t.Context(), "removed-"+string(permit), nil)
			if err != nil {
				t.Fatal(err)
			}
			s := newScene(t, cluster.PodSpec{Name: "removed", Node: node2().Name})
			u := s.order(image)
			u.Spec.Permit = permit
			s.give(u)
			if _, err := s.WaitStage(t.Context(), "removed", v1alpha1.StagePrepared, v1alpha1.StageDrained); err != nil {
				t.Fatal(err)
			}
			rt, err := shared.Runtime(node2().Name)
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close() //nolint:errcheck // the test is over
			if err := rt.RemoveImage(t.Context(), image); err != nil {
				t.Fatal(err)
			}
			s.permit(v1alpha1.PermitServe)
			s.ends(v1alpha1.StageInService, "")
			s.serves(image, 1)
		})
	}
}

// permit raises the permit of the present attempt.
func (s *scene) permit(p v1alpha1.Permit) {
	s.t.Helper()
	for {
		u, err := s.Update(s.t.Context(), s.pod.Name)
		if err != nil {
			s.t.Fatal(err)
		}
		u.Spec.Permit = p
		err = s.Updates.Put().Namespace(u.Namespace).Resource("inplaceupdates").Name(u.Name).Body(u).Do(s.t.Context()).Error()
		if err == nil {
			return
		}
		s.t.Logf("raise the permit: %v", err)
		<-time.After(20 * time.Millisecond)
	}
}

func TestTheRegistryIsDownDuringPrepare(t *testing.T) {
	image, err := shared.Engine(t.Context(), "late-"+rand.String(6), nil) // no node has it
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, cluster.PodSpec{Name: "late", Node: node2().Name})
	before := s.containerID()
	if err := shared.Registry().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Registry().Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.give(s.order(image))
	u, err := s.WaitUpdate(t.Context(), "late", func(u *v1alpha1.InPlaceUpdate) bool {
		return u.Status.Reason == v1alpha1.WaitingRegistry
	})
	if err != nil {
		t.Fatal(err)
	}
	if u.Status.Stage != v1alpha1.StagePreparing || s.containerID() != before {
		t.Errorf("stage %s", u.Status.Stage)
	}
	if err := shared.Registry().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.ends(v1alpha1.StageInService, "")
	s.serves(image, 1)
}

// middles are the moments at which a daemon of the node is restarted.
func middles() map[string]func(*scene) bool {
	return map[string]func(*scene) bool{
		"held": func(s *scene) bool { return len(readiness.Holds(s.must(s.Pod(s.t.Context(), s.pod.Name)))) > 0 },
		"patched": func(s *scene) bool {
			return s.must(s.Pod(s.t.Context(), s.pod.Name)).Spec.Containers[0].Image == img.v2
		},
	}
}

func restartInTheMiddle(t *testing.T, what string, restart func() error) {
	t.Helper()
	for moment, reached := range middles() {
		t.Run(what+" restarted once "+moment, func(t *testing.T) {
			s := newScene(t, cluster.PodSpec{Name: what + "-" + moment, Node: node2().Name})
			s.give(s.order(img.v2))
			for deadline := time.Now().Add(time.Minute); !reached(s); {
				if time.Now().After(deadline) {
					t.Fatal("not reached")
				}
			}
			if err := restart(); err != nil {
				t.Fatal(err)
			}
			u := s.ends(v1alpha1.StageInService, "")
			s.serves(img.v2, 1)
			if u.Status.Containers[0].Planned != 1 {
				t.Errorf("planned %d, want 1", u.Status.Containers[0].Planned)
			}
		})
	}
}

func TestKubeletIsRestartedInTheMiddle(t *testing.T) {
	restartInTheMiddle(t, "kubelet", func() error { return node2().RestartKubelet(t.Context()) })
}

func TestContainerdIsRestartedInTheMiddle(t *testing.T) {
	restartInTheMiddle(t, "containerd", func() error { return node2().RestartContainerd(t.Context()) })
}

func TestAnOperatorsHold(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.PodSpec{Name: "operator"})
	s.hold("operator", "looking into it")
	s.must(s.WaitPod(t.Context(), "operator", func(p *corev1.Pod) bool { return !readiness.Ready(p) && !readiness.GateOf(p).Open }))
	s.give(s.order(img.v2))
	if _, err := s.WaitUpdate(t.Context(), "operator", func(u *v1alpha1.InPlaceUpdate) bool {
		return u.Status.Reason == v1alpha1.WaitingHeld
	}); err != nil {
		t.Fatal(err)
	}
	s.release("operator")
	s.ends(v1alpha1.StageInService, "")
	s.serves(img.v2, 1)
}

func (s *scene) hold(holder, value string) {
	s.t.Helper()
	data, err := readiness.Put(s.pod, holder, value)
	s.patch(data, err)
}

func (s *scene) release(holder string) {
	s.t.Helper()
	data, err := readiness.Release(s.pod, holder)
	s.patch(data, err)
}
