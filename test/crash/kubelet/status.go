package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/cri"
)

// podIP is the address of every Pod.
const podIP = "127.0.0.1"

// report writes the Pod's status if it is another one than was said last, as kubelet's status
// manager does: what others wrote there is theirs.
func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, seen cri.Pod) (time.Duration, error) {
	now := k.Clock.Now()
	k.mu.Lock()
	last := k.said[pod.UID]
	k.mu.Unlock()
	next, again := statusOf(pod, seen, now)
	next.Conditions = conditions(pod, next.ContainerStatuses)
	keepTimes(next.Conditions, last.Conditions, metav1.NewTime(now).Rfc3339Copy())
	if equality.Semantic.DeepEqual(last, next) {
		return again, nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": next})
	if err != nil {
		return 0, fmt.Errorf("status: %w", err)
	}
	_, err = k.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return 0, errGone
	case err != nil:
		return 0, fmt.Errorf("status: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.said[pod.UID] = next
	return again, nil
}

// statusOf is the Pod's status without conditions, and the time after which it will be another.
func statusOf(pod *corev1.Pod, seen cri.Pod, now time.Time) (s corev1.PodStatus, again time.Duration) {
	s = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}}}
	again = relist
	for _, spec := range pod.Spec.Containers {
		c, ok := seen.Newest(spec.Name)
		if !ok {
			continue
		}
		one := corev1.ContainerStatus{
			Name: spec.Name, Image: spec.Image, ImageID: c.ImageID, ContainerID: "containerd://" + c.ID,
			RestartCount: int32(c.RestartCount), //nolint:gosec // a small number
		}
		if c.State == cri.Running {
			one.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.StartedAt).Rfc3339Copy()}
			if left := c.StartedAt.Add(loading).Sub(now); left > 0 {
				again = min(again, left)
			} else {
				one.Ready = true
			}
		} else {
			one.State.Terminated = &corev1.ContainerStateTerminated{ContainerID: one.ContainerID, ExitCode: c.ExitCode}
		}
		s.ContainerStatuses = append(s.ContainerStatuses, one)
	}
	return s, again
}

// conditions are those that kubelet writes, in the words of kubelet 1.37
// (pkg/kubelet/status/generate.go).
func conditions(pod *corev1.Pod, statuses []corev1.ContainerStatus) []corev1.PodCondition {
	containers := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	var unready []string
	for _, c := range pod.Spec.Containers {
		ready := false
		for _, s := range statuses {
			ready = ready || s.Name == c.Name && s.Ready
		}
		if !ready {
			unready = append(unready, c.Name)
		}
	}
	if len(unready) > 0 {
		containers.Status, containers.Reason = corev1.ConditionFalse, "ContainersNotReady"
		containers.Message = fmt.Sprintf("containers with unready status: %s", unready)
	}
	ready := containers
	ready.Type = corev1.PodReady
	if messages := closedGates(pod); len(unready) == 0 && len(messages) > 0 {
		ready.Status, ready.Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
		ready.Message = strings.Join(messages, ", ")
	}
	initialized := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	return []corev1.PodCondition{initialized, ready, containers}
}

func closedGates(pod *corev1.Pod) []string {
	var messages []string
	for _, g := range pod.Spec.ReadinessGates {
		var is *corev1.PodCondition
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type == g.ConditionType {
				is = &pod.Status.Conditions[i]
			}
		}
		switch {
		case is == nil:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(g.ConditionType)))
		case is.Status != corev1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(g.ConditionType), is.Status))
		}
	}
	return messages
}

// keepTimes gives conditions that have not changed the time of their last change.
func keepTimes(next, last []corev1.PodCondition, now metav1.Time) {
	for i := range next {
		next[i].LastTransitionTime = now
		for _, old := range last {
			if old.Type == next[i].Type && old.Status == next[i].Status {
				next[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
}
