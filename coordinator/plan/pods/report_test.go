package pods_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

func TestReport(t *testing.T) {
	now := begin().Add(time.Hour)
	s := scene(
		pod("g-prefill-0-0", func(p *pods.Pod) { p.DeletionCost = 30 }),
		pod("g-prefill-0-1", func(p *pods.Pod) { p.DeletionCost, p.ReadySince = 12, begin().Add(2*time.Minute) }),
		pod("g-decode-0-0", func(p *pods.Pod) { p.Ready, p.Trouble = false, "container engine: CrashLoopBackOff" }),
	)
	got := pods.Decide(s).Status
	want := v1alpha1.ServingGroupStatus{
		ObservedGeneration: 4, Pods: 3, ReadyPods: 2, LivePods: 3,
		Instances: []v1alpha1.InstanceStatus{
			{
				Role: "decode", Ordinal: new(int32(0)), Phase: v1alpha1.InstanceRunning, Revision: "a", Pods: 1, LivePods: 1,
				DownSince: new(metav1.NewTime(now)), Message: "Pod g-decode-0-0 is not ready: container engine: CrashLoopBackOff",
			},
			{
				Role: "prefill", Ordinal: new(int32(0)), Phase: v1alpha1.InstanceRunning, Revision: "a", Pods: 2, ReadyPods: 2, LivePods: 2,
				Ready: true, ReadySince: new(metav1.NewTime(begin().Add(2 * time.Minute))), DeletionCost: 42,
			},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(v1alpha1.ServingGroupStatus{}, "Conditions")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	ready := got.Conditions[0]
	if ready.Type != v1alpha1.ConditionReady || ready.Status != metav1.ConditionFalse || ready.Reason != string(v1alpha1.GroupNotReady) ||
		!strings.Contains(ready.Message, "decode-0: Pod g-decode-0-0 is not ready") {
		t.Errorf("condition: %+v", ready)
	}
	if got.Conditions[1].Type != v1alpha1.ConditionBlocked || got.Conditions[1].Reason != string(v1alpha1.NotBlocked) {
		t.Errorf("condition: %+v", got.Conditions[1])
	}
}

// TestReportIsStable: what has not changed is reported as it was, times included.
func TestReportIsStable(t *testing.T) {
	for name, s := range map[string]pods.Snapshot{
		"a group that serves":   scene(),
		"one that is down":      scene(pod("", down)),
		"an update that waits":  scene(pinned("b"), update("", recreate, "b", swap), pod("", atB), pod("", down)),
		"an update that failed": scene(pinned("b"), update("", recreate, "b", swap), pod("", atB), pod("", down), at(v1alpha1.UnitFailed, time.Minute)),
		"a lost revision":       scene(pinned("lost")),
	} {
		t.Run(name, func(t *testing.T) {
			first := pods.Decide(s)
			s.Group.Status = first.Status
			s.Now = s.Now.Add(30 * time.Second)
			second := pods.Decide(s)
			if diff := cmp.Diff(first.Status, second.Status); diff != "" {
				t.Errorf("the status changed by itself (-first +second):\n%s", diff)
			}
			if second.Decisive(first.Status) {
				t.Errorf("a plan that does nothing is decisive: %+v", second)
			}
		})
	}
}

func TestMessagesFit(t *testing.T) {
	s := scene(pod("g-decode-0-0", func(p *pods.Pod) { p.Ready, p.Trouble = false, strings.Repeat("é", 2000) }))
	message := pods.Decide(s).Status.Instances[0].Message
	if len(message) > 1024 || !utf8.ValidString(message) || !strings.HasSuffix(message, "...") {
		t.Errorf("%d bytes, valid: %t", len(message), utf8.ValidString(message))
	}
}

func TestInstanceRevision(t *testing.T) {
	for name, tt := range map[string]struct {
		given pods.Snapshot
		want  string // of prefill-0
	}{
		"the Pods' own":                       {scene(pod("", atB)), "b"},
		"the pin, where the role is the same": {scene(func(s *pods.Snapshot) { s.Revisions["d"], s.Group.Spec.Revision = s.Revisions["a"], "d" }), "d"},
		"none, where they differ":             {scene(pod("g-prefill-0-1", atB)), ""},
		"none, where there is no Pod":         {scene(without("g-prefill-0-0"), without("g-prefill-0-1")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pods.Decide(tt.given).Status.Instances[1].Revision; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestNotReadyWhere(t *testing.T) {
	for name, s := range map[string]pods.Snapshot{
		"in an update":            scene(update("", recreate, "b", drain)),
		"a Pod is going":          scene(pod("g-prefill-0-0", going)),
		"a Pod is not at the pin": scene(pod("g-prefill-0-0", atB)),
		"a Pod is missing":        scene(without("g-prefill-0-0")),
		"a Pod is one too many":   scene(func(s *pods.Snapshot) { s.Pods = append(s.Pods, running("g-prefill-0-2", "p1")) }),
		"a Pod is not Ready":      scene(pod("g-prefill-0-0", down)),
		"the revision cannot be read, and the Pods are not of it": scene(pinned("lost")),
	} {
		t.Run(name, func(t *testing.T) {
			if i := pods.Decide(s).Status.Instances[1]; i.Ready || i.Message == "" {
				t.Errorf("%+v", i)
			}
		})
	}
}

// TestServesOnAtALostRevision: that a revision cannot be read takes nothing out of service.
func TestServesOnAtALostRevision(t *testing.T) {
	s := scene()
	s.Group.Status = pods.Decide(s).Status
	delete(s.Revisions, "a")
	for _, i := range pods.Decide(s).Status.Instances {
		if !i.Ready {
			t.Errorf("%+v", i)
		}
	}
}
