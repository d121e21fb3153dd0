package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/bench/audit"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/images"
)

const (
	// padding and pullSpeed make a pull of about ten seconds.
	paddingMiB = 8
	pullSpeed  = paddingMiB << 20 / 10
	// leastPull is the least that such a pull takes; a shorter one was none.
	leastPull = 8 * time.Second
	// stopTimeout is how long an engine that is deaf to SIGTERM is given, in seconds.
	stopTimeout = 2
)

// bare patches the image of a Pod without our gate, as kubectl set image does.
func (b *bench) bare(ctx context.Context, s *subject) error {
	if err := b.desync(ctx, s); err != nil {
		return err
	}
	w, err := b.watch(ctx, s.spec.Name)
	if err != nil {
		return err
	}
	defer w.stop()
	begun := b.config.Clock.Now()
	if err := b.patchImage(ctx, s.spec.Name, b.images.to); err != nil {
		return err
	}
	// kubelet may never report the moment at which the old engine is gone.
	end, err := w.until(ctx, "Ready with another container", func(p *corev1.Pod) bool {
		return readiness.Ready(p) && engineOf(p).ContainerID != engineOf(w.pod).ContainerID
	})
	if err != nil {
		return err
	}
	return b.add(s, barePatch, ms(end.at.Sub(begun)))
}

// patchImage sets the image of the engine.
func (b *bench) patchImage(ctx context.Context, name, image string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"containers": []map[string]string{{"name": "engine", "image": image}},
	}})
	if err != nil {
		return err
	}
	if _, err := b.Core.CoreV1().Pods(cluster.Namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch pod %s: %w", name, err)
	}
	return nil
}

// An outcome is one in-place update that ended well.
type outcome struct {
	order *v1alpha1.InPlaceUpdate
	out   time.Duration // of service, as the watch saw it
}

// update updates the Pod in place.
func (b *bench) update(ctx context.Context, name, image string, edit func(*v1alpha1.InPlaceUpdate)) (outcome, error) {
	w, err := b.watch(ctx, name)
	if err != nil {
		return outcome{}, err
	}
	defer w.stop()
	u := cluster.Order(w.pod, map[string]string{"engine": image})
	if edit != nil {
		edit(u)
	}
	if _, err := b.Give(ctx, u); err != nil {
		return outcome{}, err
	}
	from, to, err := w.outOfService(ctx)
	if err != nil {
		if u, found := b.Update(ctx, name); found == nil {
			err = fmt.Errorf("%w; the update stands at %s (%s) %s", err, u.Status.Stage, u.Status.Reason, u.Status.Message)
		}
		return outcome{}, err
	}
	u, err = b.inService(ctx, name)
	if err != nil {
		return outcome{}, err
	}
	if u.Status.Timings == nil {
		return outcome{}, fmt.Errorf("update of %s has no timings", name)
	}
	return outcome{order: u, out: to.at.Sub(from.at)}, nil
}

// inPlace updates a Pod in place whose image is on the node, and counts what the agent writes.
func (b *bench) inPlace(ctx context.Context, s *subject) error {
	if err := b.desync(ctx, s); err != nil {
		return err
	}
	mark, err := audit.End(b.AuditLog())
	if err != nil {
		return err
	}
	defer mark.Close() //nolint:errcheck // only read
	got, err := b.update(ctx, s.spec.Name, b.images.to, nil)
	if err != nil {
		return err
	}
	t := got.order.Status.Timings
	if t.Drain == nil {
		return fmt.Errorf("update of %s has no time of its drain", s.spec.Name)
	}
	drained := got.order.Spec.Propagation() + time.Duration(*t.Drain)*time.Millisecond
	// What the agent writes when the update has ended is the update's as well.
	if err := b.rest(ctx, time.Second); err != nil {
		return err
	}
	writes, err := mark.Since()
	if err != nil {
		return err
	}
	s.say("drain %d, stop %s, start %s, load %s", *t.Drain, text(t.Stop), text(t.Start), text(t.Load))
	return b.addAll(s,
		sample{inPlaceOut, ms(got.out)}, sample{inPlaceBeyond, ms(got.out - drained)},
		sample{apiWrites, float64(countWrites(writes, s.spec.Name))})
}

func text(v *int64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

// countWrites counts what the agents wrote about a Pod and its order. Events have names of their
// own and Leases those of nodes.
func countWrites(writes []audit.Write, pod string) int {
	n := 0
	for _, w := range writes {
		if w.User == "system:serviceaccount:"+cluster.System+":pitstop-agent" &&
			w.Namespace == cluster.Namespace && w.Name == pod && (w.Resource == "pods" || w.Resource == "inplaceupdates") {
			n++
		}
	}
	return n
}

// recreate makes the same change the usual way.
func (b *bench) recreate(ctx context.Context, s *subject) error {
	if err := b.desync(ctx, s); err != nil {
		return err
	}
	w, err := b.watch(ctx, s.spec.Name)
	if err != nil {
		return err
	}
	defer w.stop()
	begun := b.config.Clock.Now()
	next := s.spec
	next.Image = b.images.to
	if err := b.Replace(ctx, next); err != nil {
		return err
	}
	end, err := w.until(ctx, "Ready as another Pod", func(p *corev1.Pod) bool { return p.UID != w.pod.UID && readiness.Ready(p) })
	if err != nil {
		return err
	}
	return b.add(s, recreateOut, ms(end.at.Sub(begun)))
}

// pull updates a Pod in place to an image that the node has to pull from a slow registry.
func (b *bench) pull(ctx context.Context, s *subject) (err error) {
	seed := b.config.Clock.Now().UnixNano() // another content than in any run before
	base, err := b.Builder.Engine(ctx, "bench-padded", nil)
	if err != nil {
		return err
	}
	padded, err := images.Padded(base, 1, paddingMiB, seed)
	if err != nil {
		return err
	}
	image, err := b.PushAs(ctx, fmt.Sprintf("engine:bench-padded-%d", seed), padded)
	if err != nil {
		return err
	}
	b.padded = image
	if err := b.Registry().Throttle(ctx, pullSpeed); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Registry().Throttle(context.WithoutCancel(ctx), 0)) }()
	got, err := b.update(ctx, s.spec.Name, image, nil)
	if err != nil {
		return err
	}
	took := got.order.Status.Timings.Prepare
	if took == nil || time.Duration(*took)*time.Millisecond < leastPull {
		return fmt.Errorf("the pull of %s took %s ms, want at least %s: it was not slow", image, text(took), leastPull)
	}
	return b.addAll(s, sample{pullOut, ms(got.out)}, sample{pullTime, float64(*took)})
}

// dropPadded removes the image of pull from the node, whose Pod must be gone.
func (b *bench) dropPadded(ctx context.Context) error {
	if b.padded == "" {
		return nil
	}
	rt, err := b.Runtime(b.near.Name)
	if err != nil {
		return err
	}
	defer rt.Close() //nolint:errcheck // only asked
	image := b.padded
	b.padded = ""
	return rt.RemoveImage(ctx, image)
}

// stubborn updates a Pod in place whose engine ignores SIGTERM.
func (b *bench) stubborn(ctx context.Context, s *subject) error {
	got, err := b.update(ctx, s.spec.Name, b.images.to, func(u *v1alpha1.InPlaceUpdate) {
		u.Spec.StopTimeoutSeconds = new(int32(stopTimeout))
	})
	if err != nil {
		return err
	}
	stop := got.order.Status.Timings.Stop
	if stop == nil || *stop < stopTimeout*1000 {
		return fmt.Errorf("the old engine of %s ended after %s ms: it was not deaf to SIGTERM", s.spec.Name, text(stop))
	}
	return b.add(s, stubbornStop, float64(*stop))
}
