package plan

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
)

// newGroup fills a group from what was read of it, and judges it.
func (w *world) newGroup(g *group, read *Group) {
	*g = group{
		whole: g.whole, Group: read, draft: read.Spec,
		layout:   w.Layouts[read.Spec.Revision],
		settled:  read.Status.ObservedGeneration == read.Generation,
		inUpdate: len(read.Spec.Updates) > 0,
	}
	if c := meta.FindStatusCondition(read.Status.Conditions, v1alpha1.ConditionBlocked); c != nil && c.Status == metav1.ConditionTrue {
		g.blocked = c
	}
	*g.whole = unit{group: g, ordinal: ptr.Deref(read.Spec.Ordinal, 0), pin: read.Spec.Revision, leaving: read.Deleting}
	g.whole.protected = !w.byRole() && g.whole.ordinal < w.Serving.Partition
	w.openOf(g.whole)
	g.findSick()
	w.instancesOf(g)
	g.whole.known = w.groupKnown(g)
	g.whole.atTarget = w.groupAtTarget(g)
	w.judgeGroup(g)
	if w.atRest(w, g) {
		w.giveBack(g.instances[:0])
		g.resting, g.instances = true, nil
	}
}

// resting reports whether nothing can become of the group's instances in this pass, whatever becomes of the
// group: all are ready at its pin, as many as declared, and nothing of the group is in update or booked. Of ten
// thousand groups almost all are at rest, and to keep what was found of their instances is most of the
// costs of a pass.
func (w *world) resting(g *group) bool {
	if w.byRole() || g.unwell || g.ailing || g.ownPins || g.whole.leaving || !g.whole.known || g.inUpdate || w.booked[g.Name] != nil {
		return false
	}
	return !slices.ContainsFunc(w.counts, func(c instanceCounts) bool { return c.staying != w.declared[c.role].Replicas })
}

// openOf finds the unit's update and the report on it.
func (w *world) openOf(u *unit) {
	g := u.group
	if entries := w.booked[g.Name]; entries != nil {
		u.booked = entries[u.unitName()]
	}
	if len(g.Spec.Updates) == 0 {
		return
	}
	name := u.unitName()
	for i := range g.Spec.Updates {
		if g.Spec.Updates[i].Unit == name {
			open := g.Spec.Updates[i]
			if open.Preparing() {
				u.ahead = &open
			} else {
				u.open = &open
			}
		}
	}
	for i := range g.Status.Updates {
		r := &g.Status.Updates[i]
		if under := cmp.Or(u.open, u.ahead); g.settled && under != nil && r.Unit == name && r.Attempt == under.Attempt {
			u.report = r
		}
	}
}

// instancesOf makes a unit of each instance that is declared or still has Pods.
func (w *world) instancesOf(g *group) {
	g.instances = w.room(len(g.Spec.Instances))
	seen := make([]bool, len(g.Status.Instances))
	cursor := 0
	for i := range g.Spec.Instances {
		inst := &g.Spec.Instances[i]
		var status *v1alpha1.InstanceStatus
		// Both lists are in one order as a rule, so that the search ends where it starts.
		for n := range g.Status.Instances {
			at := (cursor + n) % len(g.Status.Instances)
			if st := &g.Status.Instances[at]; st.Role == inst.Role && *st.Ordinal == *inst.Ordinal {
				status, cursor, seen[at] = st, at+1, true
				break
			}
		}
		w.addInstance(g, inst, status)
	}
	for i, known := range seen {
		if st := &g.Status.Instances[i]; !known {
			w.addLeaving(g, st.Role, *st.Ordinal)
		}
	}
	for i := range g.Spec.Updates {
		role, ordinal, ok := v1alpha1.ParseUnit(g.Spec.Updates[i].Unit)
		if ok && !slices.ContainsFunc(g.instances, func(u unit) bool { return u.role == role && u.ordinal == ordinal }) {
			w.addLeaving(g, role, ordinal)
		}
	}
}

// addLeaving adds an instance that is declared no more: it keeps its ordinal until its last Pod
// is gone and its removal is closed.
func (w *world) addLeaving(g *group, role string, ordinal int32) {
	w.addInstance(g, &v1alpha1.RoleInstance{Role: role, Ordinal: &ordinal}, nil).leaving = true
}

// addInstance adds an instance, and judges it where it lies: there may be very many.
func (w *world) addInstance(g *group, inst *v1alpha1.RoleInstance, st *v1alpha1.InstanceStatus) *unit {
	g.instances = append(g.instances, unit{
		group: g, role: inst.Role, ordinal: *inst.Ordinal,
		pin: cmp.Or(inst.Revision, g.Spec.Revision),
	})
	u := &g.instances[len(g.instances)-1]
	layout := g.layout
	if inst.Revision != "" {
		g.ownPins = true
		layout = w.Layouts[inst.Revision]
	}
	u.known = layout.has(u.role)
	u.atTarget = u.pin == w.Target && w.target.has(u.role) || sameRole(layout, w.target, u.role)
	u.protected = w.byRole() && u.ordinal < w.declared[u.role].Partition
	w.openOf(u)
	u.held = g.heldOf(u.unitName())
	if st != nil {
		u.sick = st.GPUFault
		w.judgeInstance(u, st)
	}
	return u
}

// judgeInstance reads the status of an instance. A status that is about an older spec still tells of
// Pods that are at today's pin.
func (w *world) judgeInstance(u *unit, st *v1alpha1.InstanceStatus) {
	u.cost = st.DeletionCost
	inUpdate := u.open != nil || u.group.whole.open != nil
	u.ready = st.Ready && !inUpdate && (u.group.settled || w.same(u, st.Revision, u.pin))
	if u.ready {
		u.available = w.ripe(timeOf(st.ReadySince)) && !u.booked && !u.held && !u.group.whole.booked
		return
	}
	u.uncertain = !inUpdate && !u.booked && !u.group.settled
	u.since = timeOf(st.DownSince)
	u.down = !u.since.IsZero() && u.group.settled && !inUpdate && w.passed(u.since.Add(downAfter))
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func (w *world) groupKnown(g *group) bool {
	if g.layout == nil {
		return false
	}
	for i := range g.instances {
		if u := &g.instances[i]; !u.leaving && !u.known {
			return false
		}
	}
	return true
}

// groupAtTarget reports whether the target makes of each instance what it is, and of nothing more.
func (w *world) groupAtTarget(g *group) bool {
	for i := range g.instances {
		if u := &g.instances[i]; !u.leaving && !u.atTarget {
			return false
		}
	}
	for role := range w.target {
		if !g.layout.has(role) && w.declared[role].Replicas > 0 && !g.anyPart(func(u *unit) bool { return u.role == role && !u.leaving }) {
			return false
		}
	}
	return true
}

// appendOf appends the instances of a role to units.
func (g *group) appendOf(units []*unit, role string) []*unit {
	for i := range g.instances {
		if g.instances[i].role == role {
			units = append(units, &g.instances[i])
		}
	}
	return units
}

// judgeGroup derives the group's readiness from that of its instances: in every role of its layout all
// that are to stay are ready, and there are as many as declared. With RoleRollingUpdate one of a role that was
// added counts from its first update on, which takes away what served. Without any Ready entry Pod in one of
// its roles a group answers no request: it is down.
func (w *world) judgeGroup(g *group) {
	u := g.whole
	u.ready = u.open == nil && !u.leaving && (g.settled && g.layout != nil || len(g.instances) > 0)
	u.available = u.ready && !u.booked && !u.held
	u.sound = u.ready
	g.serves = u.available
	w.counts = w.countInstances(w.counts[:0], g)
	for _, c := range w.counts {
		declared := w.declared[c.role]
		if settles := u.atTarget && u.known && !u.protected; g.layout != nil && !g.layout.has(c.role) && !settles {
			declared = Role{} // more of them come with the group's update
		}
		needed := max(c.staying, declared.Replicas)
		u.ready = u.ready && c.ready >= needed
		u.sound = u.sound && c.ready >= c.staying
		u.available = u.available && c.available >= needed
		g.serves = g.serves && c.available >= declared.Replicas-declared.MaxUnavailable
		u.down = u.down || c.staying > 0 && c.down == c.staying
	}
	for i := range g.instances {
		part := &g.instances[i]
		g.unwell = g.unwell || !part.ready
		u.ready = u.ready && (!part.stays() || !part.updating())
		u.available = u.available && u.ready && (!part.stays() || !part.booked)
		u.cost += part.cost
		u.since = earlier(u.since, part.since)
	}
	g.unwell = g.unwell || !u.ready
	u.uncertain = !u.ready && u.open == nil && !u.booked && !u.leaving && !g.settled
	if c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady); u.since.IsZero() && c != nil && c.Status != metav1.ConditionTrue {
		u.since = c.LastTransitionTime.Time
	}
}

// earlier returns the earlier of two times, of which a zero one is unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// instanceCounts counts the instances of one role.
type instanceCounts struct {
	role                            string
	staying, ready, available, down int32
}

// countInstances appends the counts of each role of the group's layout; of each role that the group has or
// might have if the layout cannot be read, and of each that it has if roles are not added one by one.
func (w *world) countInstances(counts []instanceCounts, g *group) []instanceCounts {
	for role := range g.layout {
		counts = append(counts, instanceCounts{role: role})
	}
	if g.layout == nil { // any declared role may be one of the group's: what is unknown is missed
		for _, r := range w.Serving.Roles {
			counts = append(counts, instanceCounts{role: r.Name})
		}
	}
	for i := range g.instances {
		u := &g.instances[i]
		at := slices.IndexFunc(counts, func(c instanceCounts) bool { return c.role == u.role })
		if at < 0 && g.layout != nil && w.byRole() {
			continue
		}
		if at < 0 {
			at, counts = len(counts), append(counts, instanceCounts{role: u.role})
		}
		if c := &counts[at]; u.stays() {
			c.staying++
			c.ready += one(u.ready)
			c.available += one(u.available)
			c.down += one(u.down)
		}
	}
	return counts
}

func one[T ~bool](b T) int32 {
	if b {
		return 1
	}
	return 0
}
