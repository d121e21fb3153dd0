package pods_test

import (
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// These are what the ModelServing controller and people do to the group.

func (w *world) write() { w.group.Generation++ }

// pin returns the revision of a unit.
func (w *world) pin(unit string) string {
	for _, i := range w.group.Spec.Instances {
		if unit == v1alpha1.UnitName(i.Role, *i.Ordinal) && i.Revision != "" {
			return i.Revision
		}
	}
	return w.group.Spec.Revision
}

func (w *world) declared(unit string) bool {
	return unit == "" || slices.ContainsFunc(w.group.Spec.Instances, func(i v1alpha1.RoleInstance) bool {
		return unit == v1alpha1.UnitName(i.Role, *i.Ordinal)
	})
}

func (w *world) update(unit string) *v1alpha1.UnitUpdate {
	for n := range w.group.Spec.Updates {
		if w.group.Spec.Updates[n].Unit == unit {
			return &w.group.Spec.Updates[n]
		}
	}
	return nil
}

// target begins an update, or turns one that is under way to another revision.
func (w *world) target(unit, revision string, method v1alpha1.UnitMethod) {
	u := w.update(unit)
	whole := w.update("")
	if w.gone || w.group.Deleting || !w.declared(unit) || unit != "" && whole != nil || unit == "" && u == nil && len(w.group.Spec.Updates) > 0 {
		return
	}
	w.group.Spec.LastAttempt++
	next := v1alpha1.UnitUpdate{
		Unit: unit, Attempt: w.group.Spec.LastAttempt, Method: method, Target: revision,
		Previous: w.pin(unit), Permit: v1alpha1.PermitDrain,
	}
	switch {
	case u == nil && method == v1alpha1.UnitRecreate && revision == w.pin(unit):
		w.group.Spec.LastAttempt--
		return
	case u != nil && u.Permit != v1alpha1.PermitDrain:
		w.spare(unit)
		*u = next
	case u == nil:
		w.group.Spec.Updates = append(w.group.Spec.Updates, next)
	default: // back out first
		w.spare(unit)
		next.Method, next.Target, next.Permit = v1alpha1.UnitRecreate, w.pin(unit), v1alpha1.PermitServe
		*u = next
	}
	w.say("serving: %s %q to %s, permit %s", next.Method, unit, next.Target, next.Permit)
	w.write()
}

// spare has the Pods of a unit be those that it is to have: the attempt that they were to go for is no more.
func (w *world) spare(unit string) {
	for _, p := range w.pods {
		if unit == "" || unit == v1alpha1.UnitName(p.Role, p.Instance) {
			p.doomed = false
		}
	}
}

// recreate begins an update at the unit's own pin, which a person asked for.
func (w *world) recreate(unit string) {
	u := w.update(unit)
	if w.gone || w.group.Deleting || !w.declared(unit) || unit != "" && w.update("") != nil || unit == "" && u == nil && len(w.group.Spec.Updates) > 0 ||
		u != nil && u.Method == v1alpha1.UnitRemove {
		return
	}
	w.group.Spec.LastAttempt++
	w.spare(unit)
	next := v1alpha1.UnitUpdate{
		Unit: unit, Attempt: w.group.Spec.LastAttempt, Method: v1alpha1.UnitRecreate, Target: w.pin(unit), Previous: w.pin(unit),
		Permit: v1alpha1.PermitDrain, Request: &v1alpha1.UnitRequest{Verb: v1alpha1.VerbRecreate},
	}
	if u == nil {
		w.group.Spec.Updates = append(w.group.Spec.Updates, next)
	} else {
		*u = next
	}
	w.say("serving: %q is recreated at %s", unit, next.Target)
	w.write()
}

// serve answers one unit that has got as far as it may, and reports whether any has.
func (w *world) serve() bool {
	st := w.group.Status
	if w.gone || w.group.Deleting || st.ObservedGeneration != w.group.Generation {
		return false
	}
	for n := range w.group.Spec.Updates {
		u := &w.group.Spec.Updates[n]
		at := slices.IndexFunc(st.Updates, func(s v1alpha1.UnitUpdateStatus) bool { return s.Unit == u.Unit && s.Attempt == u.Attempt })
		if at >= 0 && w.answer(u, st.Updates[at].Stage) {
			w.write()
			return true
		}
	}
	return false
}

func (w *world) answer(u *v1alpha1.UnitUpdate, stage v1alpha1.UnitStage) bool {
	switch {
	case u.Permit == v1alpha1.PermitDrain && stage == v1alpha1.UnitDrained:
		w.swap(u)
	case u.Method == v1alpha1.UnitRemove:
		if slices.ContainsFunc(w.group.Status.Instances, func(i v1alpha1.InstanceStatus) bool {
			return u.Unit == v1alpha1.UnitName(i.Role, *i.Ordinal)
		}) {
			return false
		}
		w.close(u)
	case u.Permit == v1alpha1.PermitSwap && stage == v1alpha1.UnitVerified:
		u.Permit = v1alpha1.PermitServe
	case u.Permit == v1alpha1.PermitServe && stage == v1alpha1.UnitInService:
		w.close(u)
	default:
		return false
	}
	w.say("serving: %q at %s is answered", u.Unit, stage)
	return true
}

func (w *world) close(u *v1alpha1.UnitUpdate) {
	unit := u.Unit
	w.group.Spec.Updates = slices.DeleteFunc(w.group.Spec.Updates, func(o v1alpha1.UnitUpdate) bool { return o.Unit == unit })
}

func (w *world) swap(u *v1alpha1.UnitUpdate) {
	for _, p := range w.pods {
		of := u.Unit == "" || u.Unit == v1alpha1.UnitName(p.Role, p.Instance)
		p.condemned = p.condemned || of
		if of {
			p.doomed = u.Recreates()
		}
	}
	switch {
	case u.Recreates():
	case u.Method == v1alpha1.UnitRemove && u.Unit == "":
		w.group.Deleting = true
		return
	case u.Method == v1alpha1.UnitRemove:
		w.undeclare(u.Unit)
	case u.Unit == "":
		w.group.Spec.Revision = u.Target
		for n := range w.group.Spec.Instances {
			w.group.Spec.Instances[n].Revision = ""
		}
	default:
		for n, i := range w.group.Spec.Instances {
			if u.Unit == v1alpha1.UnitName(i.Role, *i.Ordinal) {
				w.group.Spec.Instances[n].Revision = u.Target
			}
		}
	}
	u.Permit = v1alpha1.PermitSwap
}

func (w *world) undeclare(unit string) {
	w.group.Spec.Instances = slices.DeleteFunc(w.group.Spec.Instances, func(i v1alpha1.RoleInstance) bool {
		return unit == v1alpha1.UnitName(i.Role, *i.Ordinal)
	})
}

// declare adds an instance that is in no update and has no Pods any more.
func (w *world) declare(unit string) {
	if w.gone || w.group.Deleting || w.declared(unit) || w.update(unit) != nil || w.update("") != nil {
		return
	}
	role, n, _ := v1alpha1.ParseUnit(unit)
	w.group.Spec.Instances = append(w.group.Spec.Instances, v1alpha1.RoleInstance{Role: role, Ordinal: &n})
	w.say("serving: declares %s", unit)
	w.write()
}
