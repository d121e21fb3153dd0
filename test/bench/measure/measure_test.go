package measure

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/gpu"
	"pitstop.dev/test/bench/audit"
)

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		config Config
		ok     bool
	}{
		"everything":       {Config{Rounds: 10}, true},
		"some of it":       {Config{Rounds: 1, Only: []string{"bare", "memory"}}, true},
		"no round":         {Config{}, false},
		"an unknown name":  {Config{Rounds: 1, Only: []string{"bare", "speed"}}, false},
		"a name left open": {Config{Rounds: 1, Only: []string{""}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tt.config.Validate(); (err == nil) != tt.ok {
				t.Errorf("Validate() = %v", err)
			}
		})
	}
}

// What is measured is defined twice: as quantities and as figures.
func TestEveryFigureIsDefinedOnce(t *testing.T) {
	s := NewSheet()
	names := []string{
		barePatch, inPlaceOut, inPlaceBeyond, inPlaceRatio, recreateOut, pullOut, pullTime, pullRatio,
		stubbornStop, requests, failed, resumeTime, agentRSS, agentPeak, apiWrites, agentGPURSS, probeRSS, agentIdle,
		planTime, planGrowth, hollowUnit, rolloutTime, rolloutRatio, rolloutWrites, coordinatorRSS, coordinatorFull,
		unitBare, unitOut, unitBeyond, unitOver, unitRecreate, unitAhead, unitAlone, unitsTime, unitsRatio, unitsParts,
		fourTime, fourRecreate, resumeWork, unitRequests, unitFailed, recreateRequests, recreateFailed,
	}
	for _, name := range names {
		if err := s.Add(name, 1); err != nil {
			t.Error(err)
		}
	}
	if got := len(s.Figures()); got != len(names) {
		t.Errorf("%d figures, want %d", got, len(names))
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(Quantities()))); len(sorted) != len(Quantities()) {
		t.Errorf("a name twice in %v", Quantities())
	}
}

func TestCountWrites(t *testing.T) {
	const agent = "system:serviceaccount:pitstop-system:pitstop-agent"
	writes := []audit.Write{
		{User: agent, Verb: "patch", Resource: "pods", Namespace: "default", Name: "p"},
		{User: agent, Verb: "patch", Resource: "pods", Subresource: "status", Namespace: "default", Name: "p"},
		{User: agent, Verb: "update", Resource: "inplaceupdates", Subresource: "status", Namespace: "default", Name: "p", Code: 409},
		{User: agent, Verb: "create", Resource: "events", Namespace: "default", Name: "p"},
		{User: agent, Verb: "update", Resource: "leases", Namespace: "pitstop-system", Name: "p"},
		{User: agent, Verb: "patch", Resource: "pods", Namespace: "default", Name: "other"},
		{User: agent, Verb: "patch", Resource: "pods", Namespace: "elsewhere", Name: "p"},
		{User: "admin", Verb: "create", Resource: "inplaceupdates", Namespace: "default", Name: "p"},
	}
	if got := countWrites(writes, "p"); got != 3 {
		t.Errorf("%d writes, want 3: the conflict counts, the rest is not the agent's work on this Pod", got)
	}
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	perRound := quantity{name: "often", about: 10 * time.Second, pod: (*bench).bareSpec}
	once := quantity{name: "once", about: time.Minute}
	p := newProgress(Config{Rounds: 3, Out: &out, Clock: clk}, []quantity{perRound, once})
	measured := func(q quantity, round int, took time.Duration) {
		s := &subject{round: round}
		p.begin(q, s)
		clk.Step(took)
		s.say("took %s", took)
		p.end(q, s)
	}
	measured(perRound, 0, 4*time.Second)
	measured(perRound, 1, 6*time.Second)
	measured(perRound, 2, 5*time.Second)
	measured(once, 0, 30*time.Second)
	want := []string{
		// The rest: two more rounds with what is around them, and what is measured once.
		"[4s of about 1m36s] round 1/3: often: took 4s",
		"[10s of about 1m27s] round 2/3: often: took 6s",
		"[15s of about 1m15s] round 3/3: often: took 5s",
		"[45s of about 45s] once: once: took 30s",
		"",
	}
	if got := strings.Split(out.String(), "\n"); !slices.Equal(got, want) {
		t.Errorf("progress:\n%s\nwant:\n%s", out.String(), strings.Join(want, "\n"))
	}
}

func TestRatiosNeedBothParts(t *testing.T) {
	var out strings.Builder
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	config := Config{Rounds: 1, Out: &out, Clock: clk}
	b := &bench{config: config, sheet: NewSheet(), progress: newProgress(config, nil), last: map[string]float64{}}
	err := errors.Join(b.add(nil, inPlaceBeyond, 330), b.add(nil, barePatch, 300), b.add(nil, pullOut, 4000), b.ratios())
	if err != nil {
		t.Fatal(err)
	}
	figures := b.sheet.Figures()
	if got := figures[inPlaceRatio]; got.Median != 1.1 || got.N != 1 || !*got.Met {
		t.Errorf("%s: %+v", inPlaceRatio, got)
	}
	if got, ok := figures[pullRatio]; ok {
		t.Errorf("%s without anything to compare with: %+v", pullRatio, got)
	}
}

func TestFirstMove(t *testing.T) {
	start := time.Unix(100, 0)
	write := func(after time.Duration, resource, sub string, code int) audit.Write {
		return audit.Write{User: coordinatorUser, Resource: resource, Subresource: sub, Code: code, At: start.Add(after)}
	}
	writes := []audit.Write{
		write(-time.Second, "servinggroups", "", 200), // of the coordinator before
		write(time.Second, "leases", "", 200),
		write(2*time.Second, "servinggroups", "status", 200),
		write(3*time.Second, "servinggroups", "", 409),
		{User: "somebody", Resource: "pods", Code: 201, At: start.Add(4 * time.Second)},
	}
	if got, ok := firstMove(writes, start); ok {
		t.Errorf("firstMove() = %v: nothing of this moves a rollout", got)
	}
	writes = append(writes, write(5*time.Second, "servinggroups", "", 200), write(6*time.Second, "pods", "", 201))
	if got, ok := firstMove(writes, start); !ok || got.Sub(start) != 5*time.Second {
		t.Errorf("firstMove() = %v, %t", got, ok)
	}
}

func TestRolloutsAreComparedWithTheirIdeal(t *testing.T) {
	b := &bench{sheet: NewSheet()}
	err := errors.Join(b.addAll(nil, sample{unitAhead, 400}, sample{unitAlone, 5000}), b.addRollouts(nil, []float64{44_440}))
	if err != nil {
		t.Fatal(err)
	}
	figures := b.sheet.Figures()
	if got := figures[unitsRatio]; math.Abs(got.Median-1.1) > 1e-9 || figures[unitsTime].Median != 44_440 {
		t.Errorf("%s: %+v", unitsRatio, got)
	}
	if got, ok := figures[unitsParts]; ok {
		t.Errorf("%s without its parts: %+v", unitsParts, got)
	}
	err = errors.Join(b.addAll(nil, sample{unitOut, 5000}, sample{unitBeyond, 1500}, sample{unitBare, 1000}), b.addRollouts(nil, []float64{36_000}))
	if got := b.sheet.Figures()[unitsParts]; err != nil || got.Median != 1 {
		t.Errorf("%s: %+v, %v", unitsParts, got, err)
	}
}

func TestAllHeld(t *testing.T) {
	good := func(change func(*states.GPUs)) states.GPUs {
		g := states.GPUs{State: gpu.Up, ResidentsKnown: true}
		for range idleGPUs {
			g.Devices = append(g.Devices, states.Device{Residents: []states.Resident{{Pod: "default/p"}}})
		}
		change(&g)
		return g
	}
	for name, tt := range map[string]struct {
		change func(*states.GPUs)
		want   bool
	}{
		"an engine on each":           {func(*states.GPUs) {}, true},
		"no library":                  {func(g *states.GPUs) { g.State = gpu.Absent }, false},
		"residents are not known":     {func(g *states.GPUs) { g.ResidentsKnown = false }, false},
		"a GPU too few":               {func(g *states.GPUs) { g.Devices = g.Devices[1:] }, false},
		"one without an engine":       {func(g *states.GPUs) { g.Devices[3].Residents = nil }, false},
		"a process of nobody's on it": {func(g *states.GPUs) { g.Devices[3].Residents[0].Pod = "" }, false},
	} {
		if got := allHeld(good(tt.change)); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
