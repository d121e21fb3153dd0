package history

import (
	"fmt"
	"io"
	"time"

	"k8s.io/utils/clock"
)

// progressEvery is how often a long run says how far it is.
const progressEvery = 20 * time.Second

// tally counts results and says how far it is.
type tally struct {
	clock      clock.PassiveClock
	out        io.Writer
	begin      time.Time
	said       time.Time
	of         int
	histories  int
	violations int
	writes     int
	total      time.Duration
	longest    played
}

func (t *tally) add(r played) {
	t.histories++
	t.total += r.took
	t.writes += r.Writes
	if r.took > t.longest.took {
		t.longest = r
	}
	if len(r.Violations) > 0 {
		t.violations++
		v := r.Violations[0]
		fmt.Fprintf(t.out, "seed %d: %s: %s\n    replay: make sim SEED=%d\n", r.Seed, v.Rule, v.Text, r.Seed)
	}
	if t.clock.Since(t.said) >= progressEvery {
		t.said = t.clock.Now()
		fmt.Fprintf(t.out, "%d of %d histories, %d violations so far\n", t.histories, t.of, t.violations)
	}
}

func (t *tally) end() {
	fmt.Fprintf(t.out, "%d histories, %d violations\n", t.histories, t.violations)
	n := max(1, t.histories)
	fmt.Fprintf(t.out, "a history: mean %.1f ms, max %.1f ms (seed %d), %d writes of the coordinator; %s in all\n",
		millis(t.total/time.Duration(n)), millis(t.longest.took), t.longest.Seed, t.writes/n, t.clock.Since(t.begin).Round(time.Second/10))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
