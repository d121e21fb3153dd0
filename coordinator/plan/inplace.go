package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

const (
	// refusals is how many units may be refused for one reason before no other is prepared: what they
	// have in common is the revision.
	refusals = 3
	// firstRetry is how long it takes until an attempt that was given up is made again. It doubles with
	// every try, up to lastRetry.
	firstRetry = 30 * time.Second
	lastRetry  = 5 * time.Minute
)

// prepareAhead has the images of the target brought to the nodes of the units that are next, while they
// serve: twice as many units as the budget allows to take, so that none has to wait for its images.
func (w *world) prepareAhead() {
	if !w.Serving.InPlace || w.Serving.Paused || w.stopped() || w.rejected() || w.hopeless() {
		return
	}
	if !w.byRole() {
		w.prepareIn(&w.pool)
		return
	}
	left := int32(len(w.groups))
	if most := w.Serving.MaxUnavailableGroups; most > 0 {
		left = 2 * most
	}
	for i := len(w.groups) - 1; i >= 0 && left > 0; i-- {
		g, busy := w.groups[i], false
		if g.whole.leaving || g.whole.open != nil || g.whole.booked {
			continue
		}
		for _, r := range w.Serving.Roles {
			p := w.rolePool(g, r)
			w.prepareIn(&p)
			busy = busy || p.count(func(u *unit) bool { return u.ahead != nil || u.updating() }) > 0
		}
		left -= one(busy)
	}
}

// prepareIn prepares units of one pool, in the order of their update.
func (w *world) prepareIn(p *pool) {
	room := 2*max(1, p.maxUnavailable) - p.count(func(u *unit) bool { return u.ahead != nil && !u.reached(v1alpha1.UnitRefused) })
	for _, u := range p.sorted(func(u *unit) bool { return u.idle() && u.ahead == nil && u.wellForPlace() && w.obstacle(u) == "" }, byUpdate) {
		if room <= 0 {
			return
		}
		room--
		w.prepare(u, v1alpha1.UnitUpdate{})
	}
}

// prepare begins an attempt at the target that does not take the unit out of service yet.
func (w *world) prepare(u *unit, update v1alpha1.UnitUpdate) {
	update.Unit, update.Attempt = u.unitName(), u.group.nextAttempt()
	update.Method, update.Permit = v1alpha1.UnitInPlace, v1alpha1.PermitPrepare
	update.Target, update.Previous, update.Swapped = w.want(u), u.pin, false
	if update.Cancelled() && !w.Serving.InPlace {
		update.Method = v1alpha1.UnitRecreate
	}
	u.group.put(u, update)
}

// hopeless reports whether so many units were refused for one reason that the others would be too. A person who took
// an update back, or had a driver released, meant those units alone.
func (w *world) hopeless() bool {
	counts := map[v1alpha1.UnitReason]int{}
	for _, g := range w.groups {
		if len(g.draft.Updates) == 0 {
			continue
		}
		for u := range g.units() {
			if u.ahead != nil && u.reached(v1alpha1.UnitRefused) && u.ahead.Target == w.Target && !personal(u.report.Reason) {
				if counts[u.report.Reason]++; counts[u.report.Reason] >= refusals {
					return true
				}
			}
		}
	}
	return false
}

// personal reports whether an attempt was refused for what somebody asked of that unit or its node.
func personal(reason v1alpha1.UnitReason) bool {
	return reason == v1alpha1.UnitCancelled || reason == v1alpha1.UnitReason(v1alpha1.WaitingDriver)
}

// advancePrepare keeps a unit prepared for what is wanted today. A refused attempt is made again after a
// while, where its reason may pass.
func (w *world) advancePrepare(u *unit) {
	if u.ahead.Method == v1alpha1.UnitRecreate {
		w.advanceLatch(u)
		return
	}
	switch {
	case !w.Serving.InPlace || !w.mayPrepare(u):
		u.group.closeUpdate(u)
	case !w.same(u, w.want(u), u.ahead.Target):
		w.prepare(u, v1alpha1.UnitUpdate{})
	case u.ahead.NotBefore != nil && !w.passed(u.ahead.NotBefore.Time):
	case u.refusedSince(u.ahead.NotBefore) && passes(u.report.Reason):
		w.prepare(u, w.nextTry(u.ahead.Tries+1))
	}
}

// nextTry is an update that was tried before, and begins after a pause.
func (w *world) nextTry(tries int32) v1alpha1.UnitUpdate {
	pause := min(firstRetry<<min(max(tries-1, 0), 10), lastRetry)
	return v1alpha1.UnitUpdate{Tries: tries, NotBefore: new(metav1.NewTime(w.Now.Add(pause)).Rfc3339Copy())}
}

// passes reports whether what an attempt was refused for may pass without a new revision.
func passes(reason v1alpha1.UnitReason) bool {
	return slices.Contains([]v1alpha1.UnitReason{
		v1alpha1.UnitReason(v1alpha1.RefusedNotFound), v1alpha1.UnitReason(v1alpha1.RefusedDeadline), v1alpha1.UnitTooLong, v1alpha1.UnitPodLost,
	}, reason)
}

// refusedSince reports whether the attempt was refused after it had begun. Until then the report is on the one
// before it.
func (u *unit) refusedSince(begin *metav1.Time) bool {
	return u.reached(v1alpha1.UnitRefused) && (begin == nil || !u.report.Since.Time.Before(begin.Time))
}

// refusedHeld reports whether an attempt was refused of a unit that cannot go back: it stays held.
func (u *unit) refusedHeld() bool {
	return u.open != nil && u.reached(v1alpha1.UnitRefused) && u.swapped()
}

// tryAgain makes an attempt again that was refused under the hold, where its reason may pass.
func (w *world) tryAgain(u *unit) {
	if !passes(u.report.Reason) || u.open.NotBefore != nil && !w.passed(u.open.NotBefore.Time) || !u.refusedSince(u.open.NotBefore) {
		return
	}
	next, update := w.nextTry(u.open.Tries+1), *u.open
	update.Tries, update.NotBefore, update.Attempt = next.Tries, next.NotBefore, u.group.nextAttempt()
	u.group.put(u, update)
}

// closeServing ends the update of a unit that is in service. One that was given up and is still wanted
// is prepared anew, after a pause.
func (w *world) closeServing(u *unit) {
	was := *u.open
	retry := was.Method == v1alpha1.UnitInPlace && was.Tries > 0 && !was.Swapped && w.Serving.InPlace && w.mayPrepare(u)
	u.group.closeUpdate(u)
	switch {
	case was.Cancelled() && w.mayPrepare(u) && was.Request.Wanted == w.Target:
		w.latch(u, was.Request)
	case retry:
		w.prepare(u, w.nextTry(was.Tries))
	}
}

// mayPrepare reports whether an attempt of the unit at the target may follow.
func (w *world) mayPrepare(u *unit) bool {
	return w.byRole() == (u.role != "") && u.eligible() && (!w.Serving.InPlace || w.obstacle(u) == "") && !w.rejected()
}

// changesMethod reports whether the unit is updated in place, and is to be recreated instead.
func (w *world) changesMethod(u *unit) bool {
	return u.open.Method == v1alpha1.UnitInPlace && !w.Serving.InPlace
}

// obstacle says what keeps the unit from being brought to the target in place; empty if nothing does.
func (w *world) obstacle(u *unit) string {
	if len(w.Obstacles) == 0 {
		return ""
	}
	if u.role != "" {
		return w.Obstacles[u.pin]
	}
	for i := range u.group.instances {
		if text := w.Obstacles[u.group.instances[i].pin]; text != "" {
			return text
		}
	}
	return w.Obstacles[u.pin]
}

// rejects reports whether the target is to be given up, as a unit failed there.
func (w *world) rejects() bool {
	return w.failed != nil && w.failed.open != nil && w.Serving.InPlace && w.Serving.Rollback && w.failed.open.Method == v1alpha1.UnitInPlace && !w.rejected()
}

// rejected reports whether no unit is brought to the target, as one failed there.
func (w *world) rejected() bool { return w.Rejected != "" && w.Rejected == w.Target }

func (w *world) blockedRejected() *Verdict {
	if !w.rejected() {
		return nil
	}
	for u := range w.units() {
		if u.eligible() || u.updating() {
			return blockedBy(v1alpha1.BlockedRejected, "a unit failed at revision %s and was taken back; no unit is brought to it until the template changes, or `kubectl pitstop retry %s`", w.Target, w.Serving.Name)
		}
	}
	return nil // no unit is left that would be
}

func (w *world) blockedNotInPlace() *Verdict {
	if !w.Serving.InPlace {
		return nil
	}
	n, text := int32(0), ""
	for u := range w.units() {
		if !u.eligible() && !u.updating() {
			continue
		}
		if obstacle := w.obstacle(u); obstacle != "" {
			n, text = n+1, fmt.Sprintf("revision %s to %s: %s", u.pin, w.Target, obstacle)
		}
	}
	if n == 0 {
		return nil
	}
	return blockedBy(v1alpha1.BlockedNotInPlace, "%d units cannot be updated in place: %s; take those changes back, or set updateMethod to Recreate", n, text)
}
