//go:build lab

package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/test/bench/proc"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/lab"
)

// A victim is killed, and started again by whoever looks after it.
type victim struct {
	name string
	// kill kills it; what of it is on a node, on that of the Pod.
	kill func(ctx context.Context, pod *corev1.Pod) error
}

func victims(r *cluster.Router) []victim {
	return []victim{
		{"coordinator", func(ctx context.Context, _ *corev1.Pod) error {
			return killIn(ctx, "coordinator", "", "pitstop-coordin") // the kernel keeps 15 letters of a name
		}},
		{"agent", func(ctx context.Context, pod *corev1.Pod) error {
			return killIn(ctx, "agent", pod.Spec.NodeName, "pitstop-agent")
		}},
		{"kubelet", func(ctx context.Context, pod *corev1.Pod) error {
			node, err := nodeOf(pod)
			return errors.Join(err, node.KillKubelet(ctx), node.StartKubelet(ctx))
		}},
		{"containerd", func(ctx context.Context, pod *corev1.Pod) error {
			node, err := nodeOf(pod)
			return errors.Join(err, node.KillContainerd(ctx), node.StartContainerd(ctx))
		}},
		{"router", func(ctx context.Context, _ *corev1.Pod) error {
			return errors.Join(r.Kill(ctx), r.Start(ctx))
		}},
	}
}

func nodeOf(pod *corev1.Pod) (lab.Node, error) {
	for _, n := range shared.Nodes() {
		if n.Name == pod.Spec.NodeName {
			return n, nil
		}
	}
	return shared.Nodes()[0], fmt.Errorf("no node %s", pod.Spec.NodeName)
}

// ours are the Pods of a component of Pitstop that run, on one node or on all.
func ours(ctx context.Context, component, node string) ([]corev1.Pod, error) {
	list, err := shared.Core.CoreV1().Pods(cluster.System).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=" + component,
	})
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && len(pod.Status.ContainerStatuses) == 1 && (node == "" || pod.Spec.NodeName == node) {
			out = append(out, pod)
		}
	}
	return out, nil
}

// killIn kills the process in the Pod of a component. Kubelet starts it again.
func killIn(ctx context.Context, component, node, process string) error {
	pods, err := ours(ctx, component, node)
	if err != nil {
		return err
	}
	if len(pods) != 1 {
		return fmt.Errorf("%d Pods of component %s run on node %q, want 1", len(pods), component, node)
	}
	_, id, _ := strings.Cut(pods[0].Status.ContainerStatuses[0].ContainerID, "://")
	p, err := proc.Of("/proc", id, process)
	if err != nil {
		return err
	}
	return unix.Kill(p.PID, unix.SIGKILL)
}

// replaceKilled gives each Pod of Pitstop in which something was killed to a new one: kubelet would start
// the next that is killed there after a pause only.
func replaceKilled(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, component := range []string{"agent", "coordinator"} {
		pods, err := ours(ctx, component, "")
		if err != nil {
			t.Error(err)
		}
		for _, pod := range pods {
			if pod.Status.ContainerStatuses[0].RestartCount == 0 {
				continue
			}
			if err := shared.Core.CoreV1().Pods(cluster.System).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	if err := errors.Join(shared.WaitAgents(ctx), shared.WaitCoordinator(ctx)); err != nil {
		t.Error(err)
	}
}
