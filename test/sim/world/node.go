package world

import (
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// How fast the control plane takes note of a node that is silent.
const (
	unreadyAfter = 45 * time.Second
	evictAfter   = 5 * time.Minute
	renewEvery   = 15 * time.Second
)

// nodeDown lets the node fall silent. Its Pods run on, unseen, or are gone.
func (w *World) nodeDown(n *node) {
	if !n.up {
		return
	}
	n.up = false
	w.tell("world", "%s goes down", n.name)
	w.After(unreadyAfter, func() { w.mark(n) })
	w.After(evictAfter, func() { w.evict(n) })
}

// mark is the node controller: Pods of a silent node are not Ready.
func (w *World) mark(n *node) {
	if n.up {
		return
	}
	for _, pod := range w.pods(n) {
		c := pod.DeepCopy()
		set(c, condition(corev1.PodReady, false), metav1.NewTime(w.Now()))
		w.must(w.as("node controller").Status().Update(w.ctx, c))
	}
}

func (w *World) evict(n *node) {
	if n.up {
		return
	}
	for _, pod := range append(w.pods(n), w.pins(n)...) {
		w.must(client.IgnoreNotFound(w.as("node controller").Delete(w.ctx, pod.DeepCopy())))
	}
}

// nodeUp brings the node back, rebooted: what was not deleted starts again.
func (w *World) nodeUp(n *node) {
	if n.up {
		return
	}
	n.up = true
	w.tell("world", "%s is back", n.name)
	for _, pod := range w.pods(n) {
		if e := w.engines[pod.UID]; e != nil {
			w.report(e)
		}
	}
	for _, pod := range w.pins(n) {
		w.startPin(client.ObjectKeyFromObject(pod), pod.UID)
	}
	w.restartAgent(n)
}

func (w *World) agentDown(n *node) {
	if n.hasAgent && n.agentUp {
		n.agentUp = false
		w.tell("world", "the agent on %s dies", n.name)
	}
}

func (w *World) agentUp(n *node) {
	if n.hasAgent && !n.agentUp {
		n.agentUp = true
		w.tell("world", "the agent on %s is back", n.name)
		w.restartAgent(n)
	}
}

func (w *World) wakeAll(n *node) {
	for _, pod := range w.pods(n) {
		w.wakeAgent(client.ObjectKeyFromObject(pod))
	}
}

// renew keeps the Lease of the node's agent for as long as it works.
func (w *World) renew(n *node) {
	if !n.hasAgent {
		return
	}
	w.After(renewEvery, func() { w.renew(n) })
	if !n.live() {
		return
	}
	key := types.NamespacedName{Namespace: System, Name: v1alpha1.AgentLeaseName(n.name)}
	now := metav1.NewMicroTime(w.Now())
	if stored, ok := w.Server.Stored(cluster.Lease, key).(*coordinationv1.Lease); ok {
		lease := stored.DeepCopy()
		lease.Spec.RenewTime = &now
		w.must(w.as("agent/"+n.name).Update(w.ctx, lease))
		return
	}
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = key.Namespace, key.Name
	lease.Annotations = map[string]string{v1alpha1.AnnotationAgentProtocol: strconv.Itoa(v1alpha1.AgentProtocol)}
	seconds := int32(v1alpha1.AgentLeaseDuration / time.Second)
	lease.Spec = coordinationv1.LeaseSpec{RenewTime: &now, HolderIdentity: &n.name, LeaseDurationSeconds: &seconds}
	w.must(w.as("agent/"+n.name).Create(w.ctx, lease))
}
