package plan

import (
	"fmt"
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// scaleGroups brings the number of ServingGroups to what is declared. What is on its way out comes
// back before anything is created.
func (w *world) scaleGroups() {
	if w.byRole() && w.pool.count((*unit).stays) > w.pool.most() {
		w.discountGrowing()
	}
	for _, u := range w.scale(&w.pool) {
		w.createGroup(u)
	}
}

// discountGrowing takes groups for what this pass makes of them before it is decided which may go: one that
// is given an instance, or keeps one that was to go, is not available until that is ready.
func (w *world) discountGrowing() {
	for _, g := range w.groups {
		if u := g.whole; u.available && w.grows(g) {
			u.available, u.uncertain = false, true
		}
	}
}

// grows reports whether this pass adds an instance to the group, or takes the removal of one back.
func (w *world) grows(g *group) bool {
	return slices.ContainsFunc(w.Serving.Roles, func(r Role) bool {
		p := w.rolePool(g, r)
		return p.count((*unit).stays) < p.least()
	})
}

// scale starts and takes back removals in a pool, and returns the ordinals to create.
func (w *world) scale(p *pool) []int32 {
	keep := p.count((*unit).stays)
	for _, u := range p.victims(keep - p.most()) {
		w.remove(u)
	}
	for _, u := range p.recalled(p.least() - keep) {
		w.recall(u)
		keep++
	}
	missing := p.least() - keep
	return p.free(min(missing, p.least()-int32(len(p.units))))
}

// createGroup makes the ServingGroup of an ordinal: a protected one at the current revision, any
// other at the target, unless that is rejected. Nothing is created from a revision that cannot be read.
func (w *world) createGroup(ordinal int32) {
	revision := w.Target
	if w.rejected() || !w.byRole() && ordinal < w.Serving.Partition {
		revision = w.current()
	}
	name := v1alpha1.ServingGroupName(w.Serving.Name, ordinal)
	instances := w.layOut(revision, w.likeAt(revision))
	if w.byRole() {
		w.protect(instances, revision)
	}
	if lacking := w.lacking(revision, instances); lacking != "" {
		w.unresolved = append(w.unresolved, unresolved{name, lacking})
		return
	}
	w.creates = append(w.creates, Action{
		Kind: Create, Group: name,
		Spec:  v1alpha1.ServingGroupSpec{Ordinal: new(ordinal), Revision: revision, Instances: instances},
		Event: v1alpha1.EventScaled, Message: fmt.Sprintf("created ServingGroup %s at revision %s", name, revision),
	})
}

// lacking returns the revision that a new group needs and that cannot be read, empty if there is none.
func (w *world) lacking(revision string, instances []v1alpha1.RoleInstance) string {
	if w.Layouts[revision] == nil {
		return revision
	}
	for i := range instances {
		if r := instances[i].Revision; r != "" && w.Layouts[r] == nil {
			return r
		}
	}
	return ""
}

// likeAt returns a group that is pinned to the revision, nil if there is none.
func (w *world) likeAt(revision string) *group {
	for _, g := range w.groups {
		if g.Spec.Revision == revision {
			return g
		}
	}
	return nil
}

// protect pins the instances of a new group below their role's partition to the current revision.
func (w *world) protect(instances []v1alpha1.RoleInstance, group string) {
	for i := range instances {
		inst := &instances[i]
		inst.Revision = w.pinOfNew(inst.Role, *inst.Ordinal, group)
	}
}

// remove takes a unit out of service so that it can go. A removal takes the place of every other
// update that is open in what goes.
func (w *world) remove(u *unit) {
	if w.full(u) {
		return
	}
	g, previous := u.group, u.pin
	if u.open != nil {
		previous = u.open.Previous
	}
	if u.role == "" {
		w.dropUpdates(g)
	}
	entry := w.take(u, v1alpha1.UnitUpdate{Method: v1alpha1.UnitRemove, Previous: previous})
	g.note(v1alpha1.EventScaled, "removing "+entry)
}

// dropUpdates takes all open updates from a group that goes as a whole.
func (w *world) dropUpdates(g *group) {
	g.edit().Updates = nil
	for i := range g.instances {
		g.instances[i].open, g.instances[i].ahead, g.instances[i].report = nil, nil, nil
	}
}

// recall takes a removal back: the unit goes on at its pin.
func (w *world) recall(u *unit) {
	w.backOut(u)
	u.group.note(v1alpha1.EventScaled, fmt.Sprintf("keeping %s after all", u.name()))
}

// take starts an update that takes the unit out of service: ledger first, even if the unit is booked
// already, for only the write of the ledger proves that the one that was read is today's. It returns the
// unit's entry.
func (w *world) take(u *unit, update v1alpha1.UnitUpdate) string {
	update.Unit, update.Attempt, update.Permit = u.unitName(), u.group.nextAttempt(), v1alpha1.PermitDrain
	return w.put(u, update)
}

// put writes an update that takes the unit out of service.
func (w *world) put(u *unit, update v1alpha1.UnitUpdate) string {
	g := u.group
	g.put(u, update)
	entry := v1alpha1.LedgerEntry(g.Name, update.Unit)
	g.entries = append(g.entries, entry)
	w.left -= int(one(!u.booked))
	u.booked, u.available = true, false
	return entry
}
