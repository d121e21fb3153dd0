package world

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// A Loop is the virtual time, chance, and what is due when. The same seed and the same calls give
// the same history.
type Loop struct {
	*rand.Rand
	seed  uint64
	now   time.Time
	queue queue
	count int
}

// NewLoop returns a loop at a fixed time.
func NewLoop(seed uint64) *Loop {
	return &Loop{
		seed: seed,
		Rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)),
		now:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Now is the virtual time.
func (l *Loop) Now() time.Time { return l.now }

// Since is the virtual time that passed since t.
func (l *Loop) Since(t time.Time) time.Duration { return l.now.Sub(t) }

// After has f called once d has passed; what is due at the same time goes in the order of the calls.
func (l *Loop) After(d time.Duration, f func()) {
	l.count++
	heap.Push(&l.queue, event{at: l.now.Add(d), order: l.count, do: f})
}

// RunUntil does what is due until t, which is then the time. An event may call it: what comes due
// meanwhile happens in the middle of that event.
func (l *Loop) RunUntil(t time.Time) {
	for len(l.queue) > 0 && !l.queue[0].at.After(t) {
		e, ok := heap.Pop(&l.queue).(event)
		if !ok {
			return
		}
		if e.at.After(l.now) {
			l.now = e.at
		}
		e.do()
	}
	if t.After(l.now) {
		l.now = t
	}
}

// Chance is true in a share p of the cases.
func (l *Loop) Chance(p float64) bool { return l.Float64() < p }

// Between is a duration from a to b, short ones more often than long ones.
func (l *Loop) Between(a, b time.Duration) time.Duration {
	x := l.Float64()
	return a + time.Duration(x*x*float64(b-a))
}

// pick returns one of the values.
func pick[T any](l *Loop, values ...T) T { return values[l.IntN(len(values))] }

type event struct {
	at    time.Time
	order int
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is heap's.
func (q *queue) Push(x any) {
	if e, ok := x.(event); ok {
		*q = append(*q, e)
	}
}

// Pop is heap's.
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}
