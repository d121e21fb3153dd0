package plan

import (
	"strings"

	"pitstop.dev/api/v1alpha1"
)

func cutEntry(e string) (sg, unit string, instance bool) { return strings.Cut(e, "/") }

// explains judges the report: what is not done has a reason that names something.
func (m *model) explains(p Plan) error {
	r := p.Report
	for _, v := range []Verdict{r.Progressing, r.Blocked, r.Enough} {
		if v.Reason == "" || v.Message == "" {
			return broken("an empty verdict: %+v", r)
		}
	}
	if len(p.Actions) == 0 && r.Progressing.Reason == v1alpha1.ProgressingComplete {
		if err := m.reached(r); err != nil {
			return broken("says that all is done: %v", err)
		}
	}
	return nil
}

// reached judges the end: what is declared is there, and nothing is left over.
func (m *model) reached(r Report) error {
	if int32(len(m.groups)) != m.serving.Replicas {
		return broken("%d groups live, %d are declared: %+v", len(m.groups), m.serving.Replicas, r)
	}
	if len(m.ledger) > 0 {
		return broken("the ledger still holds %v", m.ledger)
	}
	protected := false
	for _, g := range m.groups {
		kept, err := m.reachedGroup(g)
		if err != nil {
			return err
		}
		protected = protected || kept
	}
	switch {
	case r.Progressing.True || r.Blocked.True || !r.Enough.True:
		return broken("all is done, and the report says %+v", r)
	case m.serving.Replicas != r.Available || m.serving.Replicas != r.Ready:
		return broken("all is done, and %d are available, %d ready", r.Available, r.Ready)
	case !protected && m.serving.Replicas > 0 && (!r.Complete || r.Updated != r.Replicas):
		return broken("all is at the target, and the report says %+v", r)
	case protected && r.Complete:
		return broken("something is protected, and the report says complete")
	}
	return nil
}

func (m *model) reachedGroup(g *servingGroup) (protected bool, err error) {
	if g.Deleting || len(g.Spec.Updates) > 0 {
		return false, broken("%s is still in update", g.Name)
	}
	byRole := m.serving.Type == v1alpha1.RoleRollingUpdate
	whole := !byRole && *g.Spec.Ordinal < m.serving.Partition
	counts := map[string]int32{}
	for i := range g.Spec.Instances {
		inst := &g.Spec.Instances[i]
		counts[inst.Role]++
		if m.digest(pinOf(&g.Spec, inst), inst.Role) == m.digest(m.target, inst.Role) {
			continue
		}
		kept := whole || byRole && *inst.Ordinal < m.role(inst.Role).Partition
		if !kept {
			return false, broken("%s/%s-%d is at %s, the target is %s", g.Name, inst.Role, *inst.Ordinal, pinOf(&g.Spec, inst), m.target)
		}
		protected = true
	}
	for _, r := range m.serving.Roles {
		missing := whole && m.digest(g.Spec.Revision, r.Name) == ""
		if missing && r.Replicas > 0 {
			protected = true
		}
		if counts[r.Name] != r.Replicas && !missing {
			return false, broken("%s has %d instances of %s, %d are declared", g.Name, counts[r.Name], r.Name, r.Replicas)
		}
	}
	if !protected && !whole && g.Spec.Revision != m.target {
		return false, broken("%s is what the target makes of it, and pinned to %s", g.Name, g.Spec.Revision)
	}
	return protected || whole && g.Spec.Revision != m.target, nil
}

// spent reports whether units that are not available, and yet not down, leave no budget: what is left
// of them serves, so that nothing but an operator may take them.
func (m *model) spent() bool {
	available, partly := int32(0), int32(0)
	for _, g := range m.groups {
		available += one(m.availableGroup(g))
		partly += one(!m.availableGroup(g) && !m.downGroup(g))
	}
	return partly > 0 && (m.serving.Type == v1alpha1.RoleRollingUpdate || available <= m.serving.Replicas-m.serving.MaxUnavailable)
}
