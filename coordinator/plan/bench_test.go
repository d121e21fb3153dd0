package plan

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
)

// BenchmarkDecide plans one pass in the middle of a rollout: half of the groups are at the target, a
// hundredth is in update. A group has two roles of two instances with a worker each, 8 Pods.
func BenchmarkDecide(b *testing.B) {
	for _, kind := range []v1alpha1.RolloutStrategyType{v1alpha1.ServingGroupRollingUpdate, v1alpha1.RoleRollingUpdate} {
		for _, n := range []int32{1000, 10000} {
			b.Run(fmt.Sprintf("%s/groups=%d", kind, n), func(b *testing.B) {
				s := halfway(n)
				s.Serving.Type = kind
				b.ReportAllocs()
				for b.Loop() {
					if p := Decide(s); p.Report.Replicas != n {
						b.Fatalf("%+v", p.Report)
					}
				}
			})
		}
	}
}

func halfway(n int32) Snapshot {
	now := time.Unix(1_700_000_000, 0)
	s := Snapshot{
		Now: now, Target: "new", Current: "old",
		Layouts: map[string]Layout{
			"old": {"decode": {Digest: "d1", Workers: 1}, "prefill": {Digest: "p1", Workers: 1}},
			"new": {"decode": {Digest: "d2", Workers: 1}, "prefill": {Digest: "p2", Workers: 1}},
		},
		Serving: Serving{
			Name: "ms", Type: v1alpha1.ServingGroupRollingUpdate, Replicas: n, Deadline: time.Hour, MinReady: time.Minute,
			MaxUnavailable: n/50 + 1, Roles: []Role{
				{Name: "decode", Replicas: 2, MaxUnavailable: 1}, {Name: "prefill", Replicas: 2, MaxUnavailable: 1},
			},
		},
	}
	for o := range n {
		g := steadyGroup(o, "new", now.Add(-time.Hour))
		if o < n/2 {
			g.Spec.Revision = "old"
		}
		if o%100 == 0 && o < n/2 {
			g.Spec.LastAttempt = 1
			g.Spec.Updates = []v1alpha1.UnitUpdate{{Attempt: 1, Method: v1alpha1.UnitRecreate, Target: "new", Previous: "old", Permit: v1alpha1.PermitDrain}}
			s.Ledger = append(s.Ledger, g.Name)
		}
		s.Groups = append(s.Groups, g)
	}
	return s
}

// steadyGroup has two instances of each of two roles, all ready.
func steadyGroup(ordinal int32, revision string, ready time.Time) Group {
	g := Group{
		Name: v1alpha1.ServingGroupName("ms", ordinal), UID: types.UID(fmt.Sprint(ordinal)), ResourceVersion: "1", Generation: 1,
		Spec:   v1alpha1.ServingGroupSpec{Ordinal: ptr.To(ordinal), Revision: revision},
		Status: v1alpha1.ServingGroupStatus{ObservedGeneration: 1},
	}
	for _, role := range []string{"decode", "prefill"} {
		for i := range int32(2) {
			g.Spec.Instances = append(g.Spec.Instances, v1alpha1.RoleInstance{Role: role, Ordinal: ptr.To(i)})
			g.Status.Instances = append(g.Status.Instances, v1alpha1.InstanceStatus{
				Role: role, Ordinal: ptr.To(i), Phase: v1alpha1.InstanceRunning, Revision: revision,
				Ready: true, ReadySince: &metav1.Time{Time: ready},
			})
		}
	}
	return g
}
