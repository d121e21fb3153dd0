package diagnose

import (
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/readiness"
)

// Traffic says of a Pod with a sick GPU that it is still in traffic, and what takes it out; empty if it is not, or is
// held. A lost GPU is the agent's to act on, any other the coordinator's, and nobody acts where there is no gate.
func Traffic(pod *corev1.Pod, r v1alpha1.GPUReason) string {
	ready := readiness.Ready(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return ""
	case !readiness.HasGate(pod) && ready:
		return "no readiness gate, still in traffic: nothing of Pitstop takes it out; delete it, or take it out by its labels"
	case !readiness.HasGate(pod):
		return "no readiness gate: once it is Ready it is in traffic, and nothing of Pitstop takes it out"
	case !ready || len(readiness.Holds(pod)) > 0:
		return ""
	case r == v1alpha1.GPUFalseLost:
		return "still in traffic: the agent takes it out within seconds"
	case order.Unit(pod, nil) != "":
		return "still in traffic: the coordinator takes its unit out as far as the budget (maxUnavailable) allows"
	}
	return "still in traffic, and nothing takes it out by itself: `kubectl pitstop hold " + pod.Name + " -n " + pod.Namespace + " --reason TEXT`"
}
