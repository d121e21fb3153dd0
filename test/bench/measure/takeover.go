package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/bench/audit"
	"pitstop.dev/test/cluster"
)

const (
	takeovers = 5
	// takeoverLimit covers the time for which the Lease of a coordinator that is gone is respected.
	takeoverLimit = 2 * time.Minute
)

// coordinatorResume kills the coordinator in the middle of rollouts, and measures from the start of the next one
// to its first write that moves the rollout.
func (b *bench) coordinatorResume(ctx context.Context, s *subject) (err error) {
	const name = "bench-resume"
	remove, err := b.serving(ctx, func(image string) *v1alpha1.ModelServing { return podServing(name, image) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for range takeovers {
		took, err := b.takeover(ctx, name)
		if err != nil {
			return err
		}
		b.progress.note("  %s %.0f", resumeWork, ms(took))
		if err := b.add(s, resumeWork, ms(took)); err != nil {
			return err
		}
	}
	return nil
}

// takeover freezes the coordinator while a unit drains, so that the unit is drained and waits for its permit when
// the coordinator is killed: how long a drain takes is no part of the figure.
func (b *bench) takeover(ctx context.Context, name string) (time.Duration, error) {
	leader, err := b.freshCoordinator(ctx)
	if err != nil {
		return 0, err
	}
	p, err := coordinatorProcess(leader)
	if err != nil {
		return 0, err
	}
	image, err := b.another(ctx)
	if err != nil {
		return 0, err
	}
	mark, err := audit.End(b.AuditLog())
	if err != nil {
		return 0, err
	}
	defer mark.Close() //nolint:errcheck // only read
	if err := b.declareChange(ctx, name, change{v1alpha1.UpdateInPlace, image}); err != nil {
		return 0, err
	}
	pod, err := b.awaitDraining(ctx, name)
	if err != nil {
		return 0, err
	}
	if err := b.killOnceDrained(ctx, p.PID, pod); err != nil {
		return 0, err
	}
	if err := b.complete(ctx, name); err != nil {
		return 0, err
	}
	started, err := b.startOf(ctx, leader, "coordinator")
	if err != nil {
		return 0, err
	}
	writes, err := mark.Since()
	if err != nil {
		return 0, err
	}
	first, ok := firstMove(writes, started)
	if !ok {
		return 0, fmt.Errorf("none of %d writes after %v moved the rollout", len(writes), started)
	}
	return first.Sub(started), b.rest(ctx, settle)
}

func (b *bench) killOnceDrained(ctx context.Context, pid int, pod string) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return fmt.Errorf("freeze the coordinator: %w", err)
	}
	_, err := b.WaitStage(ctx, pod, v1alpha1.StageDrained)
	if killed := unix.Kill(pid, unix.SIGKILL); killed != nil {
		err = errors.Join(err, fmt.Errorf("kill the coordinator: %w", killed))
	}
	return err
}

// firstMove returns when the coordinator first wrote something after t that moves a rollout: what units may do, an
// order to an agent, or a Pod. Statuses, events and Leases do not count, nor what was refused.
func firstMove(writes []audit.Write, t time.Time) (time.Time, bool) {
	moves := []string{"servinggroups", "inplaceupdates", "pods"}
	for _, w := range writes {
		if w.User == coordinatorUser && w.Code < 300 && w.Subresource == "" && slices.Contains(moves, w.Resource) && w.At.After(t) {
			return w.At, true
		}
	}
	return time.Time{}, false
}

// freshCoordinator replaces the coordinator's Pod, since a container that was killed before is started again
// after a back-off only, and waits until the new one leads.
func (b *bench) freshCoordinator(ctx context.Context) (*corev1.Pod, error) {
	old, err := b.coordinatorPod(ctx)
	if err != nil {
		return nil, err
	}
	pods := b.Core.CoreV1().Pods(cluster.System)
	if err := pods.Delete(ctx, old.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))}); err != nil {
		return nil, fmt.Errorf("delete the coordinator: %w", err)
	}
	var fresh *corev1.Pod
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, takeoverLimit, true, func(ctx context.Context) (bool, error) {
		if fresh, err = b.coordinatorPod(ctx); err != nil || fresh.UID == old.UID || !readiness.Ready(fresh) {
			return false, nil //nolint:nilerr // looked for again
		}
		lease, err := b.Core.CoordinationV1().Leases(cluster.System).Get(ctx, cluster.Coordinator, metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == string(fresh.UID), nil
	})
	if err != nil {
		return nil, fmt.Errorf("no other coordinator leads: %w", err)
	}
	return fresh, nil
}

// awaitDraining returns the Pod of a unit that drains.
func (b *bench) awaitDraining(ctx context.Context, name string) (string, error) {
	pod := ""
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var orders v1alpha1.InPlaceUpdateList
		if err := b.Objects.List(ctx, &orders, client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.LabelModelServing: name}); err != nil {
			return false, err
		}
		for _, o := range orders.Items {
			if o.Status.Attempt == o.Spec.Attempt && o.Spec.Permit == v1alpha1.PermitDrain && o.Status.Stage != v1alpha1.StageDrained {
				pod = o.Name
			}
		}
		return pod != "", nil
	})
	if err != nil {
		return "", fmt.Errorf("no unit of %s drains: %w", name, err)
	}
	return pod, nil
}
