// Package readiness moves a Pod in and out of traffic: holds, the readiness gate, and the
// drain.
//
// A hold is an annotation; the gate is the Pod condition pitstop.dev/InService. The gate is
// False while any hold stands and True otherwise. One update of a Pod makes these writes, each
// one strategic-merge patch on pods/status:
//
//	Lower -> (kubelet acknowledges) -> Acknowledge -> propagation, drain, swap -> Raise
//
// Sync makes the gate agree with the holds outside of that path, and for a new Pod. The times of
// Lower and Acknowledge are kept in the condition's message, so that a restarted agent goes on
// where it was. Everything but the Scraper is a function of its arguments.
//
// Of a Pod these functions read uid, resourceVersion, deletionTimestamp, labels, annotations,
// the readiness gates, names and ports of the containers, and of the status the conditions, the
// container statuses and the address. A Pod out of a trimmed cache must have kept them.
package readiness

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// kubelet's reason for a Pod whose containers are ready and whose gates are not, from
// k8s.io/kubernetes/pkg/kubelet/status.
const reasonGatesNotReady = "ReadinessGatesNotReady"

// HasGate reports whether the Pod has our readiness gate. Without it nothing keeps the Pod out
// of traffic.
func HasGate(pod *corev1.Pod) bool {
	for _, g := range pod.Spec.ReadinessGates {
		if g.ConditionType == v1alpha1.InService {
			return true
		}
	}
	return false
}

// Ready reports whether the Pod's Ready condition is True, which is what puts it in traffic.
func Ready(pod *corev1.Pod) bool {
	return is(pod, corev1.PodReady, corev1.ConditionTrue)
}

// ContainersReady reports whether kubelet says that all containers are ready.
func ContainersReady(pod *corev1.Pod) bool {
	return is(pod, corev1.ContainersReady, corev1.ConditionTrue)
}

// Acknowledged reports whether kubelet has answered the lowered gate: the Pod is not Ready
// because of our gate, or its containers are not ready. It is a fact about this reading of the
// Pod and not a memory: where the containers of a held Pod come good again, as after a restart
// of kubelet, kubelet judges the gate anew. Ask again before what must not meet a request.
//
// A Pod that is not Ready for another reason (its node was lost, another gate is closed) may
// become Ready without having seen the gate: false. So is a Pod whose gate is not lowered.
func Acknowledged(pod *corev1.Pod) bool {
	if !is(pod, v1alpha1.InService, corev1.ConditionFalse) || Ready(pod) {
		return false
	}
	if is(pod, corev1.ContainersReady, corev1.ConditionFalse) {
		return true
	}
	ready := condition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionFalse &&
		ready.Reason == reasonGatesNotReady && namesGate(pod, ready.Message)
}

// namesGate reports whether kubelet's message is about the gate as it was lowered. One reason
// covers all gates of a Pod, and also a gate whose condition kubelet has not seen yet; only the
// message tells them apart. It lists each gate that is not True:
//
//	the status of pod readiness gate "<type>" is not "True", but False
//	corresponding condition of pod readiness gate "<type>" does not exist.
//
// For a Pod with our gate alone only the second form counts against it, so that an update does
// not depend on kubelet's words.
func namesGate(pod *corev1.Pod, message string) bool {
	gate := "pod readiness gate " + strconv.Quote(string(v1alpha1.InService))
	if strings.Contains(message, gate+" does not exist") {
		return false
	}
	return len(pod.Spec.ReadinessGates) == 1 || strings.Contains(message, gate)
}

func is(pod *corev1.Pod, t corev1.PodConditionType, s corev1.ConditionStatus) bool {
	c := condition(pod, t)
	return c != nil && c.Status == s
}

// condition returns the Pod's condition of that type, nil if it is absent.
func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
