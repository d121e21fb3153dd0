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
	tried map[string]time.Time // container id to when the latest kill ends to count
}

func newStops(cfg Config) *stops {
	return &stops{runtime: cfg.Runtime, clock: cfg.Clock, tried: map[string]time.Time{}}
}

// kill kills the container and calls done when that is over, well or badly.
func (s *stops) kill(ctx context.Context, containerID string, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	maps.DeleteFunc(s.tried, func(_ string, until time.Time) bool { return !now.Before(until) })
	s.tried[containerID] = now.Add(stopAgain)
	s.wg.Go(func() {
		defer done()
		if err := s.runtime.Stop(ctx, containerID, 0); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "kill of a container that does not stop")
		}
	})
}

// under reports whether a kill of the container is under way or was just tried.
func (s *stops) under(containerID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.tried[containerID]
	if ok && !s.clock.Now().Before(until) {
		delete(s.tried, containerID)
		return false
	}
	return ok
}

func (s *stops) wait() { s.wg.Wait() }
