package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pitstop.dev/api/v1alpha1"
)

func newModel(draw func(n int) int, decide func(Snapshot) Plan) *model {
	m := &model{
		draw: draw, decide: decide, now: time.Unix(1_700_000_000, 0).UTC(),
		layouts: map[string]Layout{}, hidden: map[string]bool{}, bad: map[string]bool{}, groups: map[string]*servingGroup{},
		asked: map[v1alpha1.Verb]Request{}, answers: map[v1alpha1.Verb]Answer{}, done: map[string]bool{},
	}
	m.serving = Serving{Name: "ms", Type: v1alpha1.ServingGroupRollingUpdate, Deadline: time.Hour}
	if draw(2) == 0 {
		m.serving.Type = v1alpha1.RoleRollingUpdate
	}
	m.serving.MinReady = time.Duration(draw(2)*15) * time.Second
	m.serving.Replicas = int32(draw(6))
	m.budgets()
	m.retarget()
	return m
}

// declare has the user change something.
func (m *model) declare() {
	switch m.draw(9) {
	case 0, 1, 2:
		m.retarget()
	case 3:
		m.serving.Replicas = int32(m.draw(7))
	case 4:
		m.budgets()
	case 5:
		m.serving.Paused = !m.serving.Paused
	case 6:
		m.roles(m.layouts[m.target])
	case 7:
		m.hide()
	case 8:
		m.retype()
	}
	m.logf("declared: %+v target %s %v", m.serving, m.target, m.layouts[m.target])
}

// hide makes revisions unreadable, or readable again.
func (m *model) hide() {
	if len(m.hidden) > 0 {
		m.hidden = map[string]bool{}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.layouts)) {
		if m.draw(3) == 0 {
			m.hidden[name] = true
		}
	}
}

// retype changes the unit of the rollout, at any time: the plan does not rely on admission, which forbids it
// while units are in update.
func (m *model) retype() {
	m.mixed = m.mixed || len(m.ledger) > 0
	if m.serving.Type == v1alpha1.RoleRollingUpdate {
		m.serving.Type = v1alpha1.ServingGroupRollingUpdate
	} else {
		m.serving.Type = v1alpha1.RoleRollingUpdate
	}
	m.budgets()
	m.roles(m.layouts[m.target])
}

func (m *model) budgets() {
	m.serving.MaxUnavailable, m.serving.MaxSurge, m.serving.Partition, m.serving.MaxUnavailableGroups = 0, 0, 0, 0
	if m.serving.Type == v1alpha1.RoleRollingUpdate {
		m.serving.MaxUnavailableGroups = int32(m.draw(3))
		return
	}
	m.serving.MaxUnavailable = int32(m.draw(3))
	m.serving.MaxSurge = int32(m.draw(3))
	if m.draw(2) == 0 {
		m.serving.Partition = int32(m.draw(5))
	}
}

// retarget changes the template, to a new revision or to an old one.
func (m *model) retarget() {
	if n := len(m.layouts); n > 1 && m.draw(4) == 0 {
		m.target = fmt.Sprintf("r%d", m.draw(n))
	} else {
		m.target = fmt.Sprintf("r%d", n)
		l := Layout{}
		for _, role := range []string{"a", "b", "c"} {
			if m.draw(3) > 0 || role == "a" {
				l[role] = RoleLayout{Digest: fmt.Sprintf("%s%d", role, m.draw(6)), Workers: int32(m.draw(2))}
			}
		}
		m.layouts[m.target] = l
		for _, role := range slices.Sorted(maps.Keys(l)) {
			m.bad[l[role].Digest] = m.draw(6) == 0 || m.bad[l[role].Digest]
		}
	}
	if m.current == "" {
		m.current = m.target
	}
	m.roles(m.layouts[m.target])
}

func (m *model) roles(l Layout) {
	m.serving.Roles = nil
	for _, name := range slices.Sorted(maps.Keys(l)) {
		r := Role{Name: name, Replicas: int32(m.draw(4)), MaxUnavailable: 1}
		if m.serving.Type == v1alpha1.RoleRollingUpdate {
			r.MaxUnavailable, r.MaxSurge, r.Partition = int32(m.draw(3)), int32(m.draw(2)), int32(max(0, m.draw(6)-3))
		}
		m.serving.Roles = append(m.serving.Roles, r)
	}
}
