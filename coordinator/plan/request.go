package plan

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// answer does what people asked for, or says why not.
func (w *world) answer() {
	for _, r := range w.Requests {
		a := Answer{Request: r, Outcome: v1alpha1.RequestAccepted}
		var refusal string
		switch {
		case r.Malformed:
			refusal = "what was written is not `<id> <unit>`"
		case w.applied(r):
			a.Outcome = v1alpha1.RequestBegun
		case r.Verb == v1alpha1.VerbRetry:
			a.Message, refusal = w.retry(r)
		default:
			a.Message, refusal = w.ofUnit(r)
		}
		if refusal != "" {
			a.Outcome, a.Message = v1alpha1.RequestRefused, refusal
		}
		w.answers = append(w.answers, a)
	}
}

// records reports whether answers are to be written before anything else: those that something follows from
// in this pass, and those that were accepted before and are settled now. Of what has begun a view may be too old to
// know that it was accepted: the write refuses it.
func (w *world) records() bool {
	for _, a := range w.answers {
		if a.Accepted || a.Outcome != v1alpha1.RequestRefused {
			return true
		}
	}
	return false
}

// applied reports whether what the request asks for is written already.
func (w *world) applied(r Request) bool {
	for _, g := range w.groups {
		for i := range g.Spec.Updates {
			if by := g.Spec.Updates[i].Request; by != nil && by.Verb == r.Verb && by.ID == r.ID {
				return true
			}
		}
	}
	return false
}

// ofUnit does what was asked for one unit. It returns what is done, or why nothing is.
func (w *world) ofUnit(r Request) (done, refusal string) {
	u := w.find(r.Unit)
	switch {
	case u == nil:
		return "", "there is no such unit: a unit is <servinggroup> or <servinggroup>/<role>-<n>"
	case u.leaving || u.removing() || u.group.whole.leaving || u.group.whole.removing():
		return "", "it is being removed"
	}
	request := &v1alpha1.UnitRequest{Verb: r.Verb, ID: r.ID, Wanted: w.Target}
	if r.Verb == v1alpha1.VerbCancel {
		return w.cancel(u, request)
	}
	return w.recreate(u, request)
}

// find returns the unit of this name as in the ledger, nil if there is none. Of a group at rest no instance
// is found; it would be no unit.
func (w *world) find(name string) *unit {
	sg, part, _ := strings.Cut(name, "/")
	for _, g := range w.groups {
		if g.Name != sg {
			continue
		}
		for u := range g.units() {
			if u.unitName() == part {
				return u
			}
		}
		if _, _, ok := v1alpha1.ParseUnit(part); ok && g.resting {
			return &unit{group: g, role: part}
		}
	}
	return nil
}

// recreate has the Pods of a unit drained, deleted and created anew at the unit's pin. It costs the budget what
// an update does; a unit that does not serve costs nothing.
func (w *world) recreate(u *unit, r *v1alpha1.UnitRequest) (done, refusal string) {
	switch {
	case !u.updating() && w.byRole() != (u.role != ""):
		return "", w.kindOfUnit(u)
	case !u.known || w.Layouts[u.pin] == nil:
		return "", "revision " + u.pin + ", which it is pinned to, is missing or cannot be read"
	case w.rejected() && u.updating() && u.pin == w.Target:
		return "", fmt.Sprintf("it goes back to revision %s by itself, as it failed at %s (onFailure Rollback); ask again when it is there", u.open.Previous, u.pin)
	case w.full(u):
		return "", "status.updating is full; ask again when updates that are under way have ended"
	}
	update := v1alpha1.UnitUpdate{Previous: u.pin}
	if u.updating() {
		update = *u.open
	} else if refusal := w.spare(u); refusal != "" {
		return "", refusal
	}
	update.Method, update.Target, update.Tries, update.NotBefore, update.Request = v1alpha1.UnitRecreate, u.pin, 0, nil, r
	w.take(u, update)
	done = "its Pods are drained, deleted and created anew at revision " + u.pin
	u.group.note(v1alpha1.EventUnitStarted, u.name()+", on request: "+done)
	return done, ""
}

func (w *world) kindOfUnit(u *unit) string {
	if u.role != "" {
		return fmt.Sprintf("with %s a unit is a whole ServingGroup: ask for %s", w.Serving.Type, u.group.Name)
	}
	return fmt.Sprintf("with %s a unit is a role instance: ask for %s/<role>-<n>", w.Serving.Type, u.group.Name)
}

// spare says why a unit that is in no update may not be taken out of service now; empty if it may.
func (w *world) spare(u *unit) string {
	p := &w.pool
	if u.role != "" {
		r, declared := w.declared[u.role]
		if !declared {
			return "its role is no longer declared"
		}
		part := w.rolePool(u.group, r)
		p = &part
	}
	costs := int32(0)
	switch {
	case u.available || u.uncertain:
		costs = 1
	case !u.serves(): // it is down already
		costs = min(p.budget(), 0)
	}
	const later = "ask again when that is over, or raise it; to go first, pause the rollout and wait for its last unit"
	switch {
	case u.group.crossed(u):
		return "an update of its ServingGroup, or of a part of it, is under way; ask again when that is over"
	case p.room() <= 0 && !u.booked:
		return fmt.Sprintf("as many units are in update as maxUnavailable (%d) and maxSurge (%d) allow; %s", p.maxUnavailable, p.maxSurge, later)
	case p.budget() < costs:
		return fmt.Sprintf("it serves, and without it fewer would be available than maxUnavailable (%d) demands; %s", p.maxUnavailable, later)
	case w.capped(u):
		return fmt.Sprintf("units of as many ServingGroups are out of service as maxUnavailableGroups (%d) allows; %s", w.Serving.MaxUnavailableGroups, later)
	}
	return ""
}

// capped reports whether the unit's group is one too many to have a unit out of service.
func (w *world) capped(u *unit) bool {
	most := w.Serving.MaxUnavailableGroups
	return u.role != "" && most > 0 && w.touched()+one(!w.touches(u.group)) > most
}

// cancelPause is how long a unit is not chosen again of which a person took the update back.
const cancelPause = lastRetry

// cancel takes the update of a unit back, as long as none of its Pods has left its pin.
func (w *world) cancel(u *unit, r *v1alpha1.UnitRequest) (done, refusal string) {
	pause := ""
	if u.eligible() {
		pause = fmt.Sprintf("; it is not chosen again for %.0f minutes, or until `kubectl pitstop retry %s`", cancelPause.Minutes(), w.Serving.Name)
	}
	switch {
	case u.ahead != nil:
		w.latch(u, r)
		return "it is no longer prepared, and serves as before" + pause, ""
	case u.open == nil:
		return "", "it is in no update"
	case u.open.Permit == v1alpha1.PermitServe && u.open.Target == u.open.Previous && !u.open.Swapped:
		return "", "it is on its way back to revision " + u.pin + " already"
	case u.swapped():
		return "", "its Pods are being changed or replaced, so it only goes on; to go back, revert the template: `kubectl pitstop undo " + w.Serving.Name + "`"
	}
	w.backOut(u)
	update := *u.open
	update.Request, update.Tries = r, 0
	u.group.put(u, update)
	u.group.note(v1alpha1.EventUnitRefused, u.name()+" goes back in service at revision "+u.pin+": its update was cancelled on request")
	return "it goes back in service at revision " + u.pin + pause, ""
}

// latch keeps the unit from being chosen again for a while.
func (w *world) latch(u *unit, r *v1alpha1.UnitRequest) {
	w.prepare(u, v1alpha1.UnitUpdate{NotBefore: new(metav1.NewTime(w.Now.Add(cancelPause)).Rfc3339Copy()), Request: r})
}

// advanceLatch lets a unit be chosen again that is updated with new Pods, in time or for another target.
func (w *world) advanceLatch(u *unit) {
	if w.Serving.InPlace || !w.mayPrepare(u) || !w.same(u, w.want(u), u.ahead.Target) || u.ahead.NotBefore == nil || w.passed(u.ahead.NotBefore.Time) {
		u.group.closeUpdate(u)
	}
}

// retry has everything tried again that was given up: the revision that was rejected, and the units that were
// refused, or wait.
func (w *world) retry(r Request) (done, refusal string) {
	if r.Unit != "" && r.Unit != w.Serving.Name {
		return "", "it is about a whole ModelServing"
	}
	var text []string
	if w.Rejected != "" {
		text = append(text, "revision "+w.Rejected+" is no longer rejected")
		w.Rejected = ""
	}
	var units []string
	for _, g := range w.groups {
		if len(g.draft.Updates) == 0 || g.whole.leaving {
			continue
		}
		for u := range g.units() {
			if w.retryUnit(u) {
				units = append(units, u.name())
			}
		}
	}
	const most = 8
	if n := len(units) - most; n > 0 {
		units = append(units[:most], fmt.Sprintf("and %d more", n))
	}
	if len(units) > 0 {
		text = append(text, "what was given up, or waited, is tried again now: "+strings.Join(units, ", "))
	}
	return cmp.Or(strings.Join(text, "; "), "nothing stood in the way"), ""
}

// retryUnit reports whether there was anything to try again.
func (w *world) retryUnit(u *unit) bool {
	waits := func(update *v1alpha1.UnitUpdate) bool {
		return update.NotBefore != nil && w.Now.Before(update.NotBefore.Time)
	}
	switch {
	case u.latched():
		u.group.closeUpdate(u)
	case u.ahead != nil && (waits(u.ahead) || u.reached(v1alpha1.UnitRefused)):
		w.prepare(u, v1alpha1.UnitUpdate{})
	case u.open != nil && u.updating() && u.swapped() && u.open.Permit == v1alpha1.PermitDrain && (waits(u.open) || u.refusedHeld()):
		update := *u.open
		update.Tries, update.NotBefore, update.Attempt = 0, nil, u.group.nextAttempt()
		u.group.put(u, update)
	case u.open != nil && !u.open.Swapped && u.open.Permit == v1alpha1.PermitServe && (u.open.Tries > 0 || u.open.Cancelled()):
		update := *u.open
		update.Tries, update.Request = 0, nil
		u.group.put(u, update)
	default:
		return false
	}
	return true
}
