package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/bench/proc"
	"pitstop.dev/test/cluster"
)

const (
	manyGroups      = 1250
	manyPodsOfGroup = 8
	manyPods        = manyGroups * manyPodsOfGroup
	manyLimit       = 20 * time.Minute
)

// coordinatorIdle looks at the coordinator's memory as it is.
func (b *bench) coordinatorIdle(ctx context.Context, s *subject) error {
	idle, err := b.coordinatorMemoryNow(ctx)
	if err != nil {
		return err
	}
	return b.add(s, coordinatorRSS, idle.NowMiB)
}

// coordinatorMemory lets the coordinator make 10,000 Pods that no scheduler takes, and looks at its
// memory then.
func (b *bench) coordinatorMemory(ctx context.Context, s *subject) (err error) {
	const name = "bench-memory"
	r := rollable{name: name, groups: manyGroups, unavailable: 1}
	ms := r.serving()
	ms.Spec.SchedulerName = "nobody"
	ms.Spec.Template.Roles[0].Replicas = new(int32(manyPodsOfGroup))
	defer func() { err = errors.Join(err, b.removeMany(ctx, ms)) }()
	if err := b.Admit(ctx, func() error { return b.Objects.Create(ctx, ms) }); err != nil {
		return fmt.Errorf("create modelserving %s: %w", name, err)
	}
	if err := b.awaitPodsOf(ctx, name, manyPods); err != nil {
		return err
	}
	if err := b.rest(ctx, 15*time.Second); err != nil { // status and garbage collection follow
		return err
	}
	full, err := b.coordinatorMemoryNow(ctx)
	if err != nil {
		return err
	}
	return b.add(s, coordinatorFull, full.NowMiB)
}

// removeMany removes the ModelServing and waits for longer than is right for a few Pods.
func (b *bench) removeMany(ctx context.Context, ms *v1alpha1.ModelServing) error {
	if err := b.Objects.Delete(ctx, ms); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete modelserving %s: %w", ms.Name, err)
	}
	return errors.Join(b.awaitPodsOf(ctx, ms.Name, 0), b.RemoveServing(ctx, ms.Name))
}

// awaitPodsOf waits until the ModelServing has that many Pods.
func (b *bench) awaitPodsOf(ctx context.Context, name string, want int) error {
	n := 0
	err := wait.PollUntilContextTimeout(ctx, 2*time.Second, manyLimit, true, func(ctx context.Context) (bool, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := b.Objects.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.LabelModelServing: name}); err != nil {
			return false, err
		}
		if len(list.Items)/1000 != n/1000 {
			b.progress.note("  coordinator: %d Pods of %d", len(list.Items), want)
		}
		n = len(list.Items)
		return n == want, nil
	})
	if err != nil {
		return fmt.Errorf("%d Pods, want %d: %w", n, want, err)
	}
	return nil
}

// coordinatorMemoryNow is the memory of the coordinator's process.
func (b *bench) coordinatorMemoryNow(ctx context.Context) (proc.Memory, error) {
	pod, err := b.coordinatorPod(ctx)
	if err != nil {
		return proc.Memory{}, err
	}
	p, err := coordinatorProcess(pod)
	if err != nil {
		return proc.Memory{}, err
	}
	return p.Memory()
}

// coordinatorPod is the Pod of the only coordinator.
func (b *bench) coordinatorPod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := b.Core.CoreV1().Pods(cluster.System).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=coordinator"})
	if err != nil {
		return nil, fmt.Errorf("the coordinator's Pod: %w", err)
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("%d coordinators run, want 1", len(pods.Items))
	}
	return &pods.Items[0], nil
}

func coordinatorProcess(pod *corev1.Pod) (proc.Process, error) {
	return processOf(pod, "pitstop-coordin") // the kernel keeps 15 letters of a name
}
