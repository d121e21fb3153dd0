package modelserving_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// say makes the plan this report.
func say(r plan.Report) func(plan.Snapshot) plan.Plan {
	return func(plan.Snapshot) plan.Plan { return plan.Plan{Report: r, Recheck: 7 * time.Second} }
}

func TestStatusSaysWhatThePlanReports(t *testing.T) {
	w := newWorld(t, declared(2))
	w.decide = say(plan.Report{
		Replicas: 5, Ready: 4, Available: 3, Updated: 2,
		Enough:      plan.Verdict{Reason: v1alpha1.AvailableTooFew, Message: "3 of 4"},
		Progressing: plan.Verdict{True: true, Reason: v1alpha1.ProgressingRollout, Message: "unit ms-0"},
		Blocked:     plan.Verdict{True: true, Reason: v1alpha1.BlockedDeadline, Message: "unit ms-0 stands"},
	})
	if res := w.mustPass(); res.RequeueAfter != 7*time.Second {
		t.Errorf("looks again after %v", res.RequeueAfter)
	}
	now := metav1.NewTime(w.clock.Now())
	got := w.serving().Status
	for i := range got.Conditions {
		if !got.Conditions[i].LastTransitionTime.Equal(&now) {
			t.Errorf("%s changed at %v, the clock says %v", got.Conditions[i].Type, got.Conditions[i].LastTransitionTime, now)
		}
		got.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	want := v1alpha1.ModelServingStatus{
		Conditions: []metav1.Condition{
			{Type: "Available", Status: "False", ObservedGeneration: 1, Reason: "TooFewGroups", Message: "3 of 4"},
			{Type: "Progressing", Status: "True", ObservedGeneration: 1, Reason: "RollingOut", Message: "unit ms-0"},
			{Type: "Blocked", Status: "True", ObservedGeneration: 1, Reason: "ProgressDeadlineExceeded", Message: "unit ms-0 stands"},
		},
		ObservedGeneration: 1, Replicas: 5, ReadyReplicas: 4, AvailableReplicas: 3, UpdatedReplicas: 2,
		CurrentRevision: w.revisions()[0].Name, UpdateRevision: w.revisions()[0].Name,
		Selector: "pitstop.dev/leader=true,pitstop.dev/modelserving=ms",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestStatusIsWrittenOnlyOnChange(t *testing.T) {
	w := newWorld(t, declared(2))
	r := idle()
	w.decide = say(r)
	w.mustPass()
	w.writes = nil
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.mustPass()
	}
	if len(w.writes) > 0 {
		t.Errorf("wrote %v though nothing changed", w.writes)
	}
	r.Ready = 1
	w.decide = say(r)
	w.mustPass()
	if diff := cmp.Diff([]string{"update status ModelServing ms"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAConditionKeepsItsTimeUntilItTurns(t *testing.T) {
	w := newWorld(t, declared(2))
	turned := metav1.NewTime(w.clock.Now())
	for i, reason := range []v1alpha1.ConditionReason{v1alpha1.BlockedFailed, v1alpha1.BlockedDeadline, v1alpha1.BlockedUnavailable} {
		r := idle()
		r.Blocked = plan.Verdict{True: true, Reason: reason, Message: number(i)}
		w.decide = say(r)
		w.mustPass()
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		if c := conditionOf(w.serving(), v1alpha1.ConditionBlocked); c.Reason != string(reason) || !c.LastTransitionTime.Equal(&turned) {
			t.Errorf("Blocked: %+v, want it from %v on", c, turned)
		}
	}
	if diff := cmp.Diff([]string{
		"Warning UnitUpdateFailed: UnitFailed: 0",
		"Warning Blocked: ProgressDeadlineExceeded: 1",
		"Warning Blocked: BudgetSpentByFailures: 2",
	}, w.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTheCurrentRevisionMovesAtTheEnd(t *testing.T) {
	w := newWorld(t, declared(2))
	w.decide = say(idle())
	w.mustPass()
	first := w.serving().Status.CurrentRevision
	change(w, "ms", setImage("engine:2"))
	w.mustPass()
	st := w.serving().Status
	if st.CurrentRevision != first || st.UpdateRevision == first || st.ObservedGeneration != 2 {
		t.Errorf("in the rollout: %+v, the first revision is %s", st, first)
	}
	r := idle()
	r.Complete = true
	w.decide = say(r)
	w.mustPass()
	w.mustPass()
	if now := w.serving().Status; now.CurrentRevision != st.UpdateRevision || now.UpdateRevision != st.UpdateRevision {
		t.Errorf("at its end: %+v", now)
	}
	if diff := cmp.Diff([]string{
		"Normal RolloutStarted: the target is revision " + st.UpdateRevision + "; it was " + first,
		"Normal RolloutComplete: all ServingGroups are at revision " + st.UpdateRevision + " and available",
	}, w.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestOneThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	ms := declared(2)
	ms.Finalizers = []string{"example.com/keep"}
	w := newWorld(t, ms)
	if err := w.api.Delete(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	w.mustPass()
	if len(w.writes) > 0 {
		t.Errorf("writes %v", w.writes)
	}
}
