package history

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// watched are the kinds that the coordinator watches.
func watched() []string {
	return []string{
		cluster.ModelServing, cluster.ServingGroup, cluster.ControllerRevision, cluster.Pod, cluster.PinPod,
		cluster.Service, cluster.InPlaceUpdate, cluster.Lease, cluster.Node,
	}
}

// news is a write on its way to the processes' caches.
func (h *History) news(w cluster.Write) {
	if p := h.leader; p != nil && p.life == leads {
		p.deliverLater(w.Kind)
		if w.Kind == cluster.Pod {
			p.deliverLater(cluster.PinPod)
		}
	}
}

// deliverLater has the cache of a kind told what is known now, after a delay. Now and then the
// whole watch of a kind is late.
func (p *process) deliverLater(kind string) {
	n, now := p.h.Server.Changes(kind), p.h.Now()
	delay := p.h.Between(time.Millisecond, 30*time.Millisecond)
	if !p.h.calm && p.h.Chance(0.01) {
		p.lagging[kind] = now.Add(p.h.Between(100*time.Millisecond, 8*time.Second))
	}
	if until, ok := p.lagging[kind]; ok {
		delay = max(delay, until.Sub(now))
	}
	p.h.After(delay, func() { p.deliver(kind, n) })
}

func (p *process) deliver(kind string, n int) {
	if p.life != leads {
		return
	}
	for _, o := range p.client.Advance(kind, n) {
		p.wake(kind, o)
	}
}

// wake queues what a change of the object is news to.
func (p *process) wake(kind string, o client.Object) {
	key := client.ObjectKeyFromObject(o)
	delay := p.h.Between(0, 5*time.Millisecond)
	switch kind {
	case cluster.ModelServing:
		p.add(item{serving, key}, delay)
		if p.generations[o.GetUID()] != o.GetGeneration() {
			p.generations[o.GetUID()] = o.GetGeneration()
			p.wakeGroups(func(g client.Object) bool { return ownedBy(g, o.GetUID()) })
		}
	case cluster.ServingGroup:
		p.add(item{group, key}, delay)
		p.wakeOwner(serving, o, delay)
	case cluster.ControllerRevision:
		p.wakeOwner(serving, o, delay)
	case cluster.Pod, cluster.PinPod, cluster.Service:
		p.wakeOwner(group, o, delay)
	case cluster.InPlaceUpdate:
		if order, ok := o.(*v1alpha1.InPlaceUpdate); ok {
			p.wakeGroups(func(g client.Object) bool { return g.GetUID() == order.Spec.ServingGroupUID })
		}
	case cluster.Lease:
		p.wakeForLease(o)
	}
}

func (p *process) wakeOwner(c controller, o client.Object, delay time.Duration) {
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		p.add(item{c, types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}}, delay)
	}
}

func (p *process) wakeGroups(which func(client.Object) bool) {
	for _, g := range p.client.Known(cluster.ServingGroup) {
		if which(g) {
			p.add(item{group, client.ObjectKeyFromObject(g)}, p.h.Between(0, 5*time.Millisecond))
		}
	}
}

// wakeForLease wakes the groups on a node where an agent comes back to life.
func (p *process) wakeForLease(o client.Object) {
	lease, ok := o.(*coordinationv1.Lease)
	if !ok || lease.Spec.RenewTime == nil {
		return
	}
	last, known := p.renewed[lease.Name]
	p.renewed[lease.Name] = lease.Spec.RenewTime.Time
	if known && !lease.Spec.RenewTime.After(last.Add(v1alpha1.AgentLeaseDuration)) {
		return
	}
	for _, o := range p.client.Known(cluster.Pod) {
		if pod, ok := o.(*corev1.Pod); ok && v1alpha1.AgentLeaseName(pod.Spec.NodeName) == lease.Name {
			p.wakeOwner(group, pod, 0)
		}
	}
}

func ownedBy(o client.Object, uid types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(o)
	return owner != nil && owner.UID == uid
}
