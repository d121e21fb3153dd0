package readiness

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// What kubelet 1.37 writes, from generate.go.
const (
	ourGateFalse  = `the status of pod readiness gate "pitstop.dev/InService" is not "True", but False`
	ourGateAbsent = `corresponding condition of pod readiness gate "pitstop.dev/InService" does not exist.`
	otherFalse    = `the status of pod readiness gate "example.com/balancer" is not "True", but False`
)

func TestAcknowledged(t *testing.T) {
	closed := withGate(corev1.ConditionFalse, "held by inplace")
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"kubelet names our gate": {
			newPod(closed, withCondition(corev1.ContainersReady, corev1.ConditionTrue, "", ""),
				withCondition(corev1.PodReady, corev1.ConditionFalse, reasonGatesNotReady, ourGateFalse)), true,
		},
		"containers are not ready": {
			newPod(closed, withCondition(corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady", "x"),
				withCondition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "x")), true,
		},
		"the flap of a restarted kubelet ends in an answer to the gate": {
			newPod(closed, withCondition(corev1.ContainersReady, corev1.ConditionTrue, "", ""),
				withCondition(corev1.PodReady, corev1.ConditionTrue, "", "")), false,
		},
		"a flap while the gate is open is no answer": {
			newPod(withGate(corev1.ConditionTrue, ""), withCondition(corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady", "x"),
				withCondition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "x")), false,
		},
		"kubelet has not answered": {
			newPod(closed, withCondition(corev1.PodReady, corev1.ConditionTrue, "", "")), false,
		},
		"containers not ready in a Pod that still is Ready": {
			newPod(closed, withCondition(corev1.ContainersReady, corev1.ConditionFalse, "", ""),
				withCondition(corev1.PodReady, corev1.ConditionTrue, "", "")), false,
		},
		"the node was lost: the controller lowers Ready and leaves the rest": {
			newPod(closed, withCondition(corev1.ContainersReady, corev1.ConditionTrue, "", ""),
				withCondition(corev1.PodReady, corev1.ConditionFalse, "", "")), false,
		},
		"kubelet knows of no condition yet": {
			newPod(closed, withCondition(corev1.ContainersReady, corev1.ConditionTrue, "", ""),
				withCondition(corev1.PodReady, corev1.ConditionFalse, reasonGatesNotReady, ourGateAbsent)), false,
		},
		"only another gate is closed for kubelet": {
			newPod(withOtherGate, closed, withCondition(corev1.ContainersReady, corev1.ConditionTrue, "", ""),
				withCondition(corev1.PodReady, corev1.ConditionFalse, reasonGatesNotReady, otherFalse)), false,
		},
		"another gate and ours are closed for kubelet": {
			newPod(withOtherGate, closed, withCondition(corev1.ContainersReady, corev1.ConditionTrue, "", ""),
				withCondition(corev1.PodReady, corev1.ConditionFalse, reasonGatesNotReady, otherFalse+", "+ourGateFalse)), true,
		},
		"other words of a later kubelet, with our gate alone": {
			newPod(closed, withCondition(corev1.PodReady, corev1.ConditionFalse, reasonGatesNotReady, "gates are closed")), true,
		},
		"nothing is known": {newPod(), false},
		"the gate is open although the containers are not ready": {
			newPod(withCondition(corev1.ContainersReady, corev1.ConditionFalse, "", "")), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Acknowledged(tt.pod); got != tt.want {
				t.Errorf("Acknowledged() = %t", got)
			}
		})
	}
}

func TestConditionsOfAPod(t *testing.T) {
	pod := newPod(withOtherGate,
		withCondition(corev1.PodReady, corev1.ConditionTrue, "", ""),
		withCondition(corev1.ContainersReady, corev1.ConditionUnknown, "", ""))
	equal(t, "gate, ready, containers ready", [3]bool{true, true, false}, [3]bool{HasGate(pod), Ready(pod), ContainersReady(pod)})
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/balancer"}}
	pod.Status.Conditions = nil
	equal(t, "without them", [3]bool{}, [3]bool{HasGate(pod), Ready(pod), ContainersReady(pod)})
}

func TestHolds(t *testing.T) {
	pod := newPod(withHold("unit", ""), withHold("inplace", testToken), withHold("alice", "looking at it"),
		withAnnotation(v1alpha1.PatchedAt, "x"), withAnnotation("example.com/hold.x", "y"))
	equal(t, "Holds()", []Hold{{"alice", "looking at it"}, {"inplace", testToken}, {"unit", ""}}, Holds(pod))
	if got := Holds(newPod()); got != nil {
		t.Errorf("Holds() = %v", got)
	}
}
