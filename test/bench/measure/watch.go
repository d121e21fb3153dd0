package measure

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
)

// watchLimit bounds the wait for anything that a watch is to show.
const watchLimit = 2 * time.Minute

// A sighting is a version of a Pod and when the watch showed it.
type sighting struct {
	at  time.Time
	pod *corev1.Pod
}

// A watch shows every version of one Pod from now on. Sightings are stamped as they come, also
// while nobody reads them.
type watch struct {
	pod  *corev1.Pod // as it was at the begin
	seen chan sighting
	stop func()
}

func (b *bench) watch(ctx context.Context, name string) (*watch, error) {
	pod, err := b.Pod(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	source, err := b.Core.CoreV1().Pods(cluster.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(), ResourceVersion: pod.ResourceVersion,
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch pod %s: %w", name, err)
	}
	w := &watch{pod: pod, seen: make(chan sighting, 256)} // more versions than a Pod has in one measurement
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.seen)
		for event := range source.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok {
				select {
				case w.seen <- sighting{at: b.config.Clock.Now(), pod: p}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	w.stop = func() {
		cancel()
		source.Stop()
		<-done
	}
	return w, nil
}

// until returns the first sighting from now on that is as wanted.
func (w *watch) until(ctx context.Context, what string, ok func(*corev1.Pod) bool) (sighting, error) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	last := w.pod
	for {
		select {
		case <-ctx.Done():
			return sighting{}, fmt.Errorf("pod %s was not seen %s; conditions %+v: %w", w.pod.Name, what, last.Status.Conditions, ctx.Err())
		case s, open := <-w.seen:
			if !open {
				return sighting{}, fmt.Errorf("the watch of pod %s ended before it was seen %s", w.pod.Name, what)
			}
			if last = s.pod; ok(s.pod) {
				return s, nil
			}
		}
	}
}

// outOfService returns when the Pod was seen to be not Ready and then Ready again.
func (w *watch) outOfService(ctx context.Context) (from, to sighting, err error) {
	if from, err = w.until(ctx, "not Ready", func(p *corev1.Pod) bool { return !readiness.Ready(p) }); err != nil {
		return from, to, err
	}
	if to, err = w.until(ctx, "Ready again", readiness.Ready); err != nil {
		return from, to, err
	}
	if engineOf(to.pod).ContainerID == engineOf(w.pod).ContainerID {
		return from, to, fmt.Errorf("pod %s was Ready while its old engine ran and its gate was %v", w.pod.Name, readiness.GateOf(to.pod))
	}
	return from, to, nil
}

func engineOf(pod *corev1.Pod) corev1.ContainerStatus {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == "engine" {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// inService waits for the good end of an order.
func (b *bench) inService(ctx context.Context, name string) (*v1alpha1.InPlaceUpdate, error) {
	u, err := b.WaitStage(ctx, name, v1alpha1.StageInService, v1alpha1.StageRefused, v1alpha1.StageCancelled, v1alpha1.StageFailed)
	if err != nil {
		return nil, err
	}
	if u.Status.Stage != v1alpha1.StageInService {
		return nil, fmt.Errorf("update of %s ended %s (%s): %s", name, u.Status.Stage, u.Status.Reason, u.Status.Message)
	}
	return u, nil
}
