package agent

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/residency"
)

// Residency looks at the GPUs of a Pod.
type Residency interface {
	// Look returns what the Pod's GPUs hold now. A Pod whose devices are no GPUs makes a sample without devices.
	// It returns within the deadline of ctx.
	Look(ctx context.Context, pod *corev1.Pod) (residency.Sample, error)
}

// Health judges the condition of GPUs.
type Health interface {
	// Sick returns why one of the Pod's GPUs is in no state to start an engine on; empty if that is known of none. uuids are
	// those that the last look has found.
	Sick(pod *corev1.Pod, uuids []string) (why string)
}

// lookTimeout bounds one look at the GPUs.
const lookTimeout = 5 * time.Second

// looks looks at the GPUs of Pods, beside the agent's work: a driver may take its time to answer.
type looks struct {
	residency Residency
	clock     clock.PassiveClock
	wg        sync.WaitGroup

	mu   sync.Mutex
	open map[types.UID]*looking
}

// looking is what was seen of one Pod and not yet taken.
type looking struct {
	under bool // a look is under way
	fresh []residency.Sample
}

func newLooks(cfg Config) *looks {
	return &looks{residency: cfg.Residency, clock: cfg.Clock, open: map[types.UID]*looking{}}
}

// ask looks at the Pod's GPUs and calls done, unless a look is under way already.
func (l *looks) ask(ctx context.Context, pod *corev1.Pod, done func()) {
	if !l.begin(pod.UID) {
		return
	}
	l.wg.Go(func() {
		defer done()
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		s, err := l.residency.Look(ctx, pod)
		if err != nil {
			s = residency.Sample{State: gpu.Unknown, Fault: err.Error()}
		}
		if s.At.IsZero() {
			s.At = l.clock.Now()
		}
		l.put(pod.UID, s)
	})
}

func (l *looks) begin(pod types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[pod] == nil {
		l.open[pod] = &looking{}
	}
	if l.open[pod].under {
		return false
	}
	l.open[pod].under = true
	return true
}

// put ends a look with what it found. A Pod that was forgotten meanwhile stays forgotten.
func (l *looks) put(pod types.UID, s residency.Sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.open[pod]; one != nil {
		one.under = false
		one.fresh = append(one.fresh, s)
	}
}

// take returns what was seen since it was called last, the oldest first.
func (l *looks) take(pod types.UID) []residency.Sample {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.open[pod]
	if one == nil {
		return nil
	}
	fresh := one.fresh
	one.fresh = nil
	return fresh
}

// forget drops what was seen of the Pod.
func (l *looks) forget(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, pod)
}

func (l *looks) wait() { l.wg.Wait() }
