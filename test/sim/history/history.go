package history

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"pitstop.dev/agent"
	"pitstop.dev/test/sim/cluster"
	"pitstop.dev/test/sim/invariant"
	"pitstop.dev/test/sim/world"
)

// Where the agents' Leases are.
const worldSystem = world.System

// maxDepth bounds how many reconcilers are in the middle of a call at one time.
const maxDepth = 3

// How long a history takes in virtual time.
const (
	trouble  = 8 * time.Minute
	patience = 90 * time.Minute // until it has to have ended
	giveUp   = 12 * time.Minute // until it is judged where bad images are left
	rest     = 6 * time.Minute  // without a write of the coordinator: it has ended
	tooMuch  = 60000            // calls of reconcilers: they run in circles
	idle     = 600              // calls of reconcilers in a rest: they run in circles without a write
)

// A History is one run of the coordinator in one world.
type History struct {
	*world.Loop
	Server     *cluster.Server
	World      *world.World
	Reconciles int
	Writes     int

	ctx       context.Context //nolint:containedctx // a history is one call
	build     Build
	checker   *invariant.Checker
	trace     func(string)
	leader    *process
	processes int
	depth     int
	calm      bool
	begin     time.Time
	lastWrite time.Time
	looks     int // calls of reconcilers up to the last write
}

// Options say how a history goes.
type Options struct {
	Seed   uint64
	Build  Build
	Scheme *runtime.Scheme
	// Agents, if it is set, may change the step that the agent of a node is about to take.
	Agents func(w *world.World, node string, l *agent.Look)
	// Trace, if it is set, is told everything, a line each.
	Trace func(line string)
}

// A Result is how a history went.
type Result struct {
	Seed       uint64
	Violations []invariant.Violation
	Reconciles int
	Writes     int
	Virtual    time.Duration
}

// Run plays the history of a seed. The same seed and the same coordinator give the same history.
func Run(ctx context.Context, o Options) (result Result, err error) {
	l := world.NewLoop(o.Seed)
	h := &History{Loop: l, ctx: ctx, build: o.Build, trace: o.Trace}
	h.Server = cluster.New(l, o.Scheme)
	h.Server.Watch(h.write)
	h.checker = invariant.New(h.Server, worldSystem)
	h.Server.Watch(h.judge)
	h.World = world.New(ctx, l, h.Server)
	h.World.Tell, h.World.Meddle = h.tell, o.Agents
	h.Server.Watch(h.news)
	h.begin = l.Now()
	defer func() {
		result = Result{Seed: o.Seed, Violations: h.checker.Violations, Reconciles: h.Reconciles, Writes: h.Writes, Virtual: l.Since(h.begin)}
		if r := recover(); r != nil && r != any(errStop) {
			result.Violations = append(result.Violations, invariant.Violation{Rule: "nothing panics", Text: fmt.Sprint(r)})
			if o.Trace != nil {
				panic(r)
			}
		}
	}()
	if err := h.start(); err != nil { //nolint:contextcheck // a history has one context
		return Result{}, err
	}
	h.play() //nolint:contextcheck // a history has one context
	return result, nil
}

// errStop ends a history at its first violation.
var errStop = fmt.Errorf("stop")

func (h *History) play() {
	h.World.Declare("m")
	h.RunUntil(h.Now().Add(h.Between(0, 2*time.Minute)))
	h.World.Trouble(4+h.IntN(14), trouble)
	h.RunUntil(h.Now().Add(trouble))
	rests := invariant.End(h.Chance(0.8))
	if rests {
		h.World.Heal()
	}
	h.settle(rests)
}

// settle ends all trouble and waits for the end. Where Pods with a bad image are left, the coordinator
// may try for ever, and is judged after a while.
func (h *History) settle(rests invariant.End) {
	h.tell("world", "is calm from now on")
	h.World.Calm()
	h.calm = true
	h.replace()
	calm := h.Now()
	h.lastWrite, h.looks = calm, h.Reconciles
	for h.Since(h.lastWrite) < rest && h.Since(calm) < patience && (h.Since(calm) < giveUp || !h.World.Bad()) {
		h.RunUntil(h.Now().Add(30 * time.Second))
	}
	h.checker.End(rests && invariant.End(!h.World.Bad()))
	if looks := h.Reconciles - h.looks; looks > idle {
		h.checker.Spinning(looks, h.Since(h.lastWrite))
	}
	if h.Since(calm) >= patience && len(h.checker.Violations) == 0 {
		h.checker.Restless(patience)
	}
}

// write counts what the coordinator writes, and tells of every write.
func (h *History) write(w cluster.Write) {
	if w.Frame != nil {
		h.Writes++
		h.lastWrite, h.looks = w.At, h.Reconciles
	}
	if h.trace != nil && w.Kind != cluster.Lease {
		h.tell(w.By, describe(w))
	}
}

// judge stops the history at its first violation.
func (h *History) judge(cluster.Write) {
	if h.Reconciles > tooMuch {
		h.checker.Restless(h.Since(h.begin))
	}
	if len(h.checker.Violations) > 0 {
		panic(errStop)
	}
}

func (h *History) tell(who, what string) {
	if h.trace != nil {
		h.trace(fmt.Sprintf("%10.3f  %-18s %s", h.Since(h.begin).Seconds(), who, what))
	}
}
