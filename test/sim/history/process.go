package history

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"pitstop.dev/test/sim/cluster"
)

// Deps is what a process of the coordinator is built on.
type Deps struct {
	Client    client.Client
	Pins      client.Reader
	Live      client.Reader
	Clock     clock.PassiveClock
	Events    Recorder
	Namespace string
}

// Reconcilers are the controllers of one process, in memory of their own.
type Reconcilers struct{ ModelServing, ServingGroup reconcile.Reconciler }

// Build makes the reconcilers of a new process.
type Build func(Deps) (Reconcilers, error)

// controller is one of the coordinator's.
type controller string

const (
	serving controller = "modelserving"
	group   controller = "servinggroup"
)

// item is one key in a controller's queue.
type item struct {
	controller controller
	key        types.NamespacedName
}

func (i item) String() string { return string(i.controller) + " " + i.key.Name }

// life is the state of a process.
type life int

const (
	leads  life = iota
	frozen      // lost its Lease without knowing, and does not run
	former      // runs again, and another leads
	dead
)

// process is one coordinator: caches, queues and reconcilers.
type process struct {
	h      *History
	name   string
	life   life
	client *cluster.Client
	build  Reconcilers

	queued   map[item]bool
	running  map[item]bool
	again    map[item]bool
	failures map[item]int
	timers   map[item]time.Time
	lagging  map[string]time.Time // by kind: no news before

	generations map[types.UID]int64  // of ModelServings, as their groups were last told
	renewed     map[string]time.Time // Leases, as last told
}

// firstLag is how old a new process's caches may be: its first lists come from the API server's own.
const firstLag = 5 * time.Second

// start makes a new leader whose caches lag as far as chance wants.
func (h *History) start() error {
	h.processes++
	p := &process{
		h: h, name: fmt.Sprintf("coordinator-%d", h.processes),
		queued: map[item]bool{}, running: map[item]bool{}, again: map[item]bool{},
		failures: map[item]int{}, timers: map[item]time.Time{}, lagging: map[string]time.Time{},
		generations: map[types.UID]int64{}, renewed: map[string]time.Time{},
	}
	p.client = h.Server.Cached(p.name, p, func(kind string, changes int) int {
		if h.calm || h.Chance(0.5) {
			return 0
		}
		return h.IntN(min(changes, h.Server.ChangesSince(kind, h.Now().Add(-firstLag))) + 1)
	})
	p.client.Shuffle = h.Shuffle
	var err error
	p.build, err = h.build(Deps{Client: p.client, Pins: p.client.Pins(), Live: p.client.Live(), Clock: h.Loop, Events: recorder{p}, Namespace: worldSystem})
	if err != nil {
		return fmt.Errorf("build coordinator: %w", err)
	}
	h.leader = p
	h.tell(p.name, "leads")
	for _, kind := range watched() {
		for _, o := range p.client.Known(kind) {
			p.wake(kind, o)
		}
		p.deliverLater(kind)
	}
	return nil
}

// add queues an item, as a watch does.
func (p *process) add(i item, after time.Duration) {
	if p.queued[i] {
		return
	}
	p.queued[i] = true
	p.h.After(after, func() { p.turn(i) })
}

// addAfter is RequeueAfter: the earlier time counts.
func (p *process) addAfter(i item, d time.Duration) {
	at := p.h.Now().Add(d)
	if due, ok := p.timers[i]; ok && !due.After(at) {
		return
	}
	p.timers[i] = at
	p.h.After(d, func() {
		if p.timers[i].Equal(at) {
			delete(p.timers, i)
			p.add(i, 0)
		}
	})
}

// turn takes the item from the queue, unless the process cannot run now.
func (p *process) turn(i item) {
	switch {
	case p.life == dead || p.life == frozen:
		return
	case p.running[i]:
		p.queued[i], p.again[i] = false, true
		return
	case p.h.depth >= maxDepth:
		p.h.After(time.Millisecond, func() { p.turn(i) })
		return
	}
	p.queued[i] = false
	p.running[i] = true
	p.h.depth++
	result, err := p.reconcile(i)
	p.h.depth--
	p.running[i] = false
	p.settle(i, result, err)
}

func (p *process) reconcile(i item) (ctrl.Result, error) {
	defer p.client.Begin(i.String())()
	p.h.Reconciles++
	r := p.build.ModelServing
	if i.controller == group {
		r = p.build.ServingGroup
	}
	return r.Reconcile(p.context(i), ctrl.Request{NamespacedName: i.key})
}

func (p *process) context(item) context.Context { return p.h.ctx }

// settle queues the item again as controller-runtime does.
func (p *process) settle(i item, result ctrl.Result, err error) {
	if p.life == former {
		p.life = dead
	}
	if p.life != leads {
		return
	}
	if p.again[i] {
		p.again[i] = false
		p.add(i, 0)
	}
	if err != nil {
		p.h.tell(p.name, fmt.Sprintf("%s: %v", i, err))
		p.failures[i]++
		p.addAfter(i, min(5*time.Millisecond<<min(p.failures[i], 20), 30*time.Second))
		return
	}
	delete(p.failures, i)
	if result.RequeueAfter > 0 {
		p.addAfter(i, result.RequeueAfter)
	}
}
