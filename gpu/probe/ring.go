package probe

import (
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu"
)

// A ring keeps the last events.
type ring struct {
	clock clock.PassiveClock
	keep  int

	mu     sync.Mutex
	seq    uint64
	events []gpu.Event
}

func newRing(c clock.PassiveClock, keep int) *ring { return &ring{clock: c, keep: keep} }

// add numbers and dates e.
func (r *ring) add(e gpu.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	e.Seq, e.At = r.seq, r.clock.Now()
	if len(r.events) == r.keep {
		r.events = slices.Delete(r.events, 0, 1)
	}
	r.events = append(r.events, e)
}

// gap notes that nobody listens from now on.
func (r *ring) gap() {
	r.add(gpu.Event{Kind: gpu.EventGap, GI: gpu.NoInstance, CI: gpu.NoInstance})
}

func (r *ring) after(seq uint64) []gpu.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.events, func(e gpu.Event) bool { return e.Seq > seq })
	if i < 0 {
		return nil
	}
	return slices.Clone(r.events[i:])
}
