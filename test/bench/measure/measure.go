// Package measure takes the figures of the benchmark on the lab's cluster.
//
// A run is a number of rounds and then what is measured once. A round makes one fresh Pod for
// each quantity, waits until all have settled, and measures one after the other, so that what
// disturbs the machine for a while disturbs all figures alike. Ready and not Ready are seen by a
// watch on the Pod; a wait that ends in nothing ends the run.
package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/test/bench/figure"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/lab"
)

// limit bounds a run without its builds; a round takes less than two minutes on a slow machine.
const (
	limitPerRound = 5 * time.Minute
	limitOnce     = 60 * time.Minute
)

// A Config says what is measured.
type Config struct {
	Rounds int      // at least 1
	Only   []string // names of Quantities; empty: all
	Out    io.Writer
	Clock  clock.WithTicker
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Rounds < 1 {
		errs = append(errs, fmt.Errorf("%d rounds: want at least 1", c.Rounds))
	}
	for _, name := range c.Only {
		if !slices.Contains(Quantities(), name) {
			errs = append(errs, fmt.Errorf("nothing is called %q: want one of %v", name, Quantities()))
		}
	}
	return errors.Join(errs...)
}

// A quantity is something that is measured.
type quantity struct {
	name  string
	about time.Duration // that one measurement takes; a guess, until the first one is taken
	// pod is the fresh Pod of a round; nil: the quantity is measured once, after the rounds.
	pod     func(*bench) cluster.PodSpec
	measure func(*bench, context.Context, *subject) error
}

// A subject is what one measurement is about.
type subject struct {
	round int
	spec  cluster.PodSpec
	said  []string // results, for the line of progress
}

func (s *subject) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func quantities() []quantity {
	return []quantity{
		{"bare", 3 * time.Second, (*bench).bareSpec, (*bench).bare},
		{"inplace", 8 * time.Second, (*bench).gatedSpec, (*bench).inPlace},
		{"recreate", 4 * time.Second, (*bench).bareSpec, (*bench).recreate},
		{"pull", 20 * time.Second, (*bench).gatedSpec, (*bench).pull},
		{"stubborn", 10 * time.Second, (*bench).stubbornSpec, (*bench).stubborn},
		{"resume", 14 * time.Second, (*bench).remoteSpec, (*bench).resume},
		{"unit", 3 * time.Minute, nil, (*bench).unit},
		{"unit-rollout", 4 * time.Minute, nil, (*bench).unitRollout},
		{"four-pods", 2 * time.Minute, nil, (*bench).fourPods},
		{"coordinator-resume", 3 * time.Minute, nil, (*bench).coordinatorResume},
		{"stream", 90 * time.Second, nil, (*bench).stream},
		{"unit-stream", 3 * time.Minute, nil, (*bench).unitStream},
		{"memory", 150 * time.Second, nil, (*bench).memory},
		{"gpu-idle", 5 * time.Minute, nil, (*bench).gpuIdle},
		{"planning", 5 * time.Second, nil, (*bench).planning},
		{"rollout", 3 * time.Minute, nil, (*bench).rollout},
		{"coordinator-idle", time.Second, nil, (*bench).coordinatorIdle},
		{"coordinator", 6 * time.Minute, nil, (*bench).coordinatorMemory},
	}
}

// Quantities are the names that Config.Only takes.
func Quantities() []string {
	var names []string
	for _, q := range quantities() {
		names = append(names, q.name)
	}
	return names
}

// A bench is one run.
type bench struct {
	*cluster.Cluster
	config     Config
	sheet      *figure.Sheet
	progress   *progress
	images     imageSet
	near, far  lab.Node           // where Pods are measured; whose agent is killed, and fills up
	padded     string             // an image that was pulled for one Pod only
	last       map[string]float64 // samples of the round under way, by figure
	generation int64              // of the agent's DaemonSet
	made       int                // images that were made for one rollout each
}

// Run measures on c and adds to the sheet; what was measured before an error stays there. It
// returns ErrRequestsFailed, among others, if an in-place update cost requests.
func Run(ctx context.Context, c *cluster.Cluster, config Config, sheet *figure.Sheet) (err error) {
	if err := config.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limitOnce+time.Duration(config.Rounds)*limitPerRound)
	defer cancel()
	b := &bench{Cluster: c, config: config, sheet: sheet, near: c.Nodes()[0], far: c.Nodes()[1]}
	b.progress = newProgress(config, b.wanted())
	defer func() { err = errors.Join(err, b.cleanUp(ctx)) }()
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	for round := range config.Rounds {
		if err := b.round(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	return errors.Join(b.once(ctx), b.sameAgents(ctx))
}

// once measures what is not measured in rounds. Failed requests do not keep it from the rest.
func (b *bench) once(ctx context.Context) error {
	b.last = nil
	var failed error
	for _, q := range b.wanted() {
		if q.pod != nil {
			continue
		}
		err := b.take(ctx, q, &subject{})
		failed = errors.Join(failed, err)
		if err != nil && !errors.Is(err, ErrRequestsFailed) {
			break
		}
	}
	return failed
}

// wanted are the quantities that are to be measured.
func (b *bench) wanted() []quantity {
	return slices.DeleteFunc(quantities(), func(q quantity) bool {
		return len(b.config.Only) > 0 && !slices.Contains(b.config.Only, q.name)
	})
}

// round measures everything that has a Pod in each round. Every other round goes the other way
// about, so that nothing always comes after the same.
func (b *bench) round(ctx context.Context, round int) error {
	b.last = map[string]float64{}
	var wanted []quantity
	var subjects []*subject
	for _, q := range b.wanted() {
		if q.pod == nil {
			continue
		}
		spec := q.pod(b)
		spec.Name = fmt.Sprintf("bench-%s-%d", q.name, round)
		wanted, subjects = append(wanted, q), append(subjects, &subject{round: round, spec: spec})
	}
	if len(wanted) == 0 {
		return nil
	}
	if round%2 == 1 {
		slices.Reverse(wanted)
		slices.Reverse(subjects)
	}
	if err := b.runAll(ctx, subjects); err != nil {
		return err
	}
	for i, q := range wanted {
		if err := b.take(ctx, q, subjects[i]); err != nil {
			return err
		}
	}
	if err := b.ratios(); err != nil {
		return err
	}
	if err := b.removeAll(ctx); err != nil {
		return err
	}
	return b.dropPadded(ctx)
}

// take measures once and shows it.
func (b *bench) take(ctx context.Context, q quantity, s *subject) error {
	b.progress.begin(q, s)
	if err := q.measure(b, ctx, s); err != nil {
		return fmt.Errorf("%s: %w", q.name, err)
	}
	b.progress.end(q, s)
	return nil
}

// add adds a sample to a figure and to the line of progress.
func (b *bench) add(s *subject, name string, sample float64) error {
	if b.last != nil {
		b.last[name] = sample
	}
	if s != nil {
		s.say("%s %s", name, figure.Text(sample))
	}
	return b.sheet.Add(name, sample)
}

// ratios adds what two samples of one round make together.
func (b *bench) ratios() error {
	for _, r := range []struct{ name, of, to string }{
		{inPlaceRatio, inPlaceBeyond, barePatch},
		{pullRatio, pullOut, inPlaceOut},
	} {
		of, measured := b.last[r.of]
		to, compared := b.last[r.to]
		if !measured || !compared {
			continue
		}
		if err := b.add(nil, r.name, of/to); err != nil {
			return err
		}
		b.progress.note("  %s %s", r.name, figure.Text(of/to))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
