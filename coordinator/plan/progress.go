package plan

import (
	"fmt"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// A tally counts the units of the rollout by what they wait for.
type tally struct {
	all, atTarget, waiting, protected int32
	updating, scaling                 int32
	slowest                           *unit // of those in update, the one that is in its stage for longest
	leaving                           *unit
}

func (w *world) tally() tally {
	t := tally{scaling: int32(len(w.creates))}
	for u := range w.units() {
		t.all++
		t.atTarget += one(u.atTarget && u.open == nil && !u.leaving)
		t.waiting += one(u.eligible() && u.open == nil)
		t.protected += one(u.protected && !u.atTarget && u.stays())
	}
	for u := range w.open() {
		if u.removing() {
			t.leaving = u
			continue
		}
		t.updating++
		if t.slowest == nil || stageSince(u).Before(stageSince(t.slowest)) {
			t.slowest = u
		}
	}
	for _, g := range w.groups {
		t.scaling += one(g.whole.leaving)
	}
	t.scaling += one(t.leaving != nil)
	return t
}

func (w *world) progressing() Verdict {
	t := w.tally()
	done := fmt.Sprintf("%d of %d units are at revision %s", t.atTarget, t.all, w.Target)
	switch {
	case t.updating > 0:
		return Verdict{true, v1alpha1.ProgressingRollout, fmt.Sprintf("%s; %d in update: %s", done, t.updating, inUpdate(t.slowest))}
	case t.scaling > 0:
		return Verdict{true, v1alpha1.ProgressingScale, w.scaling(t)}
	case t.waiting > 0 && w.Serving.Paused:
		return Verdict{false, v1alpha1.ProgressingPaused, fmt.Sprintf("%s; %d wait for spec.paused to be false", done, t.waiting)}
	case t.waiting > 0:
		return Verdict{true, v1alpha1.ProgressingRollout, fmt.Sprintf("%s; %d wait for their turn%s", done, t.waiting, w.waitsFor())}
	case w.waitsFor() != "":
		return Verdict{true, v1alpha1.ProgressingReady, done + w.waitsFor()}
	case t.protected > 0:
		return Verdict{false, v1alpha1.ProgressingPartition, fmt.Sprintf("%s; %d are kept at their revision by the partition", done, t.protected)}
	default:
		return Verdict{false, v1alpha1.ProgressingComplete, done}
	}
}

// scaling says what is being created or removed.
func (w *world) scaling(t tally) string {
	text := fmt.Sprintf("%d ServingGroups live, %d are declared", len(w.groups), w.Serving.Replicas)
	if len(w.creates) > 0 {
		text += fmt.Sprintf("; creating %d, the first is %s", len(w.creates), w.creates[0].Group)
	}
	if t.leaving != nil {
		text += "; " + inUpdate(t.leaving)
	}
	for _, g := range w.groups {
		if g.whole.leaving {
			return text + fmt.Sprintf("; ServingGroup %s is being deleted, %d of its Pods live", g.Name, g.Status.LivePods)
		}
	}
	return text
}

// waitsFor names what is waited for where no update is open, empty if nothing is.
func (w *world) waitsFor() string {
	if len(w.unresolved) > 0 {
		return fmt.Sprintf("; %s waits for revision %s", w.unresolved[0].unit, w.unresolved[0].revision)
	}
	if u := w.unready(); u != nil {
		return "; " + notReady(u)
	}
	for _, g := range w.groups {
		if !g.whole.known && !g.whole.leaving {
			return fmt.Sprintf("; %s waits for revision %s", g.Name, w.unreadable(g))
		}
	}
	for u := range w.units() {
		if !u.available && u.stays() {
			return fmt.Sprintf("; %s is ready, but not for minReadySeconds", u.name())
		}
	}
	if len(w.Ledger) > 0 {
		return fmt.Sprintf("; the update of %s is being closed", w.Ledger[0])
	}
	return ""
}

// inUpdate says where the open update of a unit stands.
func inUpdate(u *unit) string {
	to := " is being removed"
	switch {
	case u.updating() && u.open.Recreates():
		to = " is created anew on request at revision " + u.open.Target
	case u.updating():
		to = " goes to revision " + u.open.Target
	}
	text := fmt.Sprintf("%s%s (attempt %d, permit %s)", u.name(), to, u.open.Attempt, u.open.Permit)
	if u.report == nil {
		return text + ", not yet reported on"
	}
	text += fmt.Sprintf(", %s since %s", u.report.Stage, u.report.Since.UTC().Format(time.RFC3339))
	if u.report.Reason != "" {
		text += fmt.Sprintf(", %s: %s", u.report.Reason, u.report.Message)
	}
	return text
}

// notReady says since when a unit is not ready.
func notReady(u *unit) string {
	if u.since.IsZero() {
		return u.name() + " is not ready"
	}
	return fmt.Sprintf("%s is not ready since %s", u.name(), u.since.UTC().Format(time.RFC3339))
}

// stageSince is when the unit reached its stage; a unit that is not reported on has just begun.
func stageSince(u *unit) time.Time {
	if u.report == nil {
		return time.Unix(1<<40, 0)
	}
	return u.report.Since.Time
}
