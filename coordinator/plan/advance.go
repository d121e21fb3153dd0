package plan

import (
	"fmt"

	"pitstop.dev/api/v1alpha1"
)

// advance moves every open update as far as its last report allows.
func (w *world) advance() {
	for _, g := range w.groups {
		if g.whole.leaving || len(g.draft.Updates) == 0 {
			continue
		}
		for u := range g.units() {
			switch {
			case u.open != nil:
				w.advanceUnit(u)
			case u.ahead != nil:
				w.advancePrepare(u)
			}
		}
	}
}

func (w *world) advanceUnit(u *unit) {
	switch {
	case u.removing():
		w.advanceRemoval(u)
	case u.open.Permit == v1alpha1.PermitDrain:
		w.advanceDrain(u)
	case u.open.Permit == v1alpha1.PermitSwap:
		w.advanceSwap(u)
	case u.open.Permit == v1alpha1.PermitServe:
		w.advanceServe(u)
	}
}

// advanceRemoval lets a drained unit go. An instance is taken from the list, and its update closed
// once it is reported no more.
func (w *world) advanceRemoval(u *unit) {
	g := u.group
	switch {
	case u.open.Permit != v1alpha1.PermitDrain:
		if g.settled && !g.reports(u) {
			g.closeUpdate(u)
			g.note(v1alpha1.EventScaled, fmt.Sprintf("removed %s", u.name()))
		}
	case !u.reached(v1alpha1.UnitDrained):
	case u.role == "":
		g.remove = true
	default:
		w.permit(u, v1alpha1.PermitSwap)
		g.dropInstance(u)
	}
}

// advanceDrain replaces a drained unit, and backs out one of which the target has changed. A unit
// that has left the revision at which it last served has nothing to go back to: it gets the new
// target at once.
func (w *world) advanceDrain(u *unit) {
	want := w.want(u)
	switch {
	case w.changesMethod(u) && u.swapped():
		if w.mayTake(u) {
			w.retarget(u)
		}
	case w.changesMethod(u), u.reached(v1alpha1.UnitRefused) && !u.swapped():
		w.backOut(u)
	case u.sick != "" && u.open.Method == v1alpha1.UnitInPlace && !u.swapped(): // its agent would not start an engine there
		w.backOut(u)
	case u.refusedHeld() && w.same(u, want, u.open.Target):
		w.tryAgain(u)
	case w.same(u, want, u.open.Target):
		if u.reached(v1alpha1.UnitDrained) && w.Layouts[u.open.Target] != nil {
			w.swap(u)
		}
	case !u.swapped() || w.same(u, want, u.pin) && u.open.Method != v1alpha1.UnitInPlace:
		w.backOut(u)
	case w.mayTake(u):
		w.retarget(u)
	}
}

// advanceSwap puts a unit that is ready but for its holds in service.
func (w *world) advanceSwap(u *unit) {
	anew := !w.same(u, w.want(u), u.open.Target) || w.changesMethod(u) && !u.reached(v1alpha1.UnitVerified)
	switch {
	case anew && w.mayTake(u):
		w.retarget(u)
	case u.reached(v1alpha1.UnitVerified):
		w.permit(u, v1alpha1.PermitServe)
	}
}

// advanceServe closes the update of a unit that has been in service for long enough. One that left its
// old revision for one that is no longer wanted gets a new attempt. One that failed on the way back is
// closed too: it is broken at its pin, and nothing of the update is left.
func (w *world) advanceServe(u *unit) {
	switch {
	case u.reached(v1alpha1.UnitInService):
		if w.ripe(u.report.Since.Time) {
			w.closeServing(u)
			u.group.note(v1alpha1.EventUnitDone, fmt.Sprintf("%s serves at revision %s", u.name(), u.pin))
		}
	case u.atTarget && !w.rejected() && !w.changesMethod(u) || !u.known:
	case w.changesMethod(u) && (u.open.Swapped || u.pin != u.open.Previous):
		if w.mayTake(u) {
			w.retarget(u)
		}
	case (u.open.Swapped || u.pin != u.open.Previous) && !w.same(u, w.want(u), u.open.Target):
		if w.mayTake(u) {
			w.retarget(u)
		}
	case u.reached(v1alpha1.UnitFailed) && u.open.Method == v1alpha1.UnitInPlace && u.open.Swapped:
		// It is held, and waits for a revision or a person: what was kept is not made anew for that.
	case u.reached(v1alpha1.UnitFailed):
		u.group.closeUpdate(u)
		u.group.note(v1alpha1.EventUnitFailed, fmt.Sprintf("%s is back at revision %s and does not become ready", u.name(), u.pin))
	}
}

// mayTake reports whether a unit that is out of service may be given the target.
func (w *world) mayTake(u *unit) bool {
	if u.open.Method == v1alpha1.UnitInPlace && w.Serving.InPlace && w.obstacle(u) != "" {
		return false
	}
	return !w.Serving.Paused && (w.failed == nil || w.failed == u) && (w.awaited == nil || w.awaited == u) && u.known
}

// permit raises the permit of the open attempt.
func (w *world) permit(u *unit, permit v1alpha1.Permit) {
	update := *u.open
	update.Permit = permit
	u.group.put(u, update)
}

// backOut gives the unit an attempt that leads back into service at its pin.
func (w *world) backOut(u *unit) {
	update := *u.open
	if update.Previous == "" {
		update.Previous = u.pin
	}
	if update.Method == v1alpha1.UnitInPlace {
		if update.Previous = u.pin; u.reached(v1alpha1.UnitRefused) {
			update.Tries++
		}
	} else {
		update.Method = v1alpha1.UnitRecreate
	}
	update.Target, update.Permit, update.NotBefore, update.Request = u.pin, v1alpha1.PermitServe, nil, nil
	update.Attempt = u.group.nextAttempt()
	u.group.put(u, update)
}

// retarget gives a unit that is out of service an attempt at the target. One whose Pods are being created anew goes on
// with new Pods: of those on nodes without an agent none is held, and they cannot be updated in place.
func (w *world) retarget(u *unit) {
	update := *u.open
	update.Target, update.Permit, update.Tries, update.NotBefore = w.want(u), v1alpha1.PermitDrain, 0, nil
	update.Request = nil
	if !w.Serving.InPlace {
		update.Method = v1alpha1.UnitRecreate
	}
	update.Attempt = u.group.nextAttempt()
	u.group.put(u, update)
	u.group.note(v1alpha1.EventUnitStarted, fmt.Sprintf("%s goes on to revision %s", u.name(), update.Target))
}

// swap sets the permit and the pin in one write. Here, and only here, the methods of a unit's
// update differ for the ModelServing controller.
func (w *world) swap(u *unit) {
	g, update := u.group, *u.open
	pods := w.repin(u, update.Target)
	update.Permit, update.Swapped = v1alpha1.PermitSwap, true
	if pods == 1 {
		update.Permit = v1alpha1.PermitServe
	}
	g.put(u, update)
	u.pin = update.Target
	if update.Recreates() {
		g.note(v1alpha1.EventUnitStarted, fmt.Sprintf("the Pods of %s are deleted, to be created anew at revision %s", u.name(), u.pin))
		return
	}
	g.note(v1alpha1.EventUnitStarted, fmt.Sprintf("%s is brought to revision %s", u.name(), u.pin))
}

// repin writes the pin of a unit, and returns how many Pods it is to have there.
func (w *world) repin(u *unit, target string) int32 {
	d := u.group.edit()
	if u.open.Recreates() { // what there is stays what it is
		return w.podsOf(u)
	}
	if u.role == "" {
		if u.open.Method == v1alpha1.UnitInPlace {
			for i := range d.Instances { // the roles are the same, and so is what there is of them
				d.Instances[i].Revision = ""
			}
		} else {
			d.Instances = w.layOut(target, u.group)
		}
		d.Revision = target
		return w.pods(target, d.Instances)
	}
	for i := range d.Instances {
		inst := &d.Instances[i]
		if inst.Role == u.role && *inst.Ordinal == u.ordinal {
			inst.Revision = target
			if target == d.Revision {
				inst.Revision = ""
			}
		}
	}
	return 1 + w.Layouts[target][u.role].Workers
}

// podsOf is the number of Pods that the unit is to have where it is.
func (w *world) podsOf(u *unit) int32 {
	if u.role != "" {
		return 1 + w.Layouts[u.pin][u.role].Workers
	}
	return w.pods(u.group.draft.Revision, u.group.draft.Instances)
}
