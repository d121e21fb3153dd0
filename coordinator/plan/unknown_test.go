package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// What a revision that cannot be read makes of a role is unknown, so that the group is not relied on while
// it has no instance of a role that is declared.
func TestAGroupOfAnUnreadRevisionIsNotReliedOn(t *testing.T) {
	since := metav1.NewTime(time.Unix(100, 0))
	ready := []v1alpha1.InstanceStatus{{Role: "a", Ordinal: new(int32(0)), Phase: v1alpha1.InstanceRunning, Pods: 1, ReadyPods: 1, LivePods: 1, Ready: true, ReadySince: &since}}
	group := func(ordinal int32, revision, role string) Group {
		g := Group{Name: v1alpha1.ServingGroupName("ms", ordinal), UID: "u", Generation: 1, Spec: v1alpha1.ServingGroupSpec{
			Ordinal: &ordinal, Revision: revision, Instances: []v1alpha1.RoleInstance{{Role: role, Ordinal: new(int32(0))}},
		}}
		g.Status.ObservedGeneration, g.Status.Instances = 1, []v1alpha1.InstanceStatus{ready[0]}
		g.Status.Instances[0].Role = role
		return g
	}
	s := Snapshot{
		Now: time.Unix(1000, 0), Target: "new", Current: "new", Layouts: map[string]Layout{"new": {"a": {Digest: "a"}}},
		Serving: Serving{Name: "ms", Replicas: 1, Type: v1alpha1.RoleRollingUpdate, Roles: []Role{{Name: "a", Replicas: 1, MaxUnavailable: 1}}},
		Groups:  []Group{group(0, "unread", "b"), group(1, "new", "a")},
	}
	for _, a := range Decide(s).Actions {
		if a.Group == "ms-1" || a.Kind == Book && len(a.Entries) > 0 && a.Entries[0] == "ms-1" {
			t.Errorf("the only group that surely serves is touched: %+v", a)
		}
	}
}
