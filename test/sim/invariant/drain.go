package invariant

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// ofDrain: a Pod that serves on a node with an agent is drained before it is deleted, unless its
// group was deleted by somebody else.
func (c *Checker) ofDrain(w cluster.Write, pod *corev1.Pod, known []*v1alpha1.ServingGroup) {
	if !serves(pod) || gate(pod) != corev1.ConditionTrue || !c.agentLives(w, pod.Spec.NodeName) {
		return
	}
	if slices.ContainsFunc(known, func(g *v1alpha1.ServingGroup) bool { return g == nil || g.DeletionTimestamp != nil }) {
		return
	}
	c.violated(w, ruleDrain, "%s serves, and %s has an agent", pod.Name, pod.Spec.NodeName)
}

// agentLives reports whether the writer must have taken the node's agent for alive.
func (c *Checker) agentLives(w cluster.Write, node string) bool {
	key := types.NamespacedName{Namespace: c.leases, Name: v1alpha1.AgentLeaseName(node)}
	versions := c.server.Versions(cluster.Lease, key, w.Frame.AsOf(cluster.Lease))
	return !slices.ContainsFunc(versions, func(o client.Object) bool {
		lease, ok := o.(*coordinationv1.Lease)
		return !ok || !w.At.Before(lease.Spec.RenewTime.Add(v1alpha1.AgentLeaseDuration-slack))
	})
}

// slack is how long a call of a reconciler may take between its look at a Lease and its write.
const slack = 5 * time.Second
