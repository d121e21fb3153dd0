package health

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/api/v1alpha1"
)

// asks puts the annotation on the Node.
func (w *world) asks(d time.Duration) time.Time {
	until := w.clock.Now().Add(d)
	w.node.Annotations = map[string]string{}
	w.node.Annotations[v1alpha1.AnnotationGPURelease] = until.Format(time.RFC3339)
	return until
}

func TestAReleaseOutlivesTheAgent(t *testing.T) {
	for name, tt := range map[string]struct {
		do       func(*world)  // while there is no agent
		releases int           // by the next agent
		last     time.Duration // from when it was asked for first
	}{
		"the API server cannot be reached":            {do: func(w *world) { w.broken = true }, releases: 1, last: 10 * time.Minute},
		"it can be reached":                           {do: func(*world) {}, releases: 1, last: 10 * time.Minute},
		"it was ended":                                {do: func(w *world) { clear(w.node.Annotations) }, releases: 2},
		"it was made longer":                          {do: func(w *world) { w.asks(20 * time.Minute) }, releases: 2, last: 20*time.Minute + 25*time.Second},
		"it is over":                                  {do: func(w *world) { w.clock.Step(11 * time.Minute) }},
		"it is over, and nobody can say so":           {do: func(w *world) { w.clock.Step(11 * time.Minute); w.broken = true }},
		"the clock was set back by more than an hour": {do: func(w *world) { w.clock.SetTime(w.clock.Now().Add(-2 * time.Hour)); w.broken = true }},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := keeping(t)
			w.judged()
			start := w.clock.Now()
			w.asks(10 * time.Minute)
			w.rounds(5)
			w.releases, w.told = nil, nil
			tt.do(w)
			var calls []string
			w.restart(dir, "boot-1")
			w.called = func(what string) { calls = append(calls, what) }
			w.rounds(1)
			if len(w.releases) != tt.releases {
				t.Fatalf("released %v", w.releases)
			}
			last := time.Time{}
			if tt.last > 0 {
				last = start.Add(tt.last)
			}
			if tt.releases > 0 && !w.releases[tt.releases-1].Equal(last) {
				t.Errorf("released %v, want %s", w.releases, last)
			}
			released, read := lastIndex(calls, "released"), slices.Index(calls, "read")
			if read < 0 || released > read || !slices.Contains(calls[:read], "ask") {
				t.Errorf("called %q: the driver is opened before it is known whether it may be", calls)
			}
			w.rounds(20)
			for _, told := range w.told {
				if strings.Contains(told, "Warning") {
					t.Errorf("told %q", told)
				}
			}
		})
	}
}

func lastIndex(list []string, word string) int {
	for i, w := range slices.Backward(list) {
		if w == word {
			return i
		}
	}
	return -1
}

func TestTheFirstLookAtTheNodeComesBeforeTheGPUs(t *testing.T) {
	w := newWorld(t)
	until := w.asks(10 * time.Minute)
	var calls []string
	w.called = func(what string) { calls = append(calls, what) }
	w.rounds(1)
	if diff := cmp.Diff([]time.Time{until}, w.releases); diff != "" || slices.Index(calls, "released") > slices.Index(calls, "read") {
		t.Errorf("called %q (-want +got):\n%s", calls, diff)
	}
}

func TestTheEndOfAReleaseIsSeenInTheNextRound(t *testing.T) {
	w := newWorld(t)
	w.asks(10 * time.Minute)
	w.rounds(5)
	clear(w.node.Annotations)
	w.rounds(1)
	if n := len(w.releases); n != 2 || !w.releases[1].IsZero() {
		t.Errorf("released %v, want an end", w.releases)
	}
}

func TestATimeThatIsPastIsOverForAnAgentThatStarts(t *testing.T) {
	w := newWorld(t)
	w.asks(-time.Hour)
	w.rounds(30)
	if len(w.told)+len(w.releases) > 0 || strings.Contains(w.ofNode().Message, "ignored") {
		t.Errorf("told %q, the Node says %+v", w.told, w.ofNode())
	}
	w.asks(-time.Minute) // somebody has just written this
	w.rounds(9)
	if len(w.told) != 1 || !strings.Contains(w.ofNode().Message, "is past") {
		t.Errorf("told %q, the Node says %+v", w.told, w.ofNode())
	}
}

// A release ends what an error began, also where the agent was killed between what it kept and what it did, and was away
// for all of it.
func TestAReleaseIsNotForgotten(t *testing.T) {
	for _, at := range []string{"release", "released", "read", "events"} {
		w, dir := keeping(t)
		w.reading.Devices[0].Health.Recovery = nil // the driver does not say whether it was reset
		w.judged()
		w.xid("GPU-0", 95)
		w.rounds(9)
		if got := w.ofNode(); got.Reason != "FatalXID" {
			t.Fatalf("the Node says %+v", got)
		}
		w.asks(10 * time.Minute)
		asked := false
		w.called = func(what string) {
			asked = asked || what == "release"
			if asked && what == at {
				panic(errKilled)
			}
		}
		func() {
			defer func() { _ = recover() }()
			w.rounds(9)
			t.Errorf("not killed at %s", at)
		}()
		w.called = nil
		w.clock.Step(time.Hour)
		w.restart(dir, "boot-1")
		w.rounds(9)
		if got := w.ofNode(); got.Status != "True" {
			t.Errorf("killed at %s: the Node says %+v", at, got)
		}
	}
}
