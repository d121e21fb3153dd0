package plan

import (
	"fmt"
	"maps"
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// ask has a person ask for something, unless the last request of that verb stands.
func (m *model) ask() {
	verbs := v1alpha1.Verbs()
	r := Request{Verb: verbs[m.draw(len(verbs))]}
	names := slices.Sorted(maps.Keys(m.groups))
	if _, stands := m.asked[r.Verb]; stands || len(names) == 0 {
		return
	}
	if r.Verb != v1alpha1.VerbRetry {
		g := m.groups[names[m.draw(len(names))]]
		r.Unit = g.Name
		units := slices.Sorted(maps.Keys(g.pods))
		if (m.serving.Type == v1alpha1.RoleRollingUpdate) != (m.draw(6) == 0) && len(units) > 0 {
			r.Unit = v1alpha1.LedgerEntry(g.Name, units[m.draw(len(units))])
		}
	}
	m.serial++
	r.ID = fmt.Sprintf("request-%d", m.serial)
	m.logf("somebody asks to %s %s: %s", r.Verb, r.Unit, r.ID)
	m.asked[r.Verb] = r
}

// requests are those that the controller is told of: what it accepted goes before what is new.
func (m *model) requests() []Request {
	var out []Request
	for _, verb := range v1alpha1.Verbs() {
		last, r := m.answers[verb], m.asked[verb]
		switch {
		case last.Outcome == v1alpha1.RequestAccepted:
			last.Accepted = true
			out = append(out, last.Request)
		case r.ID != "" && r.ID != last.ID:
			out = append(out, r)
		}
	}
	return out
}

// record writes the answers.
func (m *model) record(p Plan) {
	for _, a := range p.Report.Answers {
		m.logf("%s %s %s: %s: %s", a.Verb, a.Unit, a.ID, a.Outcome, a.Message)
		m.answers[a.Verb] = a
		if a.Verb == v1alpha1.VerbRetry && a.Outcome == v1alpha1.RequestAccepted {
			m.rejected = ""
		}
	}
	m.writes++
}

// settle is the end of a pass: what was accepted has begun, and what is answered is asked no more.
func (m *model) settle(p Plan) {
	if len(p.Report.Answers) > 0 {
		m.record(p)
	}
	for verb, a := range m.answers {
		if a.Outcome == v1alpha1.RequestAccepted {
			a.Outcome = v1alpha1.RequestBegun
			m.answers[verb] = a
		}
		if m.asked[verb].ID == a.ID {
			delete(m.asked, verb)
		}
	}
}

// once judges that a request takes a unit no more than one time, and only after it was accepted.
func (m *model) once(g *servingGroup, a Action) error {
	for i := range a.Spec.Updates {
		u := &a.Spec.Updates[i]
		was := find(&g.Spec, u.Unit)
		if !u.Recreates() || was != nil && was.Recreates() && was.Request.ID == u.Request.ID {
			continue
		}
		id := u.Request.ID
		switch {
		case m.done[id]:
			return broken("%s/%s is created anew for %s, which was done", g.Name, u.Unit, id)
		case m.answers[v1alpha1.VerbRecreate].ID != id:
			return broken("%s/%s is created anew for %s before that was recorded", g.Name, u.Unit, id)
		case u.Target != m.unitPin(&g.Spec, u.Unit):
			return broken("%s/%s is created anew at %s, and not at its pin", g.Name, u.Unit, u.Target)
		}
		m.done[id] = true
	}
	return nil
}
