package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
)

// play runs one history: chance has its way for some turns, then everything heals, and what is
// declared must come to be. It returns the first rule that was broken.
func play(draw func(n int) int, decide func(Snapshot) Plan) (m *model, err error) {
	m = newModel(draw, decide)
	for range 60 + draw(60) {
		if err := m.turn(); err != nil {
			return m, err
		}
	}
	m.heal()
	return m, m.converge()
}

// turn lets something happen, and then mostly the ModelServing controller look at it.
func (m *model) turn() error {
	m.now = m.now.Add(time.Duration(m.draw(20)) * time.Second)
	switch m.draw(13) {
	case 0:
		m.declare()
	case 1:
		m.harm()
	case 2:
		m.now = m.now.Add(time.Duration(m.draw(300)) * time.Second)
	case 3, 4, 5:
		m.load()
	case 6:
		m.ask()
	default:
		if names := slices.Sorted(maps.Keys(m.groups)); len(names) > 0 {
			m.reconcile(m.groups[names[m.draw(len(names))]])
		}
	}
	if m.draw(4) == 0 {
		return nil
	}
	return m.pass()
}

// load has the containers of some instance become ready.
func (m *model) load() {
	for _, name := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[name]
		for _, unit := range slices.Sorted(maps.Keys(g.pods)) {
			p := g.pods[unit]
			if p.exist && !p.dying && !p.loaded && !m.bad[m.digest(p.revision, p.role)] && (m.healed || m.draw(2) == 0) {
				p.loaded = true
				m.clock(p)
				m.report(g)
			}
		}
	}
}

// harm has something fail that nobody asked for.
func (m *model) harm() {
	names := slices.Sorted(maps.Keys(m.groups))
	if len(names) == 0 {
		return
	}
	g := m.groups[names[m.draw(len(names))]]
	if m.draw(8) == 0 && !g.Deleting {
		m.logf("somebody deletes %s", g.Name)
		g.Deleting = true
		m.touch(g)
		return
	}
	units := slices.Sorted(maps.Keys(g.pods))
	if len(units) == 0 {
		return
	}
	p := g.pods[units[m.draw(len(units))]]
	p.loaded = false
	if m.draw(2) == 0 {
		p.exist, p.dying = false, false
	}
	m.logf("%s/%s-%d is not ready any more", g.Name, p.role, p.ordinal)
	m.clock(p)
	m.report(g)
}

// heal ends all faults, and declares something that can be reached. What no longer is wanted may
// stay broken, unless it may be in an update that the present strategy does not know.
func (m *model) heal() {
	m.healed = true
	m.hidden = map[string]bool{}
	m.serving.Paused = false
	if m.serving.MaxUnavailable+m.serving.MaxSurge == 0 {
		m.serving.MaxUnavailable = 1
	}
	kept := m.serving.Partition > 0 || m.mixed
	for i := range m.serving.Roles {
		r := &m.serving.Roles[i]
		kept = kept || r.Partition > 0
		if r.MaxUnavailable+r.MaxSurge == 0 {
			r.MaxUnavailable = 1
		}
	}
	for digest := range m.bad {
		if kept || m.wanted(digest) {
			delete(m.bad, digest)
		}
	}
	m.logf("all heals: %+v target %s %v", m.serving, m.target, m.layouts[m.target])
}

// wanted reports whether the target has the digest.
func (m *model) wanted(digest string) bool {
	for _, role := range m.layouts[m.target] {
		if role.Digest == digest {
			return true
		}
	}
	return false
}

// converge runs the healed world until nothing moves for longer than any deadline, and looks at what
// has become of it.
func (m *model) converge() error {
	still := 0
	for range 3000 {
		before := m.writes
		plan, err := m.passed()
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(m.groups)) {
			m.reconcile(m.groups[name])
		}
		m.load()
		still++
		if m.writes != before || len(plan.Actions) > 0 {
			still = 0
		}
		if still > 15 && plan.Recheck == 0 {
			if plan.Report.Blocked.Reason == v1alpha1.BlockedUnavailable && m.spent() {
				return nil
			}
			return m.reached(plan.Report)
		}
		m.now = m.now.Add(time.Second + time.Duration(min(still, 1))*time.Minute)
	}
	return broken("does not come to rest: %+v", m.snapshot())
}

func TestHistoriesKeepTheRulesAndReachWhatIsDeclared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := play(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }, Decide)
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(m.trace, "\n"))
		}
	})
}

// What is not kept of groups at rest changes no decision.
func TestGroupsAtRestArePlannedLikeAllOthers(t *testing.T) {
	none := func(*world, *group) bool { return false }
	rapid.Check(t, func(t *rapid.T) {
		both := func(s Snapshot) Plan {
			p := Decide(s)
			if diff := cmp.Diff(decide(s, none), p); diff != "" {
				t.Fatalf("%+v: plan (-all kept +at rest):\n%s", s, diff)
			}
			return p
		}
		if _, err := play(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }, both); err != nil {
			t.Fatal(err)
		}
	})
}
