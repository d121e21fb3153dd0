package agent

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"pitstop.dev/cri"
)

// stopAgain is how long after a kill the same container is not killed again.
const stopAgain = 5 * time.Second

// stops kills containers whose time to stop is over, beside the agent's work: a process in
// uninterruptible sleep takes its time.
type stops struct {
	runtime *cri.Client
	clock   clock.PassiveClock
	wg      sync.WaitGroup

	mu    sync.Mutex
	tried map[string]kills // by container id
}

// kills are when a container was killed first, and until when the latest kill counts.
type kills struct{ first, until time.Time }

func newStops(cfg Config) *stops {
	return &stops{runtime: cfg.Runtime, clock: cfg.Clock, tried: map[string]kills{}}
}

// kill kills the container and calls done when that is over, well or badly.
func (s *stops) kill(ctx context.Context, containerID string, done func()) {
	s.note(containerID)
	s.wg.Go(func() {
		defer done()
		if err := s.runtime.Stop(ctx, containerID, 0); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "kill of a container that does not stop")
		}
	})
}

// note remembers a kill, and forgets those that are long over.
func (s *stops) note(containerID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	maps.DeleteFunc(s.tried, func(_ string, k kills) bool { return now.Sub(k.until) > time.Hour })
	k := s.tried[containerID]
	if k.first.IsZero() {
		k.first = now
	}
	k.until = now.Add(stopAgain)
	s.tried[containerID] = k
}

// of returns when the container was first killed, zero if it was not, and whether a kill of it is
// under way or was just tried.
func (s *stops) of(containerID string) (first time.Time, under bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.tried[containerID]
	return k.first, s.clock.Now().Before(k.until)
}

func (s *stops) wait() { s.wg.Wait() }
