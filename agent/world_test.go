package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/cri"
)

// A world is one node in memory: its Pods and orders as the API server has them, kubelet, the
// container runtime, a registry and a clock that jumps from event to event. It takes the patches
// that the agent really writes. Nothing in it knows the state machine.
type world struct {
	clock  *clocktesting.FakeClock
	now    time.Time
	rng    *rand.Rand // every delay that nobody chooses
	events []event
	pods   []*simPod
	images map[string]bool // on the node
	hashes map[string]string
	serial int

	gpuUp, sick, letGo                                    bool
	runtimeUp, kubeletUp, journalUp, registryUp, routerUp bool
	kubeletEpoch                                          int
	kubeletStarted                                        time.Time

	agent *simAgent
	err   error // the first rule that was broken
	log   []string
}

type event struct {
	at time.Time
	do func()
}

func newWorld(seed uint64, next brain) *world {
	w := &world{
		clock: clocktesting.NewFakeClock(begin()), now: begin(), rng: rand.New(rand.NewPCG(seed, 0)),
		images: map[string]bool{}, hashes: map[string]string{},
		gpuUp: true, runtimeUp: true, kubeletUp: true, journalUp: true, registryUp: true, routerUp: true, kubeletStarted: begin().Add(-time.Hour),
	}
	w.agent = newSimAgent(w, next)
	return w
}

// jitter is a random duration of up to d.
func (w *world) jitter(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d))) + time.Millisecond
}

func (w *world) after(d time.Duration, do func()) {
	w.events = append(w.events, event{w.now.Add(d), do})
}

// advance goes to the next event or timer of the agent, and reports false if there is none.
func (w *world) advance() bool {
	next := time.Time{}
	for _, e := range w.events {
		next = earliest(next, e.at)
	}
	for _, p := range w.pods {
		next = earliest(next, w.agent.wakes[p.name])
	}
	if next.IsZero() {
		return false
	}
	if next.After(w.now) {
		w.now = next
		w.clock.SetTime(next)
	}
	due := slices.Clone(w.events)
	w.events = slices.DeleteFunc(w.events, func(e event) bool { return !e.at.After(w.now) })
	for _, e := range due {
		if !e.at.After(w.now) {
			e.do()
		}
	}
	for _, p := range w.pods {
		if at := w.agent.wakes[p.name]; !at.IsZero() && !at.After(w.now) {
			w.agent.wake(p)
		}
	}
	return true
}

func (w *world) note(p *simPod, format string, args ...any) {
	name := ""
	if p != nil {
		name = p.name
	}
	w.log = append(w.log, fmt.Sprintf("%8.3f %-3s ", w.now.Sub(begin()).Seconds(), name)+fmt.Sprintf(format, args...))
}

// begin is when every world begins.
func begin() time.Time { return time.Unix(1_700_000_000, 0).UTC() }

// broken notes the first rule that does not hold.
func (w *world) broken(p *simPod, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %s", p.name, fmt.Sprintf(format, args...))
		w.note(p, "BROKEN "+format, args...)
	}
}

func (w *world) id(prefix string) string {
	w.serial++
	return prefix + "-" + strconv.Itoa(w.serial)
}

func (w *world) hash(name, image string) string {
	key := name + " " + image
	if w.hashes[key] == "" {
		w.hashes[key] = cri.KubeletHash(name, image)
	}
	return w.hashes[key]
}
