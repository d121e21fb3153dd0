package invariant

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// openOf is the update that has taken the unit out of service; nil if there is none, or it merely prepares.
func openOf(g *v1alpha1.ServingGroup, unit string) *v1alpha1.UnitUpdate {
	if u := updateOf(g, unit); u != nil && !u.Preparing() {
		return u
	}
	return nil
}

// covering is the update that the instance is part of.
func covering(g *v1alpha1.ServingGroup, unit string) *v1alpha1.UnitUpdate {
	if u := openOf(g, ""); u != nil {
		return u
	}
	return openOf(g, unit)
}

// ofInPlace judges what happens to a Pod's images, holds and labels, whoever writes.
func (c *Checker) ofInPlace(w cluster.Write) {
	after, ok := w.New.(*corev1.Pod)
	before, had := w.Old.(*corev1.Pod)
	if !ok || !had {
		return
	}
	p, placed := placeOf(after)
	if !placed {
		return
	}
	c.ofHolders(w, before, after)
	c.ofFront(w, before, after)
	g, ok := c.server.Stored(cluster.ServingGroup, p.group).(*v1alpha1.ServingGroup)
	if !ok || g.UID != p.groupUID {
		return
	}
	c.ofGPUHold(w, before, after, g, p)
	if imageOf(before) != imageOf(after) {
		c.ofPatch(w, g, p)
	}
	if serves(after) && gate(after) == corev1.ConditionTrue {
		c.ofService(w, g, p)
	}
}

func imageOf(pod *corev1.Pod) string { return pod.Spec.Containers[0].Image }

// ofHolders: a hold goes with its holder, and an update's with an update's.
func (c *Checker) ofHolders(w cluster.Write, before, after *corev1.Pod) {
	for key := range before.Annotations {
		if _, stays := after.Annotations[key]; stays || !strings.HasPrefix(key, v1alpha1.HoldPrefix) {
			continue
		}
		holder := "user"
		switch key {
		case v1alpha1.HoldInPlace, v1alpha1.HoldDevice:
			holder = "agent/" + before.Spec.NodeName
		case v1alpha1.HoldUnit, v1alpha1.HoldGPUHealth:
			holder = "coordinator"
		}
		if !strings.HasPrefix(w.By, holder) {
			c.violated(w, ruleHolder, "%s is not its own", key)
		}
	}
}

// ofFront: roles that are not front are taken out of traffic after those that are.
func (c *Checker) ofFront(w cluster.Write, before, after *corev1.Pod) {
	order, ordered := c.server.Stored(cluster.InPlaceUpdate, w.Key).(*v1alpha1.InPlaceUpdate)
	p, _ := placeOf(after)
	g, ok := c.server.Stored(cluster.ServingGroup, p.group).(*v1alpha1.ServingGroup)
	token := after.Annotations[v1alpha1.HoldInPlace]
	if !ordered || !ok || g.UID != p.groupUID || token == before.Annotations[v1alpha1.HoldInPlace] || token != order.Token() {
		return
	}
	u, ms := openOf(g, ""), c.servingOf(g)
	if u == nil || ms == nil || u.Method != v1alpha1.UnitInPlace || u.Swapped || order.Annotations[v1alpha1.UnitAttempt] != strconv.FormatInt(u.Attempt, 10) {
		return
	}
	back := map[string]bool{}
	for _, r := range ms.Spec.Template.Roles {
		back[r.Name] = r.Front != nil && !*r.Front
	}
	for _, other := range c.podsOf(g, "") {
		if q, _ := placeOf(other); back[p.role] && !back[q.role] && serves(other) && gate(other) == corev1.ConditionTrue {
			c.violated(w, ruleFront, "%s serves", other.Name)
		}
	}
}

// ofPatch: the images of a Pod change by an order that may swap, once in an attempt, when no Pod of its unit
// is in service any more.
func (c *Checker) ofPatch(w cluster.Write, g *v1alpha1.ServingGroup, p place) {
	pod := w.New.(*corev1.Pod)
	if s := pod.Status.ContainerStatuses; len(s) > 0 && s[0].State.Running != nil {
		c.patches[pod.UID]++ // else nothing is restarted for it
	}
	mark := v1alpha1.PatchMarkOf(pod)
	if mark.Token == v1alpha1.PatchMarkOf(w.Old.(*corev1.Pod)).Token {
		c.violated(w, rulePatch, "%s is patched twice in attempt %s", pod.Name, mark.Token)
	}
	order, ok := c.server.Stored(cluster.InPlaceUpdate, w.Key).(*v1alpha1.InPlaceUpdate)
	switch {
	case !ok || order.Token() != mark.Token:
		c.violated(w, rulePatch, "no order has attempt %s", mark.Token)
	case !order.Spec.Permit.Allows(v1alpha1.PermitSwap):
		c.violated(w, rulePatch, "its order permits %s", order.Spec.Permit)
	case !slices.ContainsFunc(order.Spec.Containers, func(i v1alpha1.ContainerImage) bool { return i.Image == imageOf(pod) }):
		c.violated(w, rulePatch, "its order asks for other images")
	}
	u := covering(g, p.unit)
	if u == nil || u.Method != v1alpha1.UnitInPlace {
		return // what its unit is replaced or removed for came after the permit
	}
	for _, other := range c.podsOf(g, u.Unit) {
		if serves(other) && gate(other) == corev1.ConditionTrue {
			c.violated(w, rulePatch, "%s of its unit is in service", other.Name)
		}
	}
}

// podsOf are the Pods of a unit of the group.
func (c *Checker) podsOf(g *v1alpha1.ServingGroup, unit string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range c.server.All(cluster.Pod) {
		if q, ok := placeOf(o); ok && q.groupUID == g.UID && (unit == "" || q.unit == unit) {
			out = append(out, o.(*corev1.Pod))
		}
	}
	return out
}

// ofSwapped keeps which units in update may have been in service since their last swap.
func (c *Checker) ofSwapped(g *v1alpha1.ServingGroup) {
	for _, u := range g.Spec.Updates {
		switch u.Permit {
		case v1alpha1.PermitSwap:
			delete(c.served, string(g.UID)+"/"+u.Unit)
		case v1alpha1.PermitServe:
			c.served[string(g.UID)+"/"+u.Unit] = true
		case v1alpha1.PermitPrepare, v1alpha1.PermitDrain:
		}
	}
}

// ofService: what is in service runs what its revision says, and from its swap on no Pod of a unit in place is in
// service before the unit may serve.
func (c *Checker) ofService(w cluster.Write, g *v1alpha1.ServingGroup, p place) {
	pod := w.New.(*corev1.Pod)
	facts, known := c.revisions[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelRevision]}]
	if images := facts.images[p.role]; known && images[min(p.index, 1)] != imageOf(pod) {
		c.violated(w, ruleMixed, "%s serves at %s with image %s", pod.Name, pod.Labels[v1alpha1.LabelRevision], imageOf(pod))
	}
	if s := pod.Status.ContainerStatuses; len(s) > 0 && !strings.HasSuffix(s[0].ImageID, imageOf(pod)) {
		c.violated(w, ruleMixed, "%s serves and runs %s for %s", pod.Name, s[0].ImageID, imageOf(pod))
	}
	u := covering(g, p.unit)
	if u == nil || u.Method != v1alpha1.UnitInPlace {
		return
	}
	if u.Permit == v1alpha1.PermitSwap || u.Permit == v1alpha1.PermitDrain && u.Swapped && !c.served[string(g.UID)+"/"+u.Unit] {
		c.violated(w, ruleHeld, "%s serves, and %s is at permit %s", pod.Name, v1alpha1.LedgerEntry(g.Name, u.Unit), u.Permit)
	}
}

// ofKept: an update in place deletes no Pod in which a container was started.
func (c *Checker) ofKept(w cluster.Write, pod *corev1.Pod, p place, known []*v1alpha1.ServingGroup) {
	started := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.ContainerID != "" })
	if !started || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	inPlace := func(g *v1alpha1.ServingGroup) bool {
		if g == nil || g.DeletionTimestamp != nil {
			return false
		}
		u := covering(g, p.unit)
		return u != nil && u.Method == v1alpha1.UnitInPlace
	}
	if !slices.ContainsFunc(known, func(g *v1alpha1.ServingGroup) bool { return !inPlace(g) }) {
		c.violated(w, ruleDelete, "%s is updated in place", p.unit)
	}
}
