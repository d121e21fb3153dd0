//go:build lab

package rollout

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/rollout/record"
)

// budget is a strategy over ServingGroups.
func budget(unavailable, surge, partition int32) v1alpha1.RolloutStrategy {
	return v1alpha1.RolloutStrategy{RollingUpdateConfiguration: &v1alpha1.RollingUpdateConfiguration{
		MaxUnavailable: new(intstr.FromInt32(unavailable)),
		MaxSurge:       new(intstr.FromInt32(surge)),
		Partition:      new(intstr.FromInt32(partition)),
	}}
}

func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestOneGroupAfterTheOther(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "one", budget(1, 0, 0), record.Rules{MaxUnavailable: 1})
	p.rolls(image(img.v2))
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
}

func TestASurgeKeepsAllGroupsAvailable(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "surge", budget(0, 1, 0), record.Rules{MaxSurge: 1})
	p.rolls(image(img.v2))
	if n := len(p.pods()); n != 12 {
		t.Errorf("%d Pods, want 12", n)
	}
}

func TestAPartitionKeepsLowOrdinals(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "partition", budget(2, 0, 2), record.Rules{MaxUnavailable: 2})
	protected := p.uids("prefill")
	p.edits(image(img.v2))
	p.waits(func(ms *v1alpha1.ModelServing) bool {
		return ms.Status.UpdatedReplicas == 2 && ms.Status.AvailableReplicas == 4 && len(ms.Status.Updating) == 0
	})
	want(t, "protected images", map[string]int{img.v1: 6}, p.images("0", "1"))
	want(t, "updated images", map[string]int{img.v2: 6}, p.images("2", "3"))
	for name, uid := range p.uids("prefill") {
		if low := name < "partition-2"; low != (protected[name] == uid) {
			t.Errorf("%s: UID was %s, is %s", name, protected[name], uid)
		}
	}
	p.edits(func(s *v1alpha1.ModelServingSpec) {
		s.RolloutStrategy.RollingUpdateConfiguration.Partition = new(intstr.FromInt32(0))
	})
	p.waits(cluster.Complete)
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
}

func TestABadImageStopsAndAGoodOneGoesOn(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "bad", budget(1, 0, 0), record.Rules{MaxUnavailable: 1})
	p.edits(func(s *v1alpha1.ModelServingSpec) {
		image(img.bad)(s)
		s.ProgressDeadlineSeconds = new(int32(15))
	})
	ms := p.waits(func(ms *v1alpha1.ModelServing) bool {
		c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionBlocked)
		return c != nil && c.Reason == string(v1alpha1.BlockedFailed)
	})
	t.Log(meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionBlocked).Message)
	want(t, "images of the others", map[string]int{img.v1: 9}, p.images("0", "1", "2"))
	p.rolls(image(img.v2))
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
}

func TestScaleDuringARollout(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "scale", budget(1, 0, 0), record.Rules{MaxUnavailable: 1})
	p.edits(image(img.v2))
	p.waits(func(ms *v1alpha1.ModelServing) bool {
		return ms.Status.ObservedGeneration == ms.Generation && ms.Status.UpdatedReplicas >= 1
	})
	p.edits(func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(5)) })
	p.waits(func(ms *v1alpha1.ModelServing) bool { return ms.Status.UpdatedReplicas >= 3 })
	p.rolls(func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(3)) })
	if n := len(p.pods()); n != 9 {
		t.Errorf("%d Pods, want 9", n)
	}
}

func TestARoleAloneIsUpdated(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "role", v1alpha1.RolloutStrategy{Type: v1alpha1.RoleRollingUpdate, MaxUnavailableGroups: new(intstr.FromInt32(1))},
		record.Rules{MaxUnavailable: 1})
	decode, prefill := p.uids("decode"), p.uids("prefill")
	p.rolls(image(img.v2, "prefill"))
	want(t, "UIDs of decode", decode, p.uids("decode"))
	for name, uid := range p.uids("prefill") {
		if prefill[name] == uid {
			t.Errorf("%s was not made anew", name)
		}
	}
}

// It is no parallel test: the coordinator is down in it.
func TestAProtectedGroupIsRestoredAtItsOwnRevision(t *testing.T) {
	p := newPlay(t, "restore", budget(2, 0, 2), record.Rules{MaxUnavailable: 2, Broken: map[string]bool{"restore-0": true}})
	p.edits(image(img.v2))
	p.waits(func(ms *v1alpha1.ModelServing) bool {
		return ms.Status.UpdatedReplicas == 2 && len(ms.Status.Updating) == 0
	})
	if err := p.Coordinators(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Coordinators(context.Background(), 1); err != nil {
			t.Error(err)
		}
	})
	for _, pod := range p.pods() {
		if pod.Labels[v1alpha1.LabelServingGroup] == "restore-0" {
			if err := p.Objects.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.Coordinators(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	p.waits(func(ms *v1alpha1.ModelServing) bool { // the status is that of the time before, at first
		return p.images("0")[img.v1]+p.images("0")[img.v2] == 3 && ms.Status.AvailableReplicas == 4
	})
	want(t, "restored images", map[string]int{img.v1: 3}, p.images("0"))
	want(t, "updated images", map[string]int{img.v2: 6}, p.images("2", "3"))
}

// It is no parallel test: the leader is killed in it.
func TestAnotherCoordinatorTakesOver(t *testing.T) {
	p := newPlay(t, "leader", budget(1, 0, 0), record.Rules{MaxUnavailable: 1})
	if err := p.Coordinators(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Coordinators(context.Background(), 1); err != nil {
			t.Error(err)
		}
	})
	p.edits(image(img.v2))
	p.waits(func(ms *v1alpha1.ModelServing) bool { return len(ms.Status.Updating) > 0 })
	p.killLeader()
	p.waits(cluster.Complete)
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
}

func TestOthersWriteTheSameObjectsAllTheTime(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "storm", budget(2, 0, 0), record.Rules{MaxUnavailable: 2})
	ctx, stop := context.WithCancel(t.Context())
	var storm sync.WaitGroup
	defer storm.Wait()
	defer stop()
	for i := range 3 {
		storm.Go(func() { p.meddle(ctx, i) })
	}
	p.rolls(image(img.v2))
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
}

func TestTheVerbs(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "verbs", budget(1, 0, 0), record.Rules{MaxUnavailable: 1})
	p.verb(0, "", "pause", "verbs")
	p.edits(image(img.v2))
	p.waits(func(ms *v1alpha1.ModelServing) bool {
		c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionProgressing)
		return c != nil && c.Reason == string(v1alpha1.ProgressingPaused)
	})
	p.verb(0, "Paused", "explain", "ms/verbs")
	p.verb(0, "", "resume", "verbs")
	p.waits(cluster.Complete)
	p.edits(func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(3)) })
	p.verb(0, "verbs-0", "get", "verbs")
	p.verb(0, img.v2, "history", "verbs")
	p.verb(1, "", "undo", "verbs", "--to-revision", "77")
	p.verb(0, "", "undo", "verbs")
	p.waits(func(ms *v1alpha1.ModelServing) bool { return cluster.Complete(ms) && ms.Status.UpdatedReplicas == 3 })
	want(t, "images", map[string]int{img.v1: 9}, p.images("0", "1", "2", "3"))
}
