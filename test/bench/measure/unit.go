package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/bench/figure"
	"pitstop.dev/test/cluster"
)

const (
	unitPods   = 3
	unitRounds = 9

	unitReplicas   = 8
	unitSeries     = 3 // rollouts of all units
	unitsAlone     = 2 // rollouts of one unit before each of them
	fourReplicas   = 4
	fourSeries     = 3
	fourPropagates = 2 // seconds
)

// unitServing are so many units of three Pods that are updated in place one after the other.
func unitServing(name string, replicas int32, image string) *v1alpha1.ModelServing {
	return cluster.ServingSpec{
		Name: name, Replicas: replicas, Workers: 1, Prefill: image, Decode: image,
		Strategy: v1alpha1.RolloutStrategy{
			UpdateMethod: v1alpha1.UpdateInPlace,
			Drain:        v1alpha1.Drain{Mode: v1alpha1.DrainEngineMetrics, TimeoutSeconds: new(int32(60))},
		},
	}.Serving()
}

// podServing are four units of one Pod.
func podServing(name, image string) *v1alpha1.ModelServing {
	ms := unitServing(name, fourReplicas, image)
	ms.Spec.RolloutStrategy.InPlace.PropagationSeconds = new(int32(fourPropagates))
	ms.Spec.Template.Roles = []v1alpha1.Role{{Name: "engine", EntryTemplate: ms.Spec.Template.Roles[1].EntryTemplate}}
	return ms
}

// declare makes the ModelServing and waits until it serves and has settled.
func (b *bench) declare(ctx context.Context, ms *v1alpha1.ModelServing) error {
	if err := b.Admit(ctx, func() error { return b.Objects.Create(ctx, ms) }); err != nil {
		return fmt.Errorf("create modelserving %s: %w", ms.Name, err)
	}
	if err := b.complete(ctx, ms.Name); err != nil {
		return err
	}
	return b.rest(ctx, settle)
}

// another is an image that nothing has run yet, on both nodes: kubelet would wait with CrashLoopBackOff
// where a Pod came back to one.
func (b *bench) another(ctx context.Context) (string, error) {
	b.made++
	image, err := b.Engine(ctx, fmt.Sprintf("bench-unit-%d", b.made), nil)
	if err != nil {
		return "", err
	}
	for _, n := range b.Nodes() {
		if err := b.present(ctx, n, image); err != nil {
			return "", err
		}
	}
	return image, nil
}

// A change is one rollout of a ModelServing.
type change struct {
	method v1alpha1.UpdateMethod
	image  string
}

// A rollout is one that is complete.
type rollout struct {
	begun, done time.Time
	frames      []frame
}

func (r rollout) took() float64 { return ms(r.done.Sub(r.begun)) }

// roll declares the change, and records what happens until all is as declared.
func (b *bench) roll(ctx context.Context, name string, c change) (rollout, error) {
	t, err := b.record(ctx, name)
	if err != nil {
		return rollout{}, err
	}
	r := rollout{begun: b.config.Clock.Now()}
	if err = b.declareChange(ctx, name, c); err == nil {
		err = b.complete(ctx, name)
	}
	r.done = b.config.Clock.Now()
	r.frames = t.end()
	if err != nil {
		return r, err
	}
	return r, b.rest(ctx, settle)
}

func (b *bench) declareChange(ctx context.Context, name string, c change) error {
	return b.Edit(ctx, name, func(s *v1alpha1.ModelServingSpec) {
		s.RolloutStrategy.UpdateMethod = c.method
		for i := range s.Template.Roles {
			r := &s.Template.Roles[i]
			r.EntryTemplate.Spec.Containers[0].Image = c.image
			if r.WorkerTemplate != nil {
				r.WorkerTemplate.Spec.Containers[0].Image = c.image
			}
		}
	})
}

// unit measures how long one unit is out of service, and what kubelet takes for Pods like its own.
func (b *bench) unit(ctx context.Context, s *subject) (err error) {
	const name = "bench-unit-of-three"
	remove, err := b.serving(ctx, func(image string) *v1alpha1.ModelServing { return unitServing(name, 1, image) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for n := range unitRounds {
		if err := b.unitRound(ctx, name, n); err != nil {
			return err
		}
	}
	figures := b.sheet.Figures()
	s.say("%s %s, %s %s", unitOver, figure.Text(figures[unitOver].Median), unitRecreate, figure.Text(figures[unitRecreate].Median))
	return nil
}

// unitRound takes the samples of one round; every second one recreates the unit as well, for comparison.
func (b *bench) unitRound(ctx context.Context, name string, n int) error {
	image, err := b.another(ctx)
	if err != nil {
		return err
	}
	bare, err := b.slowestBare(ctx, name, image)
	if err != nil {
		return err
	}
	if err := b.desync(ctx, &subject{round: n}); err != nil {
		return err
	}
	r, err := b.roll(ctx, name, change{v1alpha1.UpdateInPlace, image})
	if err != nil {
		return err
	}
	out, err := outageOf(r.frames, unitPods)
	if err != nil {
		return err
	}
	drained, err := b.drainedAt(ctx, out)
	if err != nil {
		return err
	}
	beyond := ms(out.to.Sub(drained))
	b.progress.note("  unit %d/%d: slowest bare patch %.0f ms; in place %.0f beyond the drain of %.0f; the last of its Pods, one after the other: %s",
		n+1, unitRounds, bare, beyond, ms(drained.Sub(out.from)), stepsOf(r.frames, out, image))
	err = b.addAll(nil, sample{unitBare, bare}, sample{unitOut, ms(out.to.Sub(out.from))}, sample{unitBeyond, beyond}, sample{unitOver, beyond - bare})
	if err != nil || n%2 == 1 {
		return err
	}
	return b.recreateUnit(ctx, name)
}

func (b *bench) recreateUnit(ctx context.Context, name string) error {
	r, err := b.rollNext(ctx, name, v1alpha1.UpdateRecreate)
	if err != nil {
		return err
	}
	out, err := outageOf(r.frames, unitPods)
	if err != nil {
		return err
	}
	return b.add(nil, unitRecreate, ms(out.to.Sub(out.from)))
}

// drainedAt returns when the last Pod of the outage was drained: each has its propagation delay and its drain
// from the moment on that it left traffic.
func (b *bench) drainedAt(ctx context.Context, out outage) (time.Time, error) {
	var last time.Time
	for name, left := range out.left {
		u, err := b.Update(ctx, name)
		if err != nil {
			return last, err
		}
		at := left.Add(u.Spec.Propagation())
		if t := u.Status.Timings; t != nil && t.Drain != nil {
			at = at.Add(time.Duration(*t.Drain) * time.Millisecond)
		}
		if at.After(last) {
			last = at
		}
	}
	if !last.Before(out.to) {
		return last, fmt.Errorf("a drain ended at %v, and the unit was back in service at %v", last, out.to)
	}
	return last, nil
}

// slowestBare patches the images of Pods like those of the unit, on the same nodes, all at once, and returns
// how long the slowest took to be Ready.
func (b *bench) slowestBare(ctx context.Context, name, image string) (float64, error) {
	pods, err := b.ServingPods(ctx, name)
	if err != nil {
		return 0, err
	}
	var subjects []*subject
	for i := range pods {
		spec := b.spec(pods[i].Spec.NodeName, b.images.from)
		spec.Name, spec.Ungated = fmt.Sprintf("bench-unit-bare-%d", i), true
		subjects = append(subjects, &subject{spec: spec})
	}
	if err := b.runAll(ctx, subjects); err != nil {
		return 0, err
	}
	slowest, err := b.patchAll(ctx, subjects, image)
	return ms(slowest), errors.Join(err, b.removeAll(ctx))
}

func (b *bench) patchAll(ctx context.Context, subjects []*subject, image string) (slowest time.Duration, err error) {
	var watches []*watch
	var begun []time.Time
	for _, s := range subjects {
		w, err := b.watch(ctx, s.spec.Name)
		if err != nil {
			return 0, err
		}
		defer w.stop()
		watches = append(watches, w)
	}
	for _, s := range subjects {
		begun = append(begun, b.config.Clock.Now())
		if err := b.patchImage(ctx, s.spec.Name, image); err != nil {
			return 0, err
		}
	}
	for i, w := range watches {
		end, err := w.until(ctx, "Ready with another container", func(p *corev1.Pod) bool {
			return readiness.Ready(p) && engineOf(p).ContainerID != engineOf(w.pod).ContainerID
		})
		if err != nil {
			return 0, err
		}
		slowest = max(slowest, end.at.Sub(begun[i]))
	}
	return slowest, nil
}
