package order

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// Operator is the holder that a hold without a name belongs to.
const Operator = "operator"

// A Hold is one reason for which a Pod is kept out of traffic.
type Hold struct {
	Holder string `json:"holder"`
	Value  string `json:"value"`
}

// Holds returns the holds on pod, by holder.
func Holds(pod *corev1.Pod) []Hold {
	var holds []Hold
	for _, h := range readiness.Holds(pod) {
		holds = append(holds, Hold(h))
	}
	return holds
}

// MayHold says whether an operator may hold pod as h.Holder for the reason h.Value. To hold it
// again for the same reason is no error. The error is a *RefusalError or a *ConflictError.
func MayHold(pod *corev1.Pod, h Hold) error {
	if err := mayName(h.Holder); err != nil {
		return err
	}
	if !readiness.HasGate(pod) {
		return &RefusalError{podName(pod), fmt.Sprintf("has no readiness gate %s, so a hold would not take it out of traffic", v1alpha1.InService), "Pods without the gate can only be taken out by their labels"}
	}
	for _, there := range Holds(pod) {
		if there.Holder == h.Holder && there.Value != h.Value {
			return &ConflictError{podName(pod), fmt.Sprintf("is held already by %q for another reason: %s", there.Holder, there.Value), "hold it under a name of your own (--holder NAME), or release that hold first"}
		}
	}
	return nil
}

// MayRelease says whether an operator may end the hold of this holder on pod. The error is a
// *RefusalError.
func MayRelease(pod *corev1.Pod, holder string) error {
	if err := mayName(holder); err != nil {
		return err
	}
	var holders []string
	for _, h := range Holds(pod) {
		if h.Holder == holder {
			return nil
		}
		holders = append(holders, h.Holder)
	}
	way := "nobody holds it"
	if len(holders) > 0 {
		way = "it is held by: " + strings.Join(holders, ", ")
	}
	return &RefusalError{podName(pod), fmt.Sprintf("is not held by %q", holder), way}
}

func mayName(holder string) error {
	object := fmt.Sprintf("hold %q", holder)
	switch v1alpha1.HoldPrefix + holder {
	case v1alpha1.HoldInPlace:
		return &RefusalError{object, "is the agent's, for an update under way", "it goes when the update ends; `kubectl pitstop cancel POD` takes an update back"}
	case v1alpha1.HoldUnit:
		return &RefusalError{object, "is the coordinator's, on a Pod whose unit is in update", "it goes when the unit may serve"}
	case v1alpha1.HoldDevice:
		return &RefusalError{object, "is the agent's, on a Pod that lost a GPU", "it goes when the device is back or the Pod is recreated elsewhere"}
	case v1alpha1.HoldGPUHealth:
		return &RefusalError{object, "is the coordinator's, on a Pod with a sick GPU", "it goes when the GPU is healthy again"}
	}
	if problems := validation.IsQualifiedName(v1alpha1.HoldPrefix + holder); len(problems) > 0 {
		return &RefusalError{object, "is not a name that an annotation can carry: " + strings.Join(problems, ", "), "use letters, digits, '-', '_' and '.', 58 characters at most"}
	}
	return nil
}
