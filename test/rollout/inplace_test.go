//go:build lab

package rollout

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/rollout/record"
)

// inPlace is a strategy over ServingGroups that keeps their Pods, one group after the other.
func inPlace() v1alpha1.RolloutStrategy {
	s := budget(1, 0, 0)
	s.UpdateMethod = v1alpha1.UpdateInPlace
	s.InPlace = v1alpha1.InPlace{PropagationSeconds: new(int32(1))}
	return s
}

func whole() record.Rules { return record.Rules{MaxUnavailable: 1, Whole: true} }

// kept are the Pods by name: their UID, node and IP.
func (p *play) kept() map[string]string {
	out := map[string]string{}
	for _, pod := range p.pods() {
		out[pod.Name] = string(pod.UID) + " " + pod.Spec.NodeName + " " + pod.Status.PodIP
	}
	return out
}

// restarts are the restart counts of the Pods by name.
func (p *play) restarts() map[string]int32 {
	out := map[string]int32{}
	for _, pod := range p.pods() {
		for _, c := range pod.Status.ContainerStatuses {
			out[pod.Name] += c.RestartCount
		}
	}
	return out
}

// blocked waits until the ModelServing is blocked for the reason.
func (p *play) blocked(reason v1alpha1.ConditionReason) {
	p.t.Helper()
	ms := p.waits(func(ms *v1alpha1.ModelServing) bool {
		c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionBlocked)
		return c != nil && c.Reason == string(reason) && ms.Status.ObservedGeneration == ms.Generation
	})
	p.t.Log(meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionBlocked).Message)
}

// restartedOnce are the restart counts of Pods that were updated once.
func (p *play) restartedOnce() map[string]int32 {
	out := map[string]int32{}
	for _, pod := range p.pods() {
		out[pod.Name] = 1
	}
	return out
}

// restartedOnceBut are those of Pods that were updated once, except for one role's.
func (p *play) restartedOnceBut(role string, n int32) map[string]int32 {
	out := p.restartedOnce()
	for name := range p.uids(role) {
		out[name] = n
	}
	return out
}

func TestInPlaceKeepsEveryPod(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "inplace", inPlace(), whole())
	before := p.kept()
	ms := p.rolls(image(img.v2))
	want(t, "Pods", before, p.kept())
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
	want(t, "restarts", p.restartedOnce(), p.restarts())
	for _, pod := range p.pods() {
		if pod.Labels[v1alpha1.LabelRevision] != ms.Status.UpdateRevision {
			t.Errorf("%s: revision %s, want %s", pod.Name, pod.Labels[v1alpha1.LabelRevision], ms.Status.UpdateRevision)
		}
	}
	p.rolls(image(img.v3, "decode")) // the prefills are drained with their group, and run on
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnceBut("decode", 2), p.restarts())
}

func TestAWrongTagInPlaceCostsNothing(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "wrong", inPlace(), whole())
	before, containers := p.kept(), p.containers()
	p.edits(image(img.v2 + "-does-not-exist"))
	p.blocked(v1alpha1.BlockedRefused)
	want(t, "containers", containers, p.containers())
	p.verb(0, string(v1alpha1.RefusedNotFound), "explain", "ms/wrong")
	if ms := p.waits(func(*v1alpha1.ModelServing) bool { return true }); ms.Status.AvailableReplicas != 4 {
		t.Errorf("%d groups are available, want 4", ms.Status.AvailableReplicas)
	}
	p.rolls(image(img.v2))
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())
}

// containers are the ids of all containers by Pod.
func (p *play) containers() map[string]string {
	out := map[string]string{}
	for _, pod := range p.pods() {
		for _, c := range pod.Status.ContainerStatuses {
			out[pod.Name] += c.ContainerID
		}
	}
	return out
}

func TestAUnitThatFailedIsMovedInPlace(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "fails", inPlace(), whole())
	before := p.kept()
	p.edits(image(img.bad))
	p.blocked(v1alpha1.BlockedFailed)
	want(t, "images", map[string]int{img.v1: 9, img.bad: 3}, p.images("0", "1", "2", "3"))
	p.rolls(image(img.v1))
	want(t, "images", map[string]int{img.v1: 12}, p.images("0", "1", "2", "3"))
	want(t, "Pods", before, p.kept())
}

func TestAUnitThatFailedIsTakenBack(t *testing.T) {
	t.Parallel()
	strategy := inPlace()
	strategy.InPlace.OnFailure = v1alpha1.FailureRollback
	p := newPlay(t, "back", strategy, whole())
	before := p.kept()
	p.edits(image(img.bad))
	p.waits(func(ms *v1alpha1.ModelServing) bool {
		return ms.Status.RejectedRevision == ms.Status.UpdateRevision && ms.Status.AvailableReplicas == 4 && len(ms.Status.Updating) == 0
	})
	p.blocked(v1alpha1.BlockedRejected)
	want(t, "images", map[string]int{img.v1: 12}, p.images("0", "1", "2", "3"))
	p.rolls(image(img.v2))
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
	want(t, "Pods", before, p.kept())
}

func TestRolesInPlace(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "roles", v1alpha1.RolloutStrategy{
		Type: v1alpha1.RoleRollingUpdate, UpdateMethod: v1alpha1.UpdateInPlace, MaxUnavailableGroups: new(intstr.FromInt32(1)),
	}, record.Rules{MaxUnavailable: 1})
	before := p.kept()
	p.rolls(image(img.v2, "prefill"))
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnceBut("decode", 0), p.restarts())
}

func TestInPlaceBecomesRecreateInTheMiddle(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "switch", inPlace(), record.Rules{MaxUnavailable: 1})
	before := p.kept()
	p.edits(image(img.bad))
	p.blocked(v1alpha1.BlockedFailed)
	p.edits(func(s *v1alpha1.ModelServingSpec) {
		image(img.v2)(s)
		s.RolloutStrategy.UpdateMethod = v1alpha1.UpdateRecreate
	})
	p.waits(cluster.Complete)
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
	for name, was := range before {
		if p.kept()[name] == was {
			t.Errorf("%s was not recreated", name)
		}
	}
}

// A Pod that is lost while its unit is drained is made anew, and no other Pod is touched, though the recovery
// policy would have its role instance recreated.
func TestALostPodIsRefilledInPlace(t *testing.T) {
	t.Parallel()
	broken := map[string]bool{"lost-0": true, "lost-1": true, "lost-2": true, "lost-3": true} // whichever is first
	p := newPlay(t, "lost", inPlace(), record.Rules{MaxUnavailable: 1, Broken: broken})
	before := p.kept()
	p.edits(image(img.v2))
	ms := p.waits(func(ms *v1alpha1.ModelServing) bool { return len(ms.Status.Updating) > 0 })
	name := v1alpha1.PodName(ms.Status.Updating[0], "prefill", 0, 1)
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = name, cluster.Namespace
	if err := p.Objects.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	p.waits(cluster.Complete)
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
	after := p.kept()
	if after[name] == before[name] {
		t.Errorf("%s was not made anew", name)
	}
	delete(after, name)
	delete(before, name)
	want(t, "Pods", before, after)
}
