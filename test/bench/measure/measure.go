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
	limitOnce     = 30 * time.Minute
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
		{"stream", 90 * time.Second, nil, (*bench).stream},
		{"memory", 150 * time.Second, nil, (*bench).memory},
		{"planning", 5 * time.Second, nil, (*bench).planning},
		{"rollout", 3 * time.Minute, nil, (*bench).rollout},
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

// The figures.
const (
	barePatch     = "bare_patch_ms"
	inPlaceOut    = "in_place_out_of_service_ms"
	inPlaceBeyond = "in_place_beyond_drain_ms"
	inPlaceRatio  = "ratio_in_place_to_bare"
	recreateOut   = "recreate_out_of_service_ms"
	pullOut       = "pull_out_of_service_ms"
	pullTime      = "pull_ms"
	pullRatio     = "pull_hidden_ratio"
	stubbornStop  = "stubborn_stop_ms"
	requests      = "streaming_requests"
	failed        = "streaming_requests_failed"
	resumeTime    = "resume_after_kill_ms"
	agentRSS      = "agent_rss_mib"
	agentPeak     = "agent_rss_peak_mib"
	apiWrites     = "api_writes_per_update"

	planTime        = "plan_10k_ms"
	planGrowth      = "plan_growth_10x"
	unitRollout     = "rollout_unit_ms"
	rolloutTime     = "rollout_ms"
	rolloutRatio    = "rollout_vs_ideal"
	rolloutWrites   = "coordinator_writes_per_pod"
	coordinatorIdle = "coordinator_rss_idle_mib"
	coordinatorFull = "coordinator_rss_10k_mib"
)

// NewSheet returns an empty sheet for all figures.
func NewSheet() *figure.Sheet {
	return figure.NewSheet(
		figure.Definition{Name: barePatch, Unit: "ms", What: "image patch, from the begin of the call, to Ready of a Pod without our gate; image present"},
		figure.Definition{Name: inPlaceOut, Unit: "ms", What: "Ready=False to Ready=True of an in-place update; propagation 3 s, drain by metrics, idle engine, image present"},
		figure.Definition{Name: inPlaceBeyond, Unit: "ms", What: "the same, less propagation and drain"},
		figure.Definition{Name: inPlaceRatio, Unit: "x", What: "in_place_beyond_drain_ms to bare_patch_ms of the same round", Bound: figure.AtMost(1.2)},
		figure.Definition{Name: recreateOut, Unit: "ms", What: "the same image change by delete and create, from the begin of the delete call to Ready; Pod without our gate"},
		figure.Definition{Name: pullOut, Unit: "ms", What: "Ready=False to Ready=True of an in-place update whose image has to be pulled"},
		figure.Definition{Name: pullTime, Unit: "ms", What: "what that pull took, while the Pod served (timings.prepare)"},
		figure.Definition{Name: pullRatio, Unit: "x", What: "pull_out_of_service_ms to in_place_out_of_service_ms of the same round", Bound: figure.AtMost(1.1)},
		figure.Definition{Name: stubbornStop, Unit: "ms", What: "patch to the end of an old container that ignores SIGTERM; grace 120 s, stopTimeoutSeconds 2", Bound: figure.AtMost(5000)},
		figure.Definition{Name: requests, Unit: "requests", What: "streams of 1 s from 8 clients while 4 Pods behind a Service were updated in place, one after the other, again and again", Bound: figure.AtLeast(minRequests)},
		figure.Definition{Name: failed, Unit: "requests", What: "those that failed", Bound: figure.AtMost(0)},
		figure.Definition{Name: resumeTime, Unit: "ms", What: "start of the agent's container after a SIGKILL in mid-update to its patch of the Pod", Bound: figure.AtMost(5000)},
		figure.Definition{Name: agentRSS, Unit: "MiB", What: "VmRSS of the agent with 110 Pods in service on its node, after 4 updates there", Bound: figure.AtMost(40)},
		figure.Definition{Name: agentPeak, Unit: "MiB", What: "VmHWM of the same process since its start"},
		figure.Definition{Name: apiWrites, Unit: "writes", What: "the agent's API writes from the order to its end, events and Leases apart, from the audit log", Bound: figure.AtMost(8)},
		figure.Definition{Name: planTime, Unit: "ms", What: "one decision over 10,000 ServingGroups x 8 Pods in mid-rollout", Bound: figure.AtMost(100)},
		figure.Definition{Name: planGrowth, Unit: "x", What: "the same to one over 1,000 ServingGroups, medians", Bound: figure.AtMost(12)},
		figure.Definition{Name: unitRollout, Unit: "ms", What: "rollout of one ServingGroup of 4 Pods that are ready 5 s after their binding, median of 5, from the edit to complete"},
		figure.Definition{Name: rolloutTime, Unit: "ms", What: "the same of 200 ServingGroups with maxUnavailable 20"},
		figure.Definition{Name: rolloutRatio, Unit: "x", What: "rollout_ms to 10 x rollout_unit_ms", Bound: figure.AtMost(1.1)},
		figure.Definition{Name: rolloutWrites, Unit: "writes", What: "the coordinator's API writes in that rollout, events and Leases apart, by Pod"},
		figure.Definition{Name: coordinatorIdle, Unit: "MiB", What: "VmRSS of the coordinator before the next figure", Bound: figure.AtMost(80)},
		figure.Definition{Name: coordinatorFull, Unit: "MiB", What: "VmRSS of the coordinator after it has made 10,000 Pods in 1,250 ServingGroups", Bound: figure.AtMost(500)},
	)
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
