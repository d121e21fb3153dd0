package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pitstop.dev/api/v1alpha1"
)

var errRule = errors.New("rule broken")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errRule}, args...)...)
}

func (m *model) pass() error {
	_, err := m.passed()
	return err
}

// passed has the ModelServing controller decide and act, and judges what it does. Chance may end the
// pass between two of its actions.
func (m *model) passed() (Plan, error) {
	p := m.decide(m.snapshot())
	if err := m.judge(p); err != nil {
		return p, err
	}
	for _, a := range p.Actions {
		if !m.healed && m.draw(8) == 0 {
			m.logf("the controller ends before %s %s", a.Kind, a.Group)
			return p, nil
		}
		if a.Kind == Record {
			m.record(p)
			continue
		}
		if err := m.apply(a); err != nil {
			return p, err
		}
	}
	if p.Report.Complete {
		m.current = m.target
	}
	m.settle(p)
	return p, nil
}

func (m *model) apply(a Action) error {
	m.logf("%s %s %v %s", a.Kind, a.Group, a.Entries, a.Message)
	g := m.groups[a.Group]
	switch a.Kind {
	case Record: // it needs the report, see passed
		return nil
	case Book:
		for _, e := range a.Entries {
			if !slices.Contains(m.ledger, e) {
				m.ledger = append(m.ledger, e)
			}
		}
		m.writes++
		return nil
	case Strike:
		m.ledger = slices.DeleteFunc(m.ledger, func(e string) bool { return slices.Contains(a.Entries, e) && !m.isOpen(e) })
		m.writes++
		return nil
	case Reject:
		m.rejected = m.target
		m.writes++
		return nil
	case Create:
		if err := m.mayCreate(a); err != nil {
			return err
		}
		m.create(a)
		return nil
	case Write:
		if err := m.mayWrite(g, a); err != nil {
			return err
		}
		if err := m.once(g, a); err != nil {
			return err
		}
		g.Spec = *a.Spec.DeepCopy()
		g.Generation++
		m.touch(g)
		return nil
	case Delete:
		if g == nil || g.UID != a.UID || g.ResourceVersion != a.ResourceVersion {
			return broken("deletes %s without today's UID and resourceVersion", a.Group)
		}
		if u := covering(&g.Spec, ""); u == nil || u.Method != v1alpha1.UnitRemove || m.stageOf(g, u) != v1alpha1.UnitDrained {
			return broken("deletes %s, which is not drained for it", a.Group)
		}
		g.Deleting = true
		m.touch(g)
		return nil
	}
	return broken("unknown action %q", a.Kind)
}

// isOpen is the live look before an entry is struck.
func (m *model) isOpen(entry string) bool {
	sg, unit, _ := strings.Cut(entry, "/")
	g := m.groups[sg]
	if g == nil {
		return false
	}
	return g.Deleting || openOf(&g.Spec, unit) != nil
}

func (m *model) mayCreate(a Action) error {
	most := m.serving.Replicas
	if m.serving.Type == v1alpha1.ServingGroupRollingUpdate {
		most += m.serving.MaxSurge
	}
	want := m.target
	if m.serving.Type == v1alpha1.ServingGroupRollingUpdate && *a.Spec.Ordinal < m.serving.Partition {
		want = m.current
	}
	switch {
	case m.groups[a.Group] != nil || a.Group != v1alpha1.ServingGroupName("ms", *a.Spec.Ordinal):
		return broken("creates %s, which is there or has another ordinal", a.Group)
	case int32(len(m.groups)) >= most:
		return broken("creates %s beyond %d", a.Group, most)
	case a.Spec.Revision != want:
		return broken("creates %s at %s instead of %s", a.Group, a.Spec.Revision, want)
	case m.hidden[want] && want != m.target:
		return broken("creates %s from %s, which cannot be read", a.Group, want)
	}
	return nil
}

// mayWrite judges one write of a group's spec against the rules of one unit.
func (m *model) mayWrite(g *servingGroup, a Action) error {
	if g == nil || g.UID != a.UID || g.ResourceVersion != a.ResourceVersion {
		return broken("writes %s without today's UID and resourceVersion", a.Group)
	}
	if g.Deleting {
		return broken("writes %s, which is being deleted", a.Group)
	}
	if a.Spec.LastAttempt < g.Spec.LastAttempt {
		return broken("lastAttempt of %s goes down", a.Group)
	}
	for i := range a.Spec.Updates {
		if err := m.mayUpdate(g, &a.Spec, &a.Spec.Updates[i]); err != nil {
			return err
		}
	}
	if err := m.mayOpen(g, &a.Spec); err != nil {
		return err
	}
	for i := range g.Spec.Updates {
		if err := m.mayClose(g, &a.Spec, &g.Spec.Updates[i]); err != nil {
			return err
		}
	}
	return m.mayRepin(g, &a.Spec)
}

func find(spec *v1alpha1.ServingGroupSpec, unit string) *v1alpha1.UnitUpdate {
	for i := range spec.Updates {
		if spec.Updates[i].Unit == unit {
			return &spec.Updates[i]
		}
	}
	return nil
}

// openOf is the update that takes the unit out of service, nil if there is none.
func openOf(spec *v1alpha1.ServingGroupSpec, unit string) *v1alpha1.UnitUpdate {
	if u := find(spec, unit); u != nil && !u.Preparing() {
		return u
	}
	return nil
}

func (m *model) mayUpdate(g *servingGroup, spec *v1alpha1.ServingGroupSpec, u *v1alpha1.UnitUpdate) error {
	entry := v1alpha1.LedgerEntry(g.Name, u.Unit)
	old := openOf(&g.Spec, u.Unit)
	switch {
	case u.Preparing() && !u.Cancelled():
		return broken("%s is prepared", entry)
	case u.Preparing():
		return nil
	case !slices.Contains(m.ledger, entry):
		return broken("%s is in update and not in the ledger", entry)
	case u.Unit == "" && slices.ContainsFunc(spec.Updates, func(o v1alpha1.UnitUpdate) bool { return o.Unit != "" && !o.Preparing() }):
		return broken("%s is in update as a whole and in parts", entry)
	case old == nil && (u.Attempt <= g.Spec.LastAttempt || u.Permit != v1alpha1.PermitDrain):
		return broken("%s begins with %+v", entry, u)
	case old == nil:
		return nil
	case old.Attempt == u.Attempt && (old.Method != u.Method || old.Target != u.Target):
		return broken("%s changes within attempt %d", entry, u.Attempt)
	case old.Attempt != u.Attempt && u.Attempt <= g.Spec.LastAttempt:
		return broken("%s takes the old attempt %d", entry, u.Attempt)
	case old.Attempt != u.Attempt:
		return m.mayReattempt(g, old, u)
	case old.Permit == u.Permit:
		return nil
	case u.Permit == v1alpha1.PermitSwap && m.reported(g, old) != v1alpha1.UnitDrained:
		return broken("%s may swap at stage %s", entry, m.reported(g, old))
	case u.Permit == v1alpha1.PermitServe && !m.mayServe(g, spec, old):
		return broken("%s may serve at stage %s", entry, m.reported(g, old))
	}
	return nil
}

// mayReattempt judges a new attempt: back to the pin, or on to another target for what has left it.
func (m *model) mayReattempt(g *servingGroup, old, u *v1alpha1.UnitUpdate) error {
	back := u.Method == v1alpha1.UnitRecreate && u.Permit == v1alpha1.PermitServe
	if back && (old.Permit != v1alpha1.PermitDrain || u.Target != m.unitPin(&g.Spec, u.Unit)) {
		return broken("%s/%s backs out from %s to %s", g.Name, u.Unit, old.Permit, u.Target)
	}
	if u.Method == v1alpha1.UnitRecreate && !back && (m.serving.Paused && !u.Recreates() || u.Permit != v1alpha1.PermitDrain) {
		return broken("%s/%s gets another target with %s", g.Name, u.Unit, u.Permit)
	}
	return nil
}

func (m *model) mayServe(g *servingGroup, spec *v1alpha1.ServingGroupSpec, old *v1alpha1.UnitUpdate) bool {
	if m.reported(g, old) == v1alpha1.UnitVerified {
		return old.Permit == v1alpha1.PermitSwap
	}
	pods := int32(0)
	for i := range spec.Instances {
		inst := &spec.Instances[i]
		if old.Unit == "" || old.Unit == v1alpha1.UnitName(inst.Role, *inst.Ordinal) {
			pods += 1 + m.layouts[pinOf(spec, inst)][inst.Role].Workers
		}
	}
	return m.reported(g, old) == v1alpha1.UnitDrained && pods == 1
}

// reported is what is reported on exactly this attempt and today's spec.
func (m *model) reported(g *servingGroup, u *v1alpha1.UnitUpdate) v1alpha1.UnitStage {
	if g.Status.ObservedGeneration != g.Generation {
		return ""
	}
	for _, st := range g.Status.Updates {
		if st.Unit == u.Unit && st.Attempt == u.Attempt {
			return st.Stage
		}
	}
	return ""
}

func (m *model) unitPin(spec *v1alpha1.ServingGroupSpec, unit string) string {
	for i := range spec.Instances {
		if inst := &spec.Instances[i]; unit == v1alpha1.UnitName(inst.Role, *inst.Ordinal) {
			return pinOf(spec, inst)
		}
	}
	return spec.Revision
}

// mayClose judges the end of an update: the unit serves and has for minReady, or it is gone.
func (m *model) mayClose(g *servingGroup, spec *v1alpha1.ServingGroupSpec, u *v1alpha1.UnitUpdate) error {
	whole := find(spec, "")
	if u.Preparing() || openOf(spec, u.Unit) != nil || whole != nil && whole.Method == v1alpha1.UnitRemove {
		return nil
	}
	if u.Method == v1alpha1.UnitRemove {
		if u.Unit == "" || g.pods[u.Unit] != nil {
			return broken("closes the removal of %s/%s, which is there", g.Name, u.Unit)
		}
		return nil
	}
	wanted := !m.outdated(taking{group: g, unit: u.Unit})
	if u.Permit == v1alpha1.PermitServe && m.reported(g, u) == v1alpha1.UnitFailed && !wanted {
		return nil
	}
	for _, st := range g.Status.Updates {
		if st.Unit == u.Unit && m.reported(g, u) == v1alpha1.UnitInService && !m.now.Before(st.Since.Add(m.serving.MinReady)) {
			return nil
		}
	}
	return broken("closes %s/%s at stage %q", g.Name, u.Unit, m.reported(g, u))
}

// mayRepin judges the pins: they change with a swap, or where nothing differs.
func (m *model) mayRepin(g *servingGroup, spec *v1alpha1.ServingGroupSpec) error {
	for i := range g.Spec.Instances {
		inst := &g.Spec.Instances[i]
		name := v1alpha1.UnitName(inst.Role, *inst.Ordinal)
		now := slices.IndexFunc(spec.Instances, func(n v1alpha1.RoleInstance) bool {
			return n.Role == inst.Role && *n.Ordinal == *inst.Ordinal
		})
		u := covering(&g.Spec, name)
		swaps := u != nil && m.reported(g, u) == v1alpha1.UnitDrained
		after := covering(spec, name)
		swaps = swaps && after != nil && after.Attempt == u.Attempt && after.Permit != v1alpha1.PermitDrain
		switch {
		case now < 0 && !swaps:
			return broken("%s/%s is dropped undrained", g.Name, name)
		case now < 0:
		case m.digest(pinOf(&g.Spec, inst), inst.Role) != m.digest(pinOf(spec, &spec.Instances[now]), inst.Role) && !swaps:
			return broken("the pin of %s/%s changes undrained", g.Name, name)
		}
	}
	for i := range spec.Instances {
		if inst := &spec.Instances[i]; m.digest(pinOf(spec, inst), inst.Role) == "" {
			return broken("%s has an instance of %s that revision %s does not have", g.Name, inst.Role, pinOf(spec, inst))
		}
	}
	return nil
}

// down is the rule of 30 seconds.
func (m *model) down(p *instancePods) bool {
	return p == nil || !p.ready() && !p.downSince.IsZero() && m.now.Sub(p.downSince) >= 30*time.Second
}

// mayOpen judges a write by what serves at its very moment, whatever the ledger says: the bounds hold
// after every single write.
func (m *model) mayOpen(g *servingGroup, spec *v1alpha1.ServingGroupSpec) error {
	u := find(spec, "")
	if u == nil || u.Permit != v1alpha1.PermitDrain || openOf(&g.Spec, "") != nil {
		return nil
	}
	serving, open := int32(0), int32(0)
	for _, o := range m.groups {
		if was := openOf(&o.Spec, ""); was != nil && was.Method == v1alpha1.UnitRecreate && o != g {
			open++
		}
		serving += one(o != g && m.readyGroup(o))
	}
	if floor := m.serving.Replicas - m.serving.MaxUnavailable; m.readyGroup(g) && serving < floor {
		return broken("takes %s, and %d groups are left that serve, %d must", g.Name, serving, floor)
	}
	if most := max(1, m.serving.MaxUnavailable+m.serving.MaxSurge); u.Method == v1alpha1.UnitRecreate && open >= most {
		return broken("opens the update of %s beside %d open ones, %d may be", g.Name, open, most)
	}
	return nil
}

// readyGroup reports whether the group serves: it has all it should have, Ready and in no update.
func (m *model) readyGroup(g *servingGroup) bool {
	return m.groupHas(g, func(name string) bool {
		p := g.pods[name]
		return p != nil && p.ready() && covering(&g.Spec, name) == nil
	})
}
