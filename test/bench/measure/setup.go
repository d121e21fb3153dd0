package measure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/lab"
)

const (
	// label marks every Pod of a run.
	label = "pitstop-bench"
	// settle is how long a Pod is left alone before something is done to it: kubelet acts at once
	// only on a Pod that it has not just synced.
	settle = 2500 * time.Millisecond
	// readyLimit bounds the wait for many Pods.
	readyLimit = 8 * time.Minute
)

// An imageSet are the references that a run changes between.
type imageSet struct{ from, to, deaf string }

// prepare pushes the images, has them on both nodes, and removes what a run before left.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.cleanUp(ctx); err != nil {
		return err
	}
	for _, image := range []struct {
		to  *string
		tag string
		env map[string]string
	}{
		{&b.images.from, "bench-from", nil},
		{&b.images.to, "bench-to", nil},
		{&b.images.deaf, "bench-deaf", map[string]string{"PITSTOP_ENGINE_IGNORE_SIGTERM": "true"}},
	} {
		var err error
		if *image.to, err = b.Engine(ctx, image.tag, image.env); err != nil {
			return err
		}
		for _, n := range b.Nodes() {
			if err := b.present(ctx, n, *image.to); err != nil {
				return err
			}
		}
	}
	ds, err := b.Core.AppsV1().DaemonSets(cluster.System).Get(ctx, cluster.DaemonSet, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	b.generation = ds.Generation
	return nil
}

// present has the image on the node.
func (b *bench) present(ctx context.Context, n lab.Node, image string) error {
	rt, err := b.Runtime(n.Name)
	if err != nil {
		return err
	}
	defer rt.Close() //nolint:errcheck // only asked
	return rt.Pull(ctx, image, nil)
}

// sameAgents reports an error if the agents were replaced by other ones since prepare: what was
// measured before and after is then not the same thing.
func (b *bench) sameAgents(ctx context.Context) error {
	ds, err := b.Core.AppsV1().DaemonSets(cluster.System).Get(ctx, cluster.DaemonSet, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	if ds.Generation != b.generation {
		return errors.New("somebody installed another agent during the run: its figures are of two agents")
	}
	return nil
}

// cleanUp removes all Pods and ModelServings of the run and lifts the registry's limit, also after the end of ctx.
func (b *bench) cleanUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyLimit)
	defer cancel()
	return errors.Join(b.Registry().Throttle(ctx, 0), b.removeService(ctx), b.removeAll(ctx), b.removeServings(ctx), b.dropPadded(ctx))
}

// removeServings removes the ModelServings that a run before has left.
func (b *bench) removeServings(ctx context.Context) error {
	var list v1alpha1.ModelServingList
	if err := b.Objects.List(ctx, &list, client.InNamespace(cluster.Namespace)); err != nil {
		return fmt.Errorf("modelservings: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if ms := &list.Items[i]; strings.HasPrefix(ms.Name, "bench-") {
			errs = append(errs, b.removeMany(ctx, ms))
		}
	}
	return errors.Join(errs...)
}

func (b *bench) pods() interface {
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	List(context.Context, metav1.ListOptions) (*corev1.PodList, error)
} {
	return b.Core.CoreV1().Pods(cluster.Namespace)
}

// removeAll removes all Pods of the run and waits until they are gone.
func (b *bench) removeAll(ctx context.Context) error {
	mine := metav1.ListOptions{LabelSelector: label}
	if err := b.pods().DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}, mine); err != nil {
		return fmt.Errorf("delete pods: %w", err)
	}
	return b.awaitPods(ctx, 200*time.Millisecond, func(pods []corev1.Pod) bool { return len(pods) == 0 })
}

// awaitPods waits until all Pods of the run together are as wanted.
func (b *bench) awaitPods(ctx context.Context, every time.Duration, ok func([]corev1.Pod) bool) error {
	var last []corev1.Pod
	err := wait.PollUntilContextTimeout(ctx, every, readyLimit, true, func(ctx context.Context) (bool, error) {
		list, err := b.pods().List(ctx, metav1.ListOptions{LabelSelector: label, ResourceVersion: "0"})
		if err != nil {
			return false, nil //nolint:nilerr // tried again
		}
		last = list.Items
		return ok(last), nil
	})
	if err != nil {
		return fmt.Errorf("pods did not get there; %d there, %d Ready: %w", len(last), ready(last), err)
	}
	return nil
}

func ready(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if readiness.Ready(&pods[i]) {
			n++
		}
	}
	return n
}

// runAll makes the Pods and waits until all are Ready and settled.
func (b *bench) runAll(ctx context.Context, subjects []*subject) error {
	for _, s := range subjects {
		if _, err := b.Create(ctx, s.spec); err != nil {
			return err
		}
	}
	if err := b.awaitPods(ctx, 200*time.Millisecond, func(pods []corev1.Pod) bool { return ready(pods) == len(subjects) }); err != nil {
		return err
	}
	return b.rest(ctx, settle)
}

// rest does nothing for a while.
func (b *bench) rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", ctx.Err())
	case <-b.config.Clock.After(d):
		return nil
	}
}

// desync rests for a part of a second that is another one in each round: kubelet looks at its
// containers once a second, and the rounds are not all to begin at the same point of that.
func (b *bench) desync(ctx context.Context, s *subject) error {
	return b.rest(ctx, time.Duration(s.round*370%1000)*time.Millisecond)
}

func (b *bench) spec(node, image string) cluster.PodSpec {
	return cluster.PodSpec{Node: node, Image: image, Labels: map[string]string{label: "pod"}}
}

func (b *bench) gatedSpec() cluster.PodSpec { return b.spec(b.near.Name, b.images.from) }

func (b *bench) remoteSpec() cluster.PodSpec { return b.spec(b.far.Name, b.images.from) }

func (b *bench) bareSpec() cluster.PodSpec {
	s := b.gatedSpec()
	s.Ungated = true
	return s
}

func (b *bench) stubbornSpec() cluster.PodSpec {
	s := b.spec(b.near.Name, b.images.deaf)
	s.Grace = 120
	return s
}

// addAll adds samples in the order given.
func (b *bench) addAll(s *subject, samples ...sample) error {
	for _, one := range samples {
		if err := b.add(s, one.name, one.value); err != nil {
			return err
		}
	}
	return nil
}

type sample struct {
	name  string
	value float64
}
