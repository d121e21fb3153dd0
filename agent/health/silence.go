package health

import (
	"fmt"
	"time"

	"pitstop.dev/agent/health/states"
)

const (
	// silentFor is how long a runtime may give no answer: node-problem-detector's own check of the runtime waits as long
	// before it calls that a problem. One look is shorter, so that it takes two.
	silentFor = 10 * time.Second
	// apart is how far looks without an answer may lie apart to be one silence. Nobody knows what was between them.
	apart = 2 * time.Minute
)

// A silence is a time in which every look went without an answer. The zero value: the last one had one.
type silence struct{ first, last time.Time }

// next takes one more look without an answer, and says what that means. A single one may be that of a busy node.
func (s silence) next(now time.Time) (silence, states.Status, string) {
	if gap := now.Sub(s.last); s.first.IsZero() || gap < 0 || gap > apart {
		s.first = now
	}
	s.last = now
	if long := now.Sub(s.first); long >= silentFor {
		return s, states.Problem, fmt.Sprintf("no answer for %s", long.Truncate(time.Second))
	}
	return s, states.Unknown, "no answer in time"
}
