package measure

import (
	"context"
	"errors"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/bench/figure"
)

// defaultPropagation is that of units which say nothing of it.
const defaultPropagation = 3 * time.Second

// unitRollout measures how near a rollout of units in place comes to its ideal: what is ahead of the first drain
// once, and then one unit after the other, each as long as one alone takes.
func (b *bench) unitRollout(ctx context.Context, s *subject) (err error) {
	const one, many = "bench-unit-alone", "bench-units"
	from, err := b.another(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, b.RemoveServing(ctx, one), b.RemoveServing(ctx, many))
	}()
	for name, replicas := range map[string]int32{one: 1, many: unitReplicas} {
		if err := b.declare(ctx, unitServing(name, replicas, from)); err != nil {
			return err
		}
	}
	var all []float64
	for range unitSeries {
		for range unitsAlone {
			if err := b.rollAlone(ctx, one); err != nil {
				return err
			}
		}
		r, err := b.rollNext(ctx, many, v1alpha1.UpdateInPlace)
		if err != nil {
			return err
		}
		all = append(all, r.took())
		b.progress.note("  %d units in %.1f s", unitReplicas, r.took()/1000)
	}
	return b.addRollouts(s, all)
}

// rollAlone measures a rollout of one unit.
func (b *bench) rollAlone(ctx context.Context, name string) error {
	r, err := b.rollNext(ctx, name, v1alpha1.UpdateInPlace)
	if err != nil {
		return err
	}
	drains, err := drainPermitted(r.frames)
	if err != nil {
		return err
	}
	b.progress.note("  one unit alone: %.0f ms until its drain, %.0f ms from there", ms(drains.Sub(r.begun)), ms(r.done.Sub(drains)))
	return b.addAll(nil, sample{unitAhead, ms(drains.Sub(r.begun))}, sample{unitAlone, ms(r.done.Sub(drains))})
}

// serving declares a ModelServing at an image of its own and waits for it; remove takes it away again.
func (b *bench) serving(ctx context.Context, with func(image string) *v1alpha1.ModelServing) (remove func() error, err error) {
	image, err := b.another(ctx)
	if err != nil {
		return nil, err
	}
	ms := with(image)
	remove = func() error { return b.RemoveServing(context.WithoutCancel(ctx), ms.Name) }
	if err := b.declare(ctx, ms); err != nil {
		return nil, errors.Join(err, remove())
	}
	return remove, nil
}

// rollNext rolls the ModelServing to an image that it did not have.
func (b *bench) rollNext(ctx context.Context, name string, method v1alpha1.UpdateMethod) (rollout, error) {
	image, err := b.another(ctx)
	if err != nil {
		return rollout{}, err
	}
	return b.roll(ctx, name, change{method, image})
}

// addRollouts adds the times of rollouts of all units, and what they are to their ideal. What no unit could do
// without is known only where units were measured in the same run.
func (b *bench) addRollouts(s *subject, all []float64) error {
	figures := b.sheet.Figures()
	ideal := figures[unitAhead].Median + unitReplicas*figures[unitAlone].Median
	for _, took := range all {
		if err := b.addAll(s, sample{unitsTime, took}, sample{unitsRatio, took / ideal}); err != nil {
			return err
		}
		beyond, measured := figures[unitBeyond]
		if !measured {
			continue
		}
		drained := max(figures[unitOut].Median-beyond.Median, ms(defaultPropagation))
		if err := b.add(s, unitsParts, took/(unitReplicas*(drained+figures[unitBare].Median))); err != nil {
			return err
		}
	}
	return nil
}

// fourPods measures rollouts of units of one Pod, in place and by Recreate in turn.
func (b *bench) fourPods(ctx context.Context, s *subject) (err error) {
	const name = "bench-four"
	remove, err := b.serving(ctx, func(image string) *v1alpha1.ModelServing { return podServing(name, image) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for range fourSeries {
		for _, m := range []struct {
			method v1alpha1.UpdateMethod
			figure string
		}{{v1alpha1.UpdateInPlace, fourTime}, {v1alpha1.UpdateRecreate, fourRecreate}} {
			r, err := b.rollNext(ctx, name, m.method)
			if err != nil {
				return err
			}
			b.progress.note("  %s %s", m.figure, figure.Text(r.took()))
			if err := b.add(s, m.figure, r.took()); err != nil {
				return err
			}
		}
	}
	return nil
}
