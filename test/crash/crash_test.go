//go:build lab

package crash

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/crash/victim"
)

// quiet is how long nothing may be written before a run counts as over.
const quiet = 700 * time.Millisecond

// tries is how often a point that a run did not come to is tried again: how many commits
// there are depends a little on time.
const tries = 3

// Killed at any write, whatever becomes of the journal: the update ends as if nothing had been.
func TestKilledAtAnyWrite(t *testing.T) {
	began := time.Now()
	w := newWorld(t)
	points := learn(t, w)
	if t.Failed() {
		return
	}
	var done, finished, waited atomic.Int64
	t.Run("table", func(t *testing.T) {
		for _, p := range points {
			for _, f := range faults {
				t.Run(p.String()+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					s := killAndSee(t, w, p, f)
					done.Add(1)
					if f.lift != nil && !f.shared {
						finished.Add(int64(count(s.open)))
						waited.Add(int64(count(!s.open)))
					}
				})
			}
		}
	})
	t.Logf("%d write points x %d journal faults: %d cases, %s; while there was no journal %d ended and %d waited",
		len(points), len(faults), done.Load(), time.Since(began).Round(time.Second), finished.Load(), waited.Load())
}

// learn runs an update that nobody kills and returns all its write points.
func learn(t *testing.T, w *world) []victim.Point {
	t.Helper()
	var points []victim.Point
	t.Run("undisturbed", func(t *testing.T) {
		s := newScene(t, w)
		s.give()
		agent := s.start(victim.Options{})
		s.awaitService()
		awaitQuiet(t, s.traced)
		s.check(s.story)
		must(t, agent.end())
		s.checkJournal(fault{keeps: true})
		t.Log(strings.Join(s.traced(), "\n"))
		points = parsePoints(t, s.traced())
	})
	return points
}

// awaitQuiet waits until nothing is written any more.
func awaitQuiet(t *testing.T, traced func() []string) {
	t.Helper()
	lines, since := 0, time.Now()
	eventually(t, patient, func() bool {
		if n := len(traced()); n != lines {
			lines, since = n, time.Now()
		}
		return time.Since(since) > quiet
	})
}

// parsePoints returns the write points of a trace. There must be some of each kind.
func parsePoints(t *testing.T, trace []string) (points []victim.Point) {
	t.Helper()
	for _, line := range trace {
		name, _, _ := strings.Cut(line, " ")
		p, err := victim.Parse(name)
		must(t, err)
		points = append(points, p)
	}
	for _, k := range []victim.Kind{victim.Answered, victim.Sent, victim.Committed} {
		if !slices.ContainsFunc(points, func(p victim.Point) bool { return p.Kind == k }) {
			t.Fatalf("no write point %s", k)
		}
	}
	return points
}

// killAndSee is one case.
func killAndSee(t *testing.T, w *world, p victim.Point, f fault) *scene {
	t.Helper()
	s := killed(t, w, p, f)
	if f.lift != nil {
		awaitQuiet(t, s.traced) // what was sent may be on its way
	}
	f.apply(s)
	s.open = s.started()
	pulled := s.pulls()
	agent := s.start(victim.Options{})
	switch {
	case f.shared:
		s.awaitService()
		f.lift(s)
	case f.lift != nil:
		s.during(agent, pulled)
		f.lift(s)
	}
	s.awaitService()
	if !eventually(t, patient, func() bool { status, _, _ := agent.ready(); return status == http.StatusOK }) {
		t.Errorf("the agent is not ready again\n%s", s.story())
	}
	awaitQuiet(t, s.traced)
	s.check(s.story)
	if err := agent.end(); err != nil {
		t.Errorf("the agent ended badly: %v\n%s", err, s.story())
	}
	s.checkJournal(f)
	return s
}

// killed returns a scene in which the agent was killed at p.
func killed(t *testing.T, w *world, p victim.Point, f fault) *scene {
	t.Helper()
	for range tries {
		s := newScene(t, w)
		if f.small {
			s.mount()
		}
		s.give()
		agent := s.start(victim.Options{Point: p})
		over := func() bool { return agent.gone() || s.inService() }
		if !eventually(t, patient, over) {
			t.Fatalf("neither killed nor done\n%s", s.story())
		}
		if eventually(t, 4*quiet, agent.killed) {
			return s
		}
		if agent.gone() {
			t.Fatalf("the agent ended: %v\n%s", agent.err, s.story())
		}
		t.Logf("write point %s was not reached:\n%s", p, strings.Join(s.traced(), "\n"))
		agent.kill()
	}
	t.Fatalf("write point %s was never reached", p)
	return nil
}

// during sees that an agent without its journal finishes what is open and starts nothing.
func (s *scene) during(agent *agentProcess, pulled int) {
	t := s.t
	t.Helper()
	if s.open {
		s.awaitService()
	} else {
		if !eventually(t, patient, s.waitsForJournal) {
			t.Fatalf("nobody says that the journal is missed\n%s", s.story())
		}
		if s.started() {
			t.Errorf("an update was begun without a journal\n%s", s.story())
		}
		if n := s.pulls(); n != pulled {
			t.Errorf("%d images were pulled without a journal\n%s", n-pulled, s.story())
		}
	}
	var text string
	if !eventually(t, patient, func() bool {
		var status int
		status, text, _ = agent.ready()
		return status == http.StatusServiceUnavailable && strings.Contains(text, "journal")
	}) {
		t.Errorf("readyz %q does not tell of the journal\n%s", text, s.story())
	}
}

func (s *scene) waitsForJournal() bool {
	u := s.order(s.name)
	return u != nil && u.Status.Reason == v1alpha1.WaitingJournal
}

// pulls counts the pulls of the new images.
func (s *scene) pulls() int {
	return s.world.fake.Count("PullImage", s.image("engine", "v2")) + s.world.fake.Count("PullImage", s.image("router", "v2"))
}
