package measure

import (
	"fmt"
	"strings"
	"time"
)

// overhead is what a round takes besides its measurements: making, settling and removing Pods.
const overhead = 12 * time.Second

// A progress tells people what is done and how long the rest takes.
type progress struct {
	config Config
	wanted []quantity
	start  time.Time
	begun  time.Time                // of the measurement under way
	taken  map[string]time.Duration // by all measurements of a quantity so far
	times  map[string]int           // how many those are
}

func newProgress(c Config, wanted []quantity) *progress {
	return &progress{
		config: c, wanted: wanted, start: c.Clock.Now(),
		taken: map[string]time.Duration{}, times: map[string]int{},
	}
}

func (p *progress) note(format string, args ...any) { fmt.Fprintf(p.config.Out, format+"\n", args...) }

func (p *progress) begin(quantity, *subject) { p.begun = p.config.Clock.Now() }

func (p *progress) end(q quantity, s *subject) {
	p.taken[q.name] += p.config.Clock.Since(p.begun)
	p.times[q.name]++
	elapsed := p.config.Clock.Since(p.start)
	where := "once"
	if q.pod != nil {
		where = fmt.Sprintf("round %d/%d", s.round+1, p.config.Rounds)
	}
	p.note("[%s of about %s] %s: %s: %s", elapsed.Round(time.Second), (elapsed + p.rest()).Round(time.Second),
		where, q.name, strings.Join(s.said, ", "))
}

// rest estimates how long the remaining measurements take, from those before.
func (p *progress) rest() time.Duration {
	var rest time.Duration
	least := p.config.Rounds
	for _, q := range p.wanted {
		all := 1
		if q.pod != nil {
			all = p.config.Rounds
			least = min(least, p.times[q.name])
		}
		one := q.about
		if n := p.times[q.name]; n > 0 {
			one = p.taken[q.name] / time.Duration(n)
		}
		rest += time.Duration(all-p.times[q.name]) * one
	}
	return rest + time.Duration(p.config.Rounds-least)*overhead
}
