package measure

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/bench/figure"
	"pitstop.dev/test/bench/proc"
	"pitstop.dev/test/cluster"
)

const (
	fullNode   = 110 // Pods on one node: what kubelet takes by default
	rssUpdates = 4   // of them updated before the agent is looked at
	rssSamples = 12
	rssEvery   = 3 * time.Second
	agentLimit = 2 * time.Minute
)

// resume kills the agent of a node between drain and swap, lets the update go on while the agent
// is down, and measures from the start of the next agent to its patch of the Pod.
func (b *bench) resume(ctx context.Context, s *subject) error {
	agent, err := b.freshAgent(ctx)
	if err != nil {
		return err
	}
	name := s.spec.Name
	pod, err := b.Pod(ctx, name)
	if err != nil {
		return err
	}
	u := cluster.Order(pod, map[string]string{"engine": b.images.to})
	u.Spec.Permit = v1alpha1.PermitDrain
	if _, err := b.Give(ctx, u); err != nil {
		return err
	}
	if _, err := b.WaitStage(ctx, name, v1alpha1.StageDrained); err != nil {
		return err
	}
	p, err := agentProcess(agent)
	if err != nil {
		return err
	}
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill the agent: %w", err)
	}
	if err := b.permitServe(ctx, name); err != nil {
		return err
	}
	if _, err := b.inService(ctx, name); err != nil {
		return err
	}
	if pod, err = b.Pod(ctx, name); err != nil {
		return err
	}
	mark := v1alpha1.PatchMarkOf(pod)
	if mark.Token == "" {
		return fmt.Errorf("pod %s does not say when it was patched", name)
	}
	started, err := b.startOf(ctx, agent, "agent")
	if err != nil {
		return err
	}
	return b.add(s, resumeTime, ms(mark.At.Sub(started)))
}

// permitServe raises the permit of the order.
func (b *bench) permitServe(ctx context.Context, name string) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		u, err := b.Update(ctx, name)
		if err != nil {
			return false, err
		}
		u.Spec.Permit = v1alpha1.PermitServe
		err = b.Updates.Put().Namespace(u.Namespace).Resource("inplaceupdates").Name(name).Body(u).Do(ctx).Error()
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// freshAgent replaces the agent's Pod on the far node: a container that was killed before is
// started again after a back-off only.
func (b *bench) freshAgent(ctx context.Context) (*corev1.Pod, error) {
	old, err := b.agent(ctx)
	if err != nil {
		return nil, err
	}
	pods := b.Core.CoreV1().Pods(cluster.System)
	if err := pods.Delete(ctx, old.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))}); err != nil {
		return nil, fmt.Errorf("delete the agent: %w", err)
	}
	var fresh *corev1.Pod
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, agentLimit, true, func(ctx context.Context) (bool, error) {
		fresh, err = b.agent(ctx)
		return err == nil && fresh.UID != old.UID && readiness.Ready(fresh), nil
	})
	if err != nil {
		return nil, fmt.Errorf("no other agent on %s: %w", b.far.Name, err)
	}
	return fresh, nil
}

// agent returns the agent's Pod on the far node.
func (b *bench) agent(ctx context.Context) (*corev1.Pod, error) {
	list, err := b.Core.CoreV1().Pods(cluster.System).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=agent", FieldSelector: "spec.nodeName=" + b.far.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("agent of %s: %w", b.far.Name, err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("no agent on %s", b.far.Name)
}

func agentProcess(pod *corev1.Pod) (proc.Process, error) { return processOf(pod, "pitstop-agent") }

// processOf is the process of that name in the Pod's only container.
func processOf(pod *corev1.Pod, name string) (proc.Process, error) {
	if len(pod.Status.ContainerStatuses) != 1 {
		return proc.Process{}, fmt.Errorf("pod %s has no container", pod.Name)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return proc.Of("/proc", id, name)
}

// startOf returns when the runtime started the Pod's container for the second time.
func (b *bench) startOf(ctx context.Context, pod *corev1.Pod, container string) (time.Time, error) {
	rt, err := b.Runtime(pod.Spec.NodeName)
	if err != nil {
		return time.Time{}, err
	}
	defer rt.Close() //nolint:errcheck // only asked
	seen, err := rt.Pod(ctx, string(pod.UID))
	if err != nil {
		return time.Time{}, err
	}
	c, ok := seen.Newest(container)
	if !ok || c.RestartCount != 1 {
		return time.Time{}, fmt.Errorf("the killed %s was not started again exactly once", container)
	}
	return c.StartedAt, nil
}

// fill returns as many Pods as fill the far node.
func (b *bench) fill(prefix string) []*subject {
	var subjects []*subject
	for i := range fullNode {
		spec := b.remoteSpec()
		spec.Name = fmt.Sprintf("%s-%03d", prefix, i)
		subjects = append(subjects, &subject{spec: spec})
	}
	return subjects
}

// memory fills a node with Pods in service, updates some, and looks at its agent for a while.
func (b *bench) memory(ctx context.Context, s *subject) error {
	subjects := b.fill("bench-memory")
	if err := b.runAll(ctx, subjects); err != nil {
		return err
	}
	for _, one := range subjects[:rssUpdates] {
		if _, err := b.update(ctx, one.spec.Name, b.images.to, nil); err != nil {
			return err
		}
	}
	agent, err := b.agent(ctx)
	if err != nil {
		return err
	}
	p, err := agentProcess(agent)
	if err != nil {
		return err
	}
	for range rssSamples {
		if err := b.rest(ctx, rssEvery); err != nil {
			return err
		}
		m, err := p.Memory()
		if err != nil {
			return err
		}
		if err := b.addAll(nil, sample{agentRSS, m.NowMiB}, sample{agentPeak, m.PeakMiB}); err != nil {
			return err
		}
	}
	s.say("%s %s", agentRSS, figure.Text(b.sheet.Figures()[agentRSS].Median))
	return b.removeAll(ctx)
}
