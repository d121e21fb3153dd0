package plan

import (
	"fmt"
	"maps"
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// rolePool has the instances of a declared role in one group. Only RoleRollingUpdate brings role
// instances to the target, and only it has surge and a partition for them. The pool lasts until the next
// one is asked for.
func (w *world) rolePool(g *group, r Role) pool {
	w.part = g.appendOf(w.part[:0], r.Name)
	p := pool{
		units: w.part, replicas: r.Replicas, maxUnavailable: r.MaxUnavailable,
		paused: w.Serving.Paused, inPlace: w.Serving.InPlace,
	}
	if w.byRole() {
		p.maxSurge = r.MaxSurge
	}
	return p
}

// scaleInstances brings the number of instances of each role in each group to what is declared.
func (w *world) scaleInstances() {
	for _, g := range w.groups {
		if g.resting || g.whole.leaving || g.whole.open != nil || g.whole.booked {
			continue
		}
		for _, r := range w.Serving.Roles {
			if !w.byRole() && !g.layout.has(r.Name) {
				continue // comes with the group's update
			}
			p := w.rolePool(g, r)
			for _, o := range w.scale(&p) {
				w.createInstance(g, r, o)
			}
		}
	}
}

// createInstance adds an instance to a group: at the group's pin, or with RoleRollingUpdate at the
// revision that its own ordinal asks for.
func (w *world) createInstance(g *group, r Role, ordinal int32) {
	revision := ""
	if w.byRole() {
		revision = w.pinOfNew(r.Name, ordinal, g.Spec.Revision)
	}
	at := revision
	if at == "" {
		at = g.Spec.Revision
	}
	if !w.Layouts[at].has(r.Name) {
		w.unresolved = append(w.unresolved, unresolved{v1alpha1.LedgerEntry(g.Name, v1alpha1.UnitName(r.Name, ordinal)), at})
		return
	}
	d := g.edit()
	d.Instances = append(d.Instances, v1alpha1.RoleInstance{Role: r.Name, Ordinal: new(ordinal), Revision: revision})
	slices.SortFunc(d.Instances, compareInstances)
	g.note(v1alpha1.EventScaled, fmt.Sprintf("creating %s", v1alpha1.LedgerEntry(g.Name, v1alpha1.UnitName(r.Name, ordinal))))
}

// pinOfNew is the pin of a new role instance, empty if it is that of its group: a protected one is
// created at the current revision, unless that has no such role.
func (w *world) pinOfNew(role string, ordinal int32, group string) string {
	revision := w.Target
	if layout, known := w.Layouts[w.current()]; (w.rejected() || ordinal < w.declared[role].Partition) && (!known || layout.has(role)) {
		revision = w.current()
	}
	if revision == group || sameRole(w.Layouts[revision], w.Layouts[group], role) {
		return ""
	}
	return revision
}

// rollInstances starts updates of role instances, and the removal of those whose role is no longer
// declared, as many as the budget of each role and the cap over all groups allow. Beyond the cap, after
// it was lowered, nothing is taken: what is booked and not open may be in service, and is struck. What is
// out of service already may go all the same, or nothing would ever end its update if it cannot come good.
func (w *world) rollInstances() {
	left := int32(len(w.groups))
	if most := w.Serving.MaxUnavailableGroups; most > 0 {
		left = most - w.touched()
	}
	beyond := left < 0
	for _, c := range w.callers() {
		if !c.touched {
			if left <= 0 {
				continue
			}
			left--
		}
		if beyond {
			c.starts = nil
			c.retired = slices.DeleteFunc(c.retired, func(u *unit) bool { return !u.updating() })
		}
		w.takeAll(c)
	}
}

func (w *world) takeAll(c caller) {
	for _, u := range c.starts {
		w.start(u)
	}
	for _, u := range c.retired {
		w.remove(u)
	}
}

// A caller is a group with role instances that could be taken out of service now.
type caller struct {
	*group
	touched bool // it has some out of service already
	starts  []*unit
	retired []*unit
}

func (c caller) down() bool {
	return slices.ContainsFunc(c.starts, func(u *unit) bool { return u.down })
}

// callers returns the groups that have something to take: those first that are touched already,
// then those with a unit that is down, then the highest ordinal.
func (w *world) callers() []caller {
	callers := make([]caller, 0, len(w.groups))
	for _, g := range w.groups {
		if g.whole.leaving || g.whole.open != nil || g.whole.booked || w.Serving.Paused {
			continue
		}
		c := caller{group: g, touched: w.touches(g)}
		for _, r := range w.Serving.Roles {
			p := w.rolePool(g, r)
			c.starts = append(c.starts, p.starts()...)
		}
		c.retired = w.retirable(g)
		if len(c.starts)+len(c.retired) > 0 {
			callers = append(callers, c)
		}
	}
	slices.SortFunc(callers, byCall)
	return callers
}

// retirable returns the next instance of each role that is no longer declared: one at a time.
func (w *world) retirable(g *group) []*unit {
	gone := map[string]bool{}
	for i := range g.instances {
		if role := g.instances[i].role; w.target != nil && !w.target.has(role) {
			gone[role] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	var units []*unit
	for _, role := range slices.Sorted(maps.Keys(gone)) {
		p := pool{units: g.appendOf(nil, role), maxUnavailable: int32(len(g.instances))}
		if p.count((*unit).stays) == int32(len(p.units)) {
			units = append(units, p.victims(1)...)
		}
	}
	return units
}

// touched counts the groups that have role instances out of service for the rollout.
func (w *world) touched() int32 {
	n := int32(0)
	for _, g := range w.groups {
		n += one(w.touches(g))
	}
	return n
}

func (w *world) touches(g *group) bool {
	return g.anyPart(func(u *unit) bool {
		return u.updating() || u.booked && !u.removing() || u.removing() && !w.target.has(u.role)
	})
}

// start takes a unit out of service to bring it to the target.
func (w *world) start(u *unit) {
	if w.full(u) {
		return
	}
	u.group.starts = true
	var entry string
	if u.ahead != nil {
		update := *u.ahead
		update.Permit, update.Previous, update.Request = v1alpha1.PermitDrain, u.pin, nil
		entry = w.put(u, update)
	} else {
		entry = w.take(u, v1alpha1.UnitUpdate{Method: v1alpha1.UnitRecreate, Target: w.want(u), Previous: u.pin})
	}
	u.group.note(v1alpha1.EventUnitStarted, entry+" is taken out of service: revision "+u.pin+" to "+u.open.Target)
}

// reports reports whether the group's status still lists the instance.
func (g *group) reports(u *unit) bool {
	return slices.ContainsFunc(g.Status.Instances, func(s v1alpha1.InstanceStatus) bool {
		return s.Role == u.role && *s.Ordinal == u.ordinal
	})
}

// dropInstance takes the instance from the list of those that are to exist.
func (g *group) dropInstance(u *unit) {
	d := g.edit()
	d.Instances = slices.DeleteFunc(d.Instances, func(i v1alpha1.RoleInstance) bool {
		return i.Role == u.role && *i.Ordinal == u.ordinal
	})
}
