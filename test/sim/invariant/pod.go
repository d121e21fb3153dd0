package invariant

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// place is where a Pod belongs, by its name and its controller: anybody may change its labels.
type place struct {
	group    types.NamespacedName
	groupUID types.UID
	role     string
	unit     string
	index    int32
}

func placeOf(pod client.Object) (place, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != cluster.ServingGroup {
		return place{}, false
	}
	rest, of := strings.CutPrefix(pod.GetName(), owner.Name+"-")
	unit, index, one := v1alpha1.ParseUnit(rest)
	role, _, two := v1alpha1.ParseUnit(unit)
	group := types.NamespacedName{Namespace: pod.GetNamespace(), Name: owner.Name}
	return place{group: group, groupUID: owner.UID, role: role, unit: unit, index: index}, of && one && two
}

// labels are those by which Services, caches and people find the Pod.
func (p place) labels(pod client.Object) bool {
	has := pod.GetLabels()
	unit := has[v1alpha1.LabelRole] + "-" + has[v1alpha1.LabelInstance]
	return has[v1alpha1.LabelServingGroup] == p.group.Name && unit == p.unit &&
		has[v1alpha1.LabelIndex] == strconv.Itoa(int(p.index)) && has[v1alpha1.LabelModelServing] != ""
}

func (c *Checker) ofPod(w cluster.Write) {
	if w.Frame == nil {
		c.ofMixture(w)
		return
	}
	if image := pinned(w.Object()); image != "" {
		c.ofPin(w, image)
		return
	}
	p, ok := placeOf(w.Object())
	if !ok {
		if w.Verb == cluster.Create {
			c.violated(w, rulePod, "its name and its controller say no place")
		}
		return
	}
	known := c.knownGroup(w, p)
	switch w.Verb {
	case cluster.Create:
		c.ofNewPod(w, p, known)
	case cluster.Mark, cluster.Remove:
		c.ofPodDeletion(w, p, known)
	case cluster.UpdateStatus:
		c.ofGate(w, w.Old.(*corev1.Pod))
	case cluster.Update: // see ofPodUpdate
	}
}

// knownGroup are the states of the Pod's group that the writer may have gone by; nil is among
// them if it may have been gone.
func (c *Checker) knownGroup(w cluster.Write, p place) []*v1alpha1.ServingGroup {
	var out []*v1alpha1.ServingGroup
	for _, o := range c.server.Versions(cluster.ServingGroup, p.group, w.Frame.AsOf(cluster.ServingGroup)) {
		if g, ok := o.(*v1alpha1.ServingGroup); ok && g.UID == p.groupUID {
			out = append(out, g)
		} else {
			out = append(out, nil)
		}
	}
	return out
}

// ofNewPod: the pin comes before the Pod, and the Pod is what the pin says.
func (c *Checker) ofNewPod(w cluster.Write, p place, known []*v1alpha1.ServingGroup) {
	pod := w.New.(*corev1.Pod)
	name := pod.Labels[v1alpha1.LabelRevision]
	if !p.labels(pod) {
		c.violated(w, rulePod, "its labels are %v", pod.Labels)
	}
	wanted := func(g *v1alpha1.ServingGroup) bool {
		return g != nil && declares(g, p.unit) && pinOf(g, p.unit) == name
	}
	if !slices.ContainsFunc(known, wanted) {
		c.violated(w, rulePod, "it is at %s, which is not the pin of %s", name, p.unit)
		return
	}
	facts := c.revisions[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
	images := facts.images[p.role]
	if image := images[min(p.index, 1)]; pod.Spec.Containers[0].Image != image || p.index > facts.workers[p.role] {
		c.violated(w, rulePod, "%s has image %s, and %s says %s and %d workers", pod.Name, pod.Spec.Containers[0].Image, name, image, facts.workers[p.role])
	}
	if !slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == v1alpha1.InService }) {
		c.violated(w, ruleGate, "it has no readiness gate")
	}
	held := func(g *v1alpha1.ServingGroup) bool { return g != nil && inUpdateHeld(g, p.unit) }
	if _, has := pod.Annotations[v1alpha1.HoldUnit]; !has && !slices.ContainsFunc(known, func(g *v1alpha1.ServingGroup) bool { return !held(g) }) {
		c.violated(w, ruleHold, "%s is in update and may not serve", p.unit)
	}
}

// inUpdateHeld reports whether the unit, or its group, is in an update that may not serve.
func inUpdateHeld(g *v1alpha1.ServingGroup, unit string) bool {
	for _, u := range g.Spec.Updates {
		if (u.Unit == "" || u.Unit == unit) && u.Permit != v1alpha1.PermitServe && !u.Preparing() {
			return true
		}
	}
	return false
}

// ofPodDeletion: the Pod is not wanted, not at its pin, broken, or of an instance that lost one.
func (c *Checker) ofPodDeletion(w cluster.Write, p place, known []*v1alpha1.ServingGroup) {
	pod := w.Old.(*corev1.Pod)
	if !w.Bound {
		c.violated(w, ruleDelete, "the deletion has no UID as precondition")
	}
	if w.Verb == cluster.Remove && pod.DeletionTimestamp != nil {
		c.violated(w, ruleDelete, "the Pod is removed by force")
	}
	unwanted := func(g *v1alpha1.ServingGroup) bool {
		return g == nil || g.DeletionTimestamp != nil || !declares(g, p.unit) || removed(g, p.unit) || !c.atPin(g, pod, p) || c.condemned[pod.UID]
	}
	c.ofDrain(w, pod, known)
	c.ofKept(w, pod, p, known)
	if c.broken(pod) || c.lostSince(w, p, known) || c.worn(w, p) || slices.ContainsFunc(known, unwanted) && !c.settled(p, pod) {
		return
	}
	c.violated(w, ruleDelete, "%s is declared, at its pin and lost nothing", p.unit)
}

// settled reports whether the Pod is what the group wants now, and no update is open on it. To delete
// such a Pod is wrong however old the writer's view is.
func (c *Checker) settled(p place, pod *corev1.Pod) bool {
	g, ok := c.server.Stored(cluster.ServingGroup, p.group).(*v1alpha1.ServingGroup)
	if !ok || g.UID != p.groupUID || g.DeletionTimestamp != nil || !declares(g, p.unit) || !c.atPin(g, pod, p) {
		return false
	}
	return covering(g, p.unit) == nil
}

func removed(g *v1alpha1.ServingGroup, unit string) bool {
	for _, u := range g.Spec.Updates {
		if (u.Unit == "" || u.Unit == unit) && u.Method == v1alpha1.UnitRemove && u.Permit.Allows(v1alpha1.PermitSwap) {
			return true
		}
	}
	return false
}

// atPin reports whether the Pod is what the group's spec says of it.
func (c *Checker) atPin(g *v1alpha1.ServingGroup, pod *corev1.Pod, p place) bool {
	is, want := c.facts(g, pod.Labels[v1alpha1.LabelRevision]), c.facts(g, pinOf(g, p.unit))
	return want.digests[p.role] != "" && is.digests[p.role] == want.digests[p.role] && p.index <= want.workers[p.role] &&
		want.images[p.role][min(p.index, 1)] == imageOf(pod)
}

// broken reports whether the Pod failed, or a container restarted without a patch.
func (c *Checker) broken(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.RestartCount > c.patches[pod.UID] || s.RestartCount > 0 && s.State.Running == nil
	})
}

// worn reports whether recovery may create the Pod anew because a container of its instance was restarted by a
// patch and is not ready: that is no loss while its unit is in update, nor where units are updated in place; then it
// is held for a person.
func (c *Checker) worn(w cluster.Write, p place) bool {
	g, ok := c.server.Stored(cluster.ServingGroup, p.group).(*v1alpha1.ServingGroup)
	if !ok || g.UID != p.groupUID || covering(g, p.unit) != nil {
		return false
	}
	if ms := c.servingOf(g); ms == nil || ms.Spec.RolloutStrategy.UpdateMethod == v1alpha1.UpdateInPlace {
		return false
	}
	unit := p.unit
	if c.recoversGroups(w, p) {
		unit = ""
	}
	return slices.ContainsFunc(c.podsOf(g, unit), func(pod *corev1.Pod) bool {
		q, _ := placeOf(pod)
		return covering(g, q.unit) == nil && slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.RestartCount > 0 && !s.Ready
		})
	})
}

// noteLosses keeps which instances lost a Pod, or had one fail, by no deed of the coordinator.
func (c *Checker) noteLosses(w cluster.Write) {
	pod, ok := w.Old.(*corev1.Pod)
	p, placed := placeOf(w.Object())
	if !ok || !placed || w.Kind != cluster.Pod {
		return
	}
	after, stays := w.New.(*corev1.Pod)
	gone := w.Verb == cluster.Mark || w.Verb == cluster.Remove && pod.DeletionTimestamp == nil
	if !gone && (!stays || !c.broken(after)) {
		return
	}
	by := ""
	if w.Frame != nil {
		by = w.By // a loss to every other process
	}
	for _, key := range []string{string(p.groupUID) + "/" + p.unit, string(p.groupUID) + "/"} {
		c.lost[key] = append(c.lost[key], by)
	}
}

// lostSince reports whether recovery may create the Pod anew: its instance, or with
// ServingGroupRecreate its group, lost a Pod and was not whole since.
func (c *Checker) lostSince(w cluster.Write, p place, known []*v1alpha1.ServingGroup) bool {
	if !slices.ContainsFunc(known, func(g *v1alpha1.ServingGroup) bool { return g != nil && !inUpdateHeld(g, p.unit) }) {
		return false // inside an update only what is lost is refilled
	}
	whole := string(p.groupUID) + "/"
	byOther := func(by string) bool { return by != w.By }
	return slices.ContainsFunc(c.lost[whole+p.unit], byOther) || slices.ContainsFunc(c.lost[whole], byOther) && c.recoversGroups(w, p)
}

func (c *Checker) recoversGroups(w cluster.Write, p place) bool {
	g, ok := c.server.Stored(cluster.ServingGroup, p.group).(*v1alpha1.ServingGroup)
	if !ok {
		return true
	}
	ms := c.servingOf(g)
	if ms == nil {
		return true
	}
	return slices.ContainsFunc(c.server.Versions(cluster.ModelServing, keyOf(ms), w.Frame.AsOf(cluster.ModelServing)), func(o client.Object) bool {
		m, ok := o.(*v1alpha1.ModelServing)
		return ok && m.Spec.RecoveryPolicy == v1alpha1.RecoverServingGroup
	})
}

// ofGate: the gate is the agent's once it is there.
func (c *Checker) ofGate(w cluster.Write, before *corev1.Pod) {
	after := w.New.(*corev1.Pod)
	if gate(before) == gate(after) {
		return
	}
	for key := range after.Annotations {
		if len(key) > len(v1alpha1.HoldPrefix) && key[:len(v1alpha1.HoldPrefix)] == v1alpha1.HoldPrefix {
			c.violated(w, ruleGate, "the Pod is held: %s", key)
		}
	}
	switch {
	case gate(before) != "":
		c.violated(w, ruleGate, "the gate was there: %s", gate(before))
	case c.agentLives(w, before.Spec.NodeName):
		c.violated(w, ruleGate, "%s has an agent", before.Spec.NodeName)
	}
}

func gate(pod *corev1.Pod) corev1.ConditionStatus { return conditionOf(pod, v1alpha1.InService) }

func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}

// ofMixture: when a Pod becomes Ready, there is one revision that has it and each other Ready Pod of its unit: that of
// either, or the pin. With ServingGroupRollingUpdate the unit is the group.
func (c *Checker) ofMixture(w cluster.Write) {
	pod, ok := w.New.(*corev1.Pod)
	if !ok || !serves(pod) {
		return
	}
	p, placed := placeOf(pod)
	if before, ok := w.Old.(*corev1.Pod); !placed || ok && serves(before) {
		return
	}
	g, ok := c.server.Stored(cluster.ServingGroup, p.group).(*v1alpha1.ServingGroup)
	if !ok || g.UID != p.groupUID || c.servingOf(g) == nil {
		return
	}
	byGroup := numbersOf(c.servingOf(g).Spec).byGroup && !slices.ContainsFunc(g.Spec.Instances, func(i v1alpha1.RoleInstance) bool { return i.Revision != "" })
	for _, o := range c.server.All(cluster.Pod) {
		other := o.(*corev1.Pod)
		q, placed := placeOf(other)
		if !placed || q.groupUID != p.groupUID || !serves(other) || !byGroup && q.unit != p.unit {
			continue
		}
		a, b := c.facts(g, pod.Labels[v1alpha1.LabelRevision]), c.facts(g, other.Labels[v1alpha1.LabelRevision])
		pin, x, y := c.facts(g, pinOf(g, p.unit)), a.digests[p.role], b.digests[q.role]
		if x != b.digests[p.role] && y != a.digests[q.role] && (x != pin.digests[p.role] || y != pin.digests[q.role]) {
			c.violated(w, ruleMixed, "%s and %s are both Ready, and no revision has both", pod.Name, other.Name)
			return
		}
	}
}

func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && conditionOf(pod, corev1.PodReady) == corev1.ConditionTrue
}
