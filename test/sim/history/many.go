package history

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/test/sim/cluster"
)

// Many says which histories to play.
type Many struct {
	First   uint64
	Count   int
	Workers int
	// Build makes the coordinator. Default Real.
	Build Build
}

// played is a history with the time that it took.
type played struct {
	Result
	took time.Duration
	err  error
}

// PlayMany plays histories and prints those that broke a rule, with how to replay them, and last how
// many there were. It returns the number of histories that broke a rule.
func PlayMany(ctx context.Context, out io.Writer, m Many) (violations int, err error) {
	results, err := play(ctx, m)
	if err != nil {
		return 0, err
	}
	t := tally{clock: clock.RealClock{}, out: out, of: m.Count}
	t.begin, t.said = t.clock.Now(), t.clock.Now()
	for r := range results {
		if r.err != nil {
			return t.violations, r.err
		}
		t.add(r)
	}
	t.end()
	return t.violations, ctx.Err()
}

// play plays the histories on several cores and sends each when it has ended.
func play(ctx context.Context, m Many) (<-chan played, error) {
	scheme, err := cluster.Scheme()
	if err != nil {
		return nil, err
	}
	if m.Build == nil {
		m.Build = Real
	}
	seeds, results := make(chan uint64), make(chan played, m.Count)
	var group sync.WaitGroup
	for range max(1, m.Workers) {
		group.Go(func() {
			for seed := range seeds {
				results <- timed(ctx, Options{Seed: seed, Build: m.Build, Scheme: scheme})
			}
		})
	}
	go func() {
		defer close(results)
		defer group.Wait()
		defer close(seeds)
		for i := range uint64(m.Count) {
			select {
			case seeds <- m.First + i:
			case <-ctx.Done():
				return
			}
		}
	}()
	return results, nil
}

func timed(ctx context.Context, o Options) played {
	c := clock.RealClock{}
	begin := c.Now()
	r, err := Run(ctx, o)
	return played{Result: r, took: c.Since(begin), err: err}
}

// Replay plays one history with a trace, and prints what it broke last.
func Replay(ctx context.Context, out io.Writer, seed uint64) (violations int, err error) {
	scheme, err := cluster.Scheme()
	if err != nil {
		return 0, err
	}
	o := Options{Seed: seed, Build: Real, Scheme: scheme, Trace: func(line string) { fmt.Fprintln(out, line) }}
	r, err := Run(ctx, o)
	if err != nil {
		return 0, err
	}
	for _, v := range r.Violations {
		fmt.Fprintf(out, "VIOLATION: %s: %s\n", v.Rule, v.Text)
	}
	fmt.Fprintf(out, "seed %d: %d violations, %d calls of reconcilers, %d writes, %s of virtual time\n",
		seed, len(r.Violations), r.Reconciles, r.Writes, r.Virtual)
	return len(r.Violations), nil
}
