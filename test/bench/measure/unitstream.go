package measure

import (
	"context"
	"errors"
	"fmt"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/engine/load"
)

const (
	unitStreams     = 3 // units
	unitClients     = 24
	minUnitRequests = 2000
	maxUnitRollouts = 12
)

// unitStream rolls units out in place under load, and once by Recreate.
func (b *bench) unitStream(ctx context.Context, s *subject) (err error) {
	const name = "bench-unit-stream"
	from, err := b.another(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, b.removeService(ctx), b.RemoveServing(ctx, name))
	}()
	if err := b.declare(ctx, unitServing(name, unitStreams, from)); err != nil {
		return err
	}
	url, err := b.makeService(ctx, front(name), unitStreams)
	if err != nil {
		return err
	}
	inPlace, err := b.underLoad(ctx, url, func(traffic *load.Load) error { return b.rollUnits(ctx, name, traffic) })
	if err != nil {
		return err
	}
	recreate, err := b.underLoad(ctx, url, func(*load.Load) error {
		_, err := b.rollNext(ctx, name, v1alpha1.UpdateRecreate)
		return err
	})
	if err != nil {
		return err
	}
	s.say("in place: %s; recreated: %s", inPlace, recreate)
	if err := b.addAll(s,
		sample{unitRequests, float64(inPlace.Sent)}, sample{unitFailed, float64(inPlace.FailedTotal())},
		sample{recreateRequests, float64(recreate.Sent)}, sample{recreateFailed, float64(recreate.FailedTotal())}); err != nil {
		return err
	}
	if inPlace.FailedTotal() > 0 {
		return fmt.Errorf("%w: %s; the first: %+v", ErrRequestsFailed, inPlace, inPlace.Failures[0])
	}
	return nil
}

// front selects the Pods of a ModelServing that requests enter through.
func front(name string) map[string]string {
	return map[string]string{v1alpha1.LabelModelServing: name, v1alpha1.LabelRole: "prefill", v1alpha1.LabelIndex: "0"}
}

// underLoad streams through the Service while something is done.
func (b *bench) underLoad(ctx context.Context, url string, do func(*load.Load) error) (load.Report, error) {
	traffic, err := load.Start(ctx, load.Config{URL: url, Clients: unitClients}, b.config.Clock)
	if err != nil {
		return load.Report{}, err
	}
	defer traffic.Stop()
	err = do(traffic)
	report := traffic.Stop()
	if err != nil {
		return report, fmt.Errorf("%w; requests: %s", err, report)
	}
	return report, nil
}

// rollUnits rolls all units to one new image after the other until there were enough requests.
func (b *bench) rollUnits(ctx context.Context, name string, traffic *load.Load) error {
	for n := range maxUnitRollouts {
		if _, err := b.rollNext(ctx, name, v1alpha1.UpdateInPlace); err != nil {
			return err
		}
		b.progress.note("  unit-stream: rollout %d: %s", n+1, traffic.Report())
		if traffic.Report().Sent >= minUnitRequests {
			return nil
		}
	}
	return fmt.Errorf("%d requests in %d rollouts, want %d: the clients are too slow", traffic.Report().Sent, maxUnitRollouts, minUnitRequests)
}
