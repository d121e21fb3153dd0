package diagnose

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// updateText says what an update waits for at its stage, or why it ended there. Where the agent of a Pod
// gave the reason, the words are those of the agent's list, which has some words in common with that of units.
func updateText(u v1alpha1.UnitUpdate, s v1alpha1.UnitUpdateStatus) Text {
	agents, _ := Explain(v1alpha1.Reason(s.Reason))
	kind := KindOf(v1alpha1.Reason(s.Reason))
	switch {
	case s.Stage == v1alpha1.UnitFailed && kind == Failed:
		return Text{agents.Why + "; the unit is kept out of traffic", agents.Way + anew}
	case s.Stage == v1alpha1.UnitFailed, s.Stage == v1alpha1.UnitPrepared:
		return stageText(u, s.Stage)
	case s.Stage == v1alpha1.UnitRefused:
		return refusedText(u, s.Reason)
	case s.Reason == "":
		return stageText(u, s.Stage)
	}
	return reasonText(s.Reason)
}

// anew is the way out that is left where the unit cannot be helped in place.
const anew = "; `kubectl pitstop recreate UNIT` deletes its Pods and creates them anew at its revision"

// reasonText is that of the list of units, or else that of the agent's.
func reasonText(r v1alpha1.UnitReason) Text {
	if text, ok := ExplainUnit(r); ok {
		return text
	}
	if text, ok := Explain(v1alpha1.Reason(r)); ok {
		return text
	}
	return unknown(string(r))
}

// refusedText says also what has become of the unit.
func refusedText(u v1alpha1.UnitUpdate, r v1alpha1.UnitReason) Text {
	text := stageText(u, v1alpha1.UnitRefused)
	if r != "" {
		text = reasonText(r)
	}
	if KindOf(v1alpha1.Reason(r)) == Refused {
		text.Way = refusedWay(v1alpha1.Reason(r))
	}
	switch {
	case u.Swapped:
		text.Why += "; the unit is kept out of traffic, as an attempt before may have changed its Pods"
	case u.Preparing():
		text.Why += "; the unit serves as before"
	default:
		text.Why += "; the unit goes back in service as it was"
	}
	return text
}

// refusedWay is the way on from an attempt that an agent refused. What the agent's list says is for orders
// that are made by hand.
func refusedWay(r v1alpha1.Reason) string {
	if r == v1alpha1.RefusedNotFound {
		return "push the image: the coordinator looks for it again by itself, each time after a longer pause, or at once by `kubectl pitstop retry NAME`; or correct the template, or go back with `kubectl pitstop undo NAME`"
	}
	if r == v1alpha1.RefusedDeadline {
		return "remove what the message says it waited for: the coordinator tries again by itself, each time after a longer pause, or at once by `kubectl pitstop retry NAME`"
	}
	return "correct the template, or go back with `kubectl pitstop undo NAME`: the same revision is not tried again by itself"
}

// stageText is what is to say about a stage whose report gives no reason.
func stageText(u v1alpha1.UnitUpdate, s v1alpha1.UnitStage) Text {
	reason := func(r v1alpha1.UnitReason) Text {
		text, _ := ExplainUnit(r)
		return text
	}
	switch s {
	case v1alpha1.UnitPreparing:
		return reason(v1alpha1.UnitWaitingPrepare)
	case v1alpha1.UnitPrepared:
		return Text{
			"every image that it needs is on its nodes, and proved; it serves until the budget (maxUnavailable) has a place for it",
			"a unit that is in update is available again; while the ModelServing is paused or blocked, none is taken out of service",
		}
	case v1alpha1.UnitDraining:
		return reason(v1alpha1.UnitWaitingDrain)
	case v1alpha1.UnitDrained, v1alpha1.UnitVerified:
		return reason(v1alpha1.UnitWaitingPermit)
	case v1alpha1.UnitSwapping:
		if u.Method == v1alpha1.UnitInPlace {
			return reason(v1alpha1.UnitWaitingSwap)
		}
		return Text{"its Pods are being deleted and created anew", "all of them exist and their containers are ready"}
	case v1alpha1.UnitInService:
		return Text{"it serves; its update is closed, and its place in the budget free, once it has been ready for minReadySeconds", "that time passes"}
	case v1alpha1.UnitFailed:
		return Text{
			"it did not become ready within progressDeadlineSeconds, and is kept out of traffic",
			"correct the template or undo: it then gets a new attempt; or it comes good after all" + anew,
		}
	case v1alpha1.UnitRefused:
		return Text{
			"the attempt was given up, and nothing was changed by it",
			"correct the template, or go back with `kubectl pitstop undo NAME`",
		}
	}
	return unknown(string(s))
}

// unitDeadline is when the stage that a unit is at ends by itself, if it does.
func unitDeadline(ms *v1alpha1.ModelServing, u v1alpha1.UnitUpdate, s v1alpha1.UnitUpdateStatus) *Deadline {
	switch {
	case s.Stage == v1alpha1.UnitRefused && u.NotBefore != nil && !u.Permit.Allows(v1alpha1.PermitSwap):
		return &Deadline{At: *u.NotBefore, Then: "it is tried again"}
	case s.Stage == v1alpha1.UnitInService:
		return after(s.Since, ms.Spec.RolloutStrategy.MinReadySeconds, "the update is closed")
	case s.Deadline != nil:
		return &Deadline{At: *s.Deadline, Then: overdue(u, s.Stage)}
	case s.Stage == v1alpha1.UnitSwapping: // a coordinator that reports no deadline
		limit := int32(1800)
		if ms.Spec.ProgressDeadlineSeconds != nil {
			limit = *ms.Spec.ProgressDeadlineSeconds
		}
		return after(s.Since, limit, overdue(u, s.Stage))
	}
	return nil
}

// overdue is what a stage that takes too long leads to.
func overdue(u v1alpha1.UnitUpdate, s v1alpha1.UnitStage) string {
	before := s == v1alpha1.UnitPreparing || s == v1alpha1.UnitDraining
	switch {
	case u.Method == v1alpha1.UnitInPlace && before && !u.Swapped:
		return "the attempt is given up, the unit serves as before, and it is tried again later"
	case u.Method == v1alpha1.UnitRemove || before:
		return "it is reported (Blocked, ProgressDeadlineExceeded) and goes on"
	}
	return "the unit counts as Failed, and no further one is started"
}

func after(t metav1.Time, seconds int32, then string) *Deadline {
	return &Deadline{At: metav1.NewTime(t.Add(time.Duration(seconds) * time.Second)), Then: then}
}
