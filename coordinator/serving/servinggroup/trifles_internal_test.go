package servinggroup

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

func TestTrifles(t *testing.T) {
	status := func() v1alpha1.ServingGroupStatus {
		return v1alpha1.ServingGroupStatus{
			ObservedGeneration: 2, Pods: 1,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "GroupNotReady"}},
			Updates:    []v1alpha1.UnitUpdateStatus{{Attempt: 1, Stage: v1alpha1.UnitSwapping}},
			Instances:  []v1alpha1.InstanceStatus{{Role: "engine", Ordinal: new(int32(0)), Phase: v1alpha1.InstanceCreating, Pods: 1}},
		}
	}
	for name, tt := range map[string]struct {
		change func(*v1alpha1.ServingGroupStatus)
		want   bool
	}{
		"text of a condition":             {func(s *v1alpha1.ServingGroupStatus) { s.Conditions[0].Message = "x" }, true},
		"text of an update":               {func(s *v1alpha1.ServingGroupStatus) { s.Updates[0].Message = "x" }, true},
		"what an update waits for":        {func(s *v1alpha1.ServingGroupStatus) { s.Updates[0].Reason = v1alpha1.UnitWaitingReady }, true},
		"counts":                          {func(s *v1alpha1.ServingGroupStatus) { s.ReadyPods, s.LivePods, s.Instances[0].ReadyPods = 1, 1, 1 }, true},
		"down in an update":               {func(s *v1alpha1.ServingGroupStatus) { s.Instances[0].DownSince = &metav1.Time{} }, true},
		"a stage":                         {func(s *v1alpha1.ServingGroupStatus) { s.Updates[0].Stage = v1alpha1.UnitVerified }, false},
		"an attempt":                      {func(s *v1alpha1.ServingGroupStatus) { s.Updates[0].Attempt++ }, false},
		"a phase":                         {func(s *v1alpha1.ServingGroupStatus) { s.Instances[0].Phase = v1alpha1.InstanceRunning }, false},
		"an instance is ready":            {func(s *v1alpha1.ServingGroupStatus) { s.Instances[0].Ready = true }, false},
		"an instance goes":                {func(s *v1alpha1.ServingGroupStatus) { s.Instances = nil }, false},
		"a spec is observed in an update": {func(s *v1alpha1.ServingGroupStatus) { s.ObservedGeneration++ }, true},
		"a spec is observed with a stage": {func(s *v1alpha1.ServingGroupStatus) {
			s.ObservedGeneration, s.Updates[0].Stage = 3, v1alpha1.UnitVerified
		}, false},
		"the revision of what is not ready": {func(s *v1alpha1.ServingGroupStatus) { s.Instances[0].Revision = "x" }, true},
		"a condition":                       {func(s *v1alpha1.ServingGroupStatus) { s.Conditions[0].Status = metav1.ConditionTrue }, false},
		"a reason of a condition":           {func(s *v1alpha1.ServingGroupStatus) { s.Conditions[0].Reason = "Other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := status()
			tt.change(&now)
			if got := trifling(status(), now); got != tt.want {
				t.Errorf("trifling: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWhatIsNoTrifleWithoutAnUpdate(t *testing.T) {
	was := v1alpha1.ServingGroupStatus{Instances: []v1alpha1.InstanceStatus{{Role: "engine"}}}
	now := *was.DeepCopy()
	now.Instances[0].DownSince = &metav1.Time{}
	if trifling(was, now) {
		t.Error("that an instance is down counts as a trifle")
	}
	now = *was.DeepCopy()
	now.ObservedGeneration++
	if trifling(was, now) {
		t.Error("that a spec was observed counts as a trifle")
	}
}

func TestTriflesWaitForSomeTimeOnly(t *testing.T) {
	var p patience
	group, start := types.NamespacedName{Name: "llm-0"}, time.Unix(1000, 0)
	for _, tt := range []struct{ after, want time.Duration }{
		{0, time.Second}, {400 * time.Millisecond, 600 * time.Millisecond}, {time.Second, 0},
	} {
		if got := p.left(group, start.Add(tt.after), time.Second); got != tt.want {
			t.Errorf("left after %s: %s, want %s", tt.after, got, tt.want)
		}
	}
	p.end(group)
	if got := p.left(group, start.Add(time.Minute), time.Second); got != time.Second {
		t.Errorf("left of what is new: %s", got)
	}
}
