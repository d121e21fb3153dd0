package plan

import (
	"fmt"
	"maps"
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// A taking is a unit that a plan takes out of service.
type taking struct {
	group *servingGroup
	unit  string
	kind  v1alpha1.UnitMethod
	asked bool // by a person, to be created anew
}

func (t taking) String() string {
	return fmt.Sprintf("%s %s", t.kind, v1alpha1.LedgerEntry(t.group.Name, t.unit))
}

// judge checks what a plan as a whole may do: budgets, order, latches.
func (m *model) judge(p Plan) error {
	var takings []taking
	m.after = map[string]*v1alpha1.ServingGroupSpec{}
	for name, g := range m.groups {
		m.after[name] = &g.Spec
	}
	for _, a := range p.Actions {
		g := m.groups[a.Group]
		if a.Kind != Write || g == nil {
			continue
		}
		m.after[a.Group] = &a.Spec
		for i := range a.Spec.Updates {
			if u := &a.Spec.Updates[i]; openOf(&g.Spec, u.Unit) == nil && !u.Preparing() {
				takings = append(takings, taking{g, u.Unit, u.Method, u.Recreates()})
			}
		}
	}
	for _, t := range takings {
		if err := m.mayTake(t); err != nil {
			return err
		}
	}
	if err := m.keepsGroups(takings); err != nil {
		return err
	}
	if err := m.inOrder(takings); err != nil {
		return err
	}
	if err := m.keepsRoles(takings); err != nil {
		return err
	}
	return m.explains(p)
}

// mayTake judges one unit by itself.
func (m *model) mayTake(t taking) error {
	if pin := t.group.Spec.Revision; t.unit == "" && m.hidden[pin] && pin != m.target {
		return broken("takes %s, whose revision %s cannot be read", t.group.Name, pin)
	}
	for _, e := range m.unitsOf(t) {
		if pin := pinOf(&t.group.Spec, e); m.hidden[pin] && pin != m.target {
			return broken("takes %s/%s, whose revision %s cannot be read", t.group.Name, t.unit, pin)
		}
	}
	if t.kind == v1alpha1.UnitRemove {
		return nil
	}
	role, ordinal, _ := v1alpha1.ParseUnit(t.unit)
	protected := t.unit == "" && *t.group.Spec.Ordinal < m.serving.Partition || t.unit != "" && ordinal < m.role(role).Partition
	wrong := (t.unit == "") == (m.serving.Type == v1alpha1.RoleRollingUpdate)
	switch {
	case t.asked && !wrong:
		return nil
	case m.serving.Paused:
		return broken("takes %s/%s while paused", t.group.Name, t.unit)
	case protected:
		return broken("takes %s/%s, which the partition protects", t.group.Name, t.unit)
	case m.failedAtTarget():
		return broken("takes %s/%s after a unit failed at the target", t.group.Name, t.unit)
	case wrong:
		return broken("takes %s/%s, which is no unit of %s", t.group.Name, t.unit, m.serving.Type)
	}
	if !m.outdated(t) {
		return broken("takes %s/%s, which is at the target", t.group.Name, t.unit)
	}
	return nil
}

// outdated reports whether the target makes something else of the unit, or more.
func (m *model) outdated(t taking) bool {
	for _, e := range m.unitsOf(t) {
		if m.digest(pinOf(&t.group.Spec, e), e.Role) != m.digest(m.target, e.Role) {
			return true
		}
	}
	for role := range m.layouts[m.target] {
		has := slices.ContainsFunc(t.group.Spec.Instances, func(i v1alpha1.RoleInstance) bool { return i.Role == role })
		if t.unit == "" && !has && m.digest(t.group.Spec.Revision, role) == "" && m.role(role).Replicas > 0 {
			return true
		}
	}
	return false
}

func (m *model) unitsOf(t taking) []*v1alpha1.RoleInstance {
	var of []*v1alpha1.RoleInstance
	for i := range t.group.Spec.Instances {
		inst := &t.group.Spec.Instances[i]
		if t.unit == "" || t.unit == v1alpha1.UnitName(inst.Role, *inst.Ordinal) {
			of = append(of, inst)
		}
	}
	return of
}

func (m *model) role(name string) Role {
	for _, r := range m.serving.Roles {
		if r.Name == name {
			return r
		}
	}
	return Role{Name: name}
}

func (m *model) failedAtTarget() bool {
	for _, g := range m.groups {
		after := m.after[g.Name]
		for i := range after.Updates {
			u := &after.Updates[i]
			if !g.Deleting && u.Target == m.target && u.Method == v1alpha1.UnitRecreate && m.reported(g, u) == v1alpha1.UnitFailed {
				return true
			}
			awaited := u.Recreates() && m.reported(g, u) != v1alpha1.UnitInService
			if !g.Deleting && awaited && !m.outdated(taking{group: g, unit: u.Unit}) {
				return true
			}
		}
	}
	return false
}

// keepsGroups judges the budget over ServingGroups.
func (m *model) keepsGroups(takings []taking) error {
	available, busy, cost, starts := int32(0), int32(0), int32(0), int32(0)
	for _, g := range m.groups {
		available += one(m.availableGroup(g))
		u := openOf(m.after[g.Name], "")
		busy += one(u != nil && u.Method == v1alpha1.UnitRecreate || u == nil && !g.Deleting && slices.Contains(m.ledger, g.Name))
	}
	for _, t := range takings {
		if t.unit != "" {
			continue
		}
		free := !m.availableGroup(t.group)
		if t.kind == v1alpha1.UnitRecreate {
			starts += one(!slices.Contains(m.ledger, t.group.Name))
			free = t.asked && free || m.downGroup(t.group) || slices.Contains(m.ledger, t.group.Name)
		}
		cost += one(!free)
	}
	floor := m.serving.Replicas - m.serving.MaxUnavailable
	if cost > 0 && available-cost < floor {
		return broken("%d of %d available groups are taken, %d must stay: %v", cost, available, floor, takings)
	}
	if most := max(1, m.serving.MaxUnavailable+m.serving.MaxSurge); starts > 0 && busy > most {
		return broken("%d groups are in update, %d may be", busy, most)
	} else if idle := m.idle(); idle != nil && available-cost > floor && busy < most {
		return broken("passes over %s: %d available groups, %d must stay", idle.Name, available-cost, floor)
	}
	return nil
}

// idle is a group that could be taken for an update and is not, the highest of them; nil if there is
// none, or if what is reported does not tell.
func (m *model) idle() *servingGroup {
	var idle *servingGroup
	for _, g := range m.groups {
		if !g.Deleting && g.Status.ObservedGeneration != g.Generation {
			return nil
		}
		busy := g.Deleting || len(g.Spec.Updates) > 0 || len(m.after[g.Name].Updates) > 0
		booked := slices.ContainsFunc(m.ledger, func(e string) bool { sg, _, _ := cutEntry(e); return sg == g.Name })
		if busy || booked || m.mayTake(taking{group: g, kind: v1alpha1.UnitRecreate}) != nil {
			continue
		}
		if idle == nil || *g.Spec.Ordinal > *idle.Spec.Ordinal {
			idle = g
		}
	}
	return idle
}

// inOrder judges the order: no idle group has a higher ordinal than one that was taken.
func (m *model) inOrder(takings []taking) error {
	idle := m.idle()
	for _, t := range takings {
		if t.unit != "" || t.asked || t.kind == v1alpha1.UnitRemove || slices.Contains(m.ledger, t.group.Name) || m.downGroup(t.group) {
			continue
		}
		if idle != nil && *idle.Spec.Ordinal > *t.group.Spec.Ordinal {
			return broken("takes %s before %s", t.group.Name, idle.Name)
		}
	}
	return nil
}

func (m *model) availableGroup(g *servingGroup) bool {
	booked := func(name string) bool { return slices.Contains(m.ledger, v1alpha1.LedgerEntry(g.Name, name)) }
	return !slices.Contains(m.ledger, g.Name) && !partIs(g, booked) && m.groupHas(g, func(name string) bool { return m.availableInstance(g, name) })
}

// partIs reports whether an instance that is to stay has the property: whatever the strategy and the
// group's layout, what is in update or booked is lost to the group.
func partIs(g *servingGroup, is func(name string) bool) bool {
	return slices.ContainsFunc(g.Spec.Instances, func(i v1alpha1.RoleInstance) bool {
		name := v1alpha1.UnitName(i.Role, *i.Ordinal)
		u := openOf(&g.Spec, name)
		return (u == nil || u.Method != v1alpha1.UnitRemove) && is(name)
	})
}

// groupHas reports whether, in a group that is in no update as a whole, all instances that are to stay
// are as they should be, and as many as declared.
func (m *model) groupHas(g *servingGroup, is func(name string) bool) bool {
	open := func(name string) bool { return openOf(&g.Spec, name) != nil }
	if g.Deleting || openOf(&g.Spec, "") != nil || partIs(g, open) {
		return false
	}
	for role := range m.rolesOf(g) {
		ready, all := int32(0), int32(0)
		for i := range g.Spec.Instances {
			inst := &g.Spec.Instances[i]
			name := v1alpha1.UnitName(inst.Role, *inst.Ordinal)
			if u := openOf(&g.Spec, name); inst.Role != role || u != nil && u.Method == v1alpha1.UnitRemove {
				continue
			}
			all++
			ready += one(is(name))
		}
		if m.hidden[g.Spec.Revision] && g.Spec.Revision != m.target || m.digest(g.Spec.Revision, role) != "" || m.settles(g) {
			all = max(all, m.role(role).Replicas)
		}
		if ready < all {
			return false
		}
	}
	return true
}

// settles reports whether the group is what the target makes of it, so that nothing but its pin is to be
// written: then as many instances of an added role are missed as are declared.
func (m *model) settles(g *servingGroup) bool {
	t := taking{group: g}
	for _, inst := range m.unitsOf(t) {
		if pin := pinOf(&g.Spec, inst); m.hidden[pin] && pin != m.target {
			return false
		}
	}
	return *g.Spec.Ordinal >= m.serving.Partition && !m.outdated(t)
}

// rolesOf are the roles of the group's revision; as long as that cannot be read, or if roles are not added
// one by one, also those that it has; and as long as it cannot be read any declared role may be one of them.
func (m *model) rolesOf(g *servingGroup) map[string]bool {
	roles := map[string]bool{}
	hidden := m.hidden[g.Spec.Revision] && g.Spec.Revision != m.target
	if hidden || m.serving.Type != v1alpha1.RoleRollingUpdate {
		for i := range g.Spec.Instances {
			roles[g.Spec.Instances[i].Role] = true
		}
	}
	if hidden {
		for _, r := range m.serving.Roles {
			roles[r.Name] = true
		}
		return roles
	}
	for role := range m.layouts[g.Spec.Revision] {
		roles[role] = true
	}
	return roles
}

func (m *model) availableInstance(g *servingGroup, name string) bool {
	p := g.pods[name]
	return p != nil && p.ready() && covering(&g.Spec, name) == nil && !m.now.Before(p.readySince.Add(m.serving.MinReady)) &&
		!slices.Contains(m.ledger, v1alpha1.LedgerEntry(g.Name, name))
}

// downGroup: one of its roles has had no Ready entry Pod for 30 seconds.
func (m *model) downGroup(g *servingGroup) bool {
	all, down := map[string]int{}, map[string]int{}
	for i := range g.Spec.Instances {
		inst := &g.Spec.Instances[i]
		all[inst.Role]++
		if m.down(g.pods[v1alpha1.UnitName(inst.Role, *inst.Ordinal)]) {
			down[inst.Role]++
		}
	}
	roles := m.rolesOf(g)
	for role, n := range all {
		if roles[role] && down[role] == n {
			return true
		}
	}
	return false
}

// keepsRoles judges the budgets of role instances, and the cap over all groups.
func (m *model) keepsRoles(takings []taking) error {
	if m.serving.Type != v1alpha1.RoleRollingUpdate {
		return nil
	}
	before, after, opens := map[string]bool{}, map[string]bool{}, false
	for _, e := range m.ledger {
		sg, unit, ok := cutEntry(e)
		surplus := slices.ContainsFunc(takings, func(t taking) bool {
			role, _, _ := v1alpha1.ParseUnit(t.unit)
			return t.group.Name == sg && t.unit == unit && t.kind == v1alpha1.UnitRemove && m.digest(m.target, role) != ""
		})
		if ok && m.groups[sg] != nil && !surplus && m.counts(m.groups[sg], unit) {
			before[sg] = true
		}
	}
	maps.Copy(after, before)
	for _, t := range takings {
		role, _, ok := v1alpha1.ParseUnit(t.unit)
		if !ok || t.kind == v1alpha1.UnitRemove && m.digest(m.target, role) != "" {
			continue
		}
		after[t.group.Name], opens = true, true
		if err := m.keepsRole(t.group, role, takings); err != nil {
			return err
		}
	}
	if most := m.serving.MaxUnavailableGroups; most > 0 && opens && int32(len(after)) > most {
		return broken("instances of %d groups are out of service, those of %d may be", len(after), most)
	}
	return nil
}

// counts reports whether a booked instance counts for the cap over groups: one that is merely
// surplus does not.
func (m *model) counts(g *servingGroup, unit string) bool {
	role, ordinal, _ := v1alpha1.ParseUnit(unit)
	u := openOf(m.after[g.Name], unit)
	listed := slices.ContainsFunc(g.Spec.Instances, func(i v1alpha1.RoleInstance) bool { return i.Role == role && *i.Ordinal == ordinal })
	return u == nil && (listed || g.pods[unit] != nil) || u != nil && (u.Method == v1alpha1.UnitRecreate || m.digest(m.target, role) == "")
}

func (m *model) keepsRole(g *servingGroup, role string, takings []taking) error {
	r := m.role(role)
	available, busy, cost, starts, removals := int32(0), int32(0), int32(0), int32(0), int32(0)
	for i := range g.Spec.Instances {
		inst := &g.Spec.Instances[i]
		if inst.Role != role {
			continue
		}
		name := v1alpha1.UnitName(role, *inst.Ordinal)
		u, booked := openOf(m.after[g.Name], name), slices.Contains(m.ledger, v1alpha1.LedgerEntry(g.Name, name))
		available += one(m.availableInstance(g, name))
		busy += one(u != nil && u.Method == v1alpha1.UnitRecreate || u == nil && booked)
		for _, t := range takings {
			if t.group != g || t.unit != name {
				continue
			}
			if t.kind == v1alpha1.UnitRemove {
				removals++
				cost += one(m.availableInstance(g, name))
				continue
			}
			starts += one(!booked)
			cost += one(!booked && !m.down(g.pods[name]) && (!t.asked || m.availableInstance(g, name)))
		}
	}
	floor := r.Replicas - r.MaxUnavailable
	switch {
	case m.digest(m.target, role) == "":
		if removals > 1 {
			return broken("%d instances of %s/%s retire at one time", removals, g.Name, role)
		}
	case cost > 0 && available-cost < floor:
		return broken("%d of %d available instances of %s/%s are taken, %d must stay", cost, available, g.Name, role, floor)
	case starts > 0 && busy > max(1, r.MaxUnavailable+r.MaxSurge):
		return broken("%d instances of %s/%s are in update", busy, g.Name, role)
	}
	return nil
}
