package servinggroup

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
	"pitstop.dev/readiness"
)

// startSlack is how much earlier than kubelet's report that containers are not ready the container
// may have been started that is the reason for it.
const startSlack = 10 * time.Second

// place finds out from a Pod's name which Pod of the group it is. Labels can be changed by anybody.
func place(group, name string) (role string, instance, index int32, ok bool) {
	rest, ok := strings.CutPrefix(name, group+"-")
	if !ok {
		return "", 0, 0, false
	}
	unit, n, ok := v1alpha1.ParseUnit(rest) // the index is written as an ordinal is
	if !ok {
		return "", 0, 0, false
	}
	role, instance, ok = v1alpha1.ParseUnit(unit)
	return role, instance, n, ok
}

// podOf returns what decisions need of a Pod.
func podOf(sg *v1alpha1.ServingGroup, pod *corev1.Pod) (pods.Pod, bool) {
	role, instance, index, ok := place(sg.Name, pod.Name)
	if !ok {
		return pods.Pod{}, false
	}
	p := pods.Pod{
		Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		Role: role, Instance: instance, Index: index,
		Revision: pod.Labels[v1alpha1.LabelRevision], Digest: pod.Annotations[v1alpha1.RoleDigest],
		Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Time,
		Ended:    pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
		NodeLost: nodeLost(pod), Leader: pod.Labels[v1alpha1.LabelLeader] == yes,
		ContainersReady: readiness.ContainersReady(pod), Ready: readiness.Ready(pod),
		Trouble: trouble(pod), Patched: v1alpha1.PatchMarkOf(pod).Token != "",
	}
	if pod.DeletionTimestamp != nil {
		p.Deleting, p.DeletedAt = true, pod.DeletionTimestamp.Time
	}
	if c := conditionOf(pod, corev1.PodReady); c != nil && p.Ready {
		p.ReadySince = c.LastTransitionTime.Time
	}
	_, p.Idle = readiness.NothingToDrain(pod)
	observeGPUs(&p, conditionOf(pod, v1alpha1.GPUHealthy))
	p.GateAbsent = readiness.HasGate(pod) && !readiness.GateOf(pod).Present
	for _, h := range readiness.Holds(pod) {
		switch v1alpha1.HoldPrefix + h.Holder {
		case v1alpha1.HoldUnit:
			p.HeldUnit = true
		case v1alpha1.HoldInPlace:
			p.HeldInPlace = true
		case v1alpha1.HoldGPUHealth:
			p.HeldGPU, p.HeldOther = true, true
		default:
			p.HeldOther = true
		}
	}
	for _, l := range labelsOf(sg, role, instance, index) {
		p.Mislabelled = p.Mislabelled || pod.Labels[l.key] != l.value
	}
	p.DeletionCost, _ = strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	return p, true
}

// observeGPUs takes what the agent says of the Pod's GPUs, if it says anything.
func observeGPUs(p *pods.Pod, c *corev1.PodCondition) {
	switch {
	case c == nil:
	case c.Status == corev1.ConditionFalse:
		p.GPUFault = words(c.Reason, c.Message)
	case c.Status == corev1.ConditionUnknown:
		p.GPUUnknown = true
		if c.Reason == string(v1alpha1.GPUUnknownReleased) {
			p.DriverReleased = words(c.Reason, c.Message)
		}
	}
}

func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for n := range pod.Status.Conditions {
		if pod.Status.Conditions[n].Type == t {
			return &pod.Status.Conditions[n]
		}
	}
	return nil
}

// nodeLost reports whether Kubernetes has given up on the Pod's node.
func nodeLost(pod *corev1.Pod) bool {
	c := conditionOf(pod, corev1.DisruptionTarget)
	return pod.Status.Reason == "NodeLost" ||
		c != nil && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByTaintManager"
}

// restarted returns since when a container that was restarted has not been ready; zero if none is. A
// container that runs on and is not ready for another reason is left to its probes: so is one that the
// Pod's order, which may be nil, has put in service, however short a time ago.
func restarted(pod *corev1.Pod, order *v1alpha1.InPlaceUpdate) time.Time {
	ready := conditionOf(pod, corev1.ContainersReady)
	if ready == nil || ready.Status == corev1.ConditionTrue {
		return time.Time{}
	}
	since := ready.LastTransitionTime.Time
	for _, c := range pod.Status.ContainerStatuses {
		if c.RestartCount == 0 || c.Ready || runsForUpdate(pod, order, c) {
			continue
		}
		if run := c.State.Running; run != nil && run.StartedAt.Add(startSlack).Before(since) {
			continue
		}
		// The first of many restarts is not on record; the first one is.
		if end := c.LastTerminationState.Terminated; c.RestartCount == 1 && end != nil && end.FinishedAt.After(since) {
			since = end.FinishedAt.Time
		}
		return since
	}
	return time.Time{}
}

// runsForUpdate reports whether the very container runs that an update in place has started and proved.
func runsForUpdate(pod *corev1.Pod, order *v1alpha1.InPlaceUpdate, c corev1.ContainerStatus) bool {
	if order == nil || order.Spec.PodUID != pod.UID || c.State.Running == nil {
		return false
	}
	_, id, _ := strings.Cut(c.ContainerID, "://")
	served := order.Status.Stage == v1alpha1.StageVerified || order.Status.Stage == v1alpha1.StageInService
	return served && id != "" && slices.ContainsFunc(order.Status.Containers, func(r v1alpha1.ContainerReport) bool {
		return r.Name == c.Name && r.After != nil && r.After.ContainerID == id
	})
}

// trouble says what keeps a Pod from being ready.
func trouble(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return words(string(pod.Status.Phase), pod.Status.Reason, pod.Status.Message)
	}
	if c := conditionOf(pod, corev1.PodScheduled); pod.Spec.NodeName == "" && c != nil && c.Status == corev1.ConditionFalse {
		return words("not scheduled", c.Reason, c.Message)
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			if c.RestartCount > 0 && !c.Ready {
				// The same words through all states of a crash loop: each change is a write.
				return words("container "+c.Name+" was restarted and is not ready", endOf(c))
			}
			if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
				return words("container "+c.Name, w.Reason, w.Message)
			}
		}
	}
	if holds := readiness.Holds(pod); len(holds) > 0 {
		names := make([]string, 0, len(holds))
		for _, h := range holds {
			names = append(names, h.Holder)
		}
		return "held by " + strings.Join(names, ", ")
	}
	return ""
}

// endOf says how the container ended the last time; empty if that is not on record.
func endOf(c corev1.ContainerStatus) string {
	if end := c.LastTerminationState.Terminated; end != nil {
		return end.Reason
	}
	return ""
}

func words(what string, more ...string) string {
	for _, m := range more {
		if m != "" {
			what += ": " + m
		}
	}
	return what
}
