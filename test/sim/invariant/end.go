package invariant

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/sim/cluster"
)

// Restless notes that the coordinator still wrote when all had been quiet for so long.
func (c *Checker) Restless(after time.Duration) {
	c.ended(ruleQuiet, "the coordinator still writes after %s", after)
}

// Spinning notes that the coordinator looked again so often though nothing changed.
func (c *Checker) Spinning(looks int, d time.Duration) {
	c.ended(ruleQuiet, "the coordinator looked %d times in %s in which nothing changed", looks, d)
}

// End judges how the history ended, after all trouble is over and enough time has passed. rests says
// that nothing bad is declared, so that nothing may be under way any more.
func (c *Checker) End(rests End) {
	for _, o := range c.server.All(cluster.ModelServing) {
		ms := o.(*v1alpha1.ModelServing)
		c.ofAsked(ms)
		missing := c.Missing(ms)
		if missing == "" {
			c.ofReport(ms)
			continue
		}
		if !explained(ms) {
			c.ended(ruleEnd, "%s: %s, and its conditions say %s", ms.Name, missing, said(ms))
		}
	}
	c.ofLeftovers(rests)
}

// End says whether a history had to come to rest.
type End bool

func (c *Checker) ended(rule, format string, args ...any) {
	c.Violations = append(c.Violations, Violation{Rule: rule, Text: "at the end: " + fmt.Sprintf(format, args...)})
}

// Missing says what keeps the ModelServing from being as declared, or nothing.
func (c *Checker) Missing(ms *v1alpha1.ModelServing) string {
	groups := c.groupsOf(ms)
	if len(groups) != int(*ms.Spec.Replicas) {
		return fmt.Sprintf("%d groups instead of %d", len(groups), *ms.Spec.Replicas)
	}
	if len(ms.Status.Updating) > 0 {
		return fmt.Sprintf("the ledger has %v", ms.Status.Updating)
	}
	for _, g := range groups {
		if text := c.missingOf(ms, g); text != "" {
			return text
		}
	}
	return ""
}

func (c *Checker) missingOf(ms *v1alpha1.ModelServing, g *v1alpha1.ServingGroup) string {
	n := numbersOf(ms.Spec)
	switch {
	case g.DeletionTimestamp != nil:
		return g.Name + " is being deleted"
	case len(g.Spec.Updates) > 0:
		return fmt.Sprintf("%s has an open update: %+v", g.Name, g.Spec.Updates[0])
	}
	kept := n.byGroup && int(*g.Spec.Ordinal) < n.partition
	count := map[string]int{}
	for _, i := range g.Spec.Instances {
		count[i.Role]++
		target := ms.Status.UpdateRevision
		if kept || !n.byGroup && int(*i.Ordinal) < n.roles[i.Role].partition {
			target = pinOf(g, v1alpha1.UnitName(i.Role, *i.Ordinal))
		}
		if text := c.missingInstance(g, i, target); text != "" {
			return text
		}
	}
	for _, r := range ms.Spec.Template.Roles {
		if got := count[r.Name]; got != int(*r.Replicas) && !kept {
			return fmt.Sprintf("%s has %d instances of %s instead of %d", g.Name, got, r.Name, *r.Replicas)
		}
		delete(count, r.Name)
	}
	if len(count) > 0 && !kept {
		return g.Name + " has instances of a role that is not declared"
	}
	return ""
}

// missingInstance: all Pods of the instance are Ready, at its pin, and that is the target.
func (c *Checker) missingInstance(g *v1alpha1.ServingGroup, i v1alpha1.RoleInstance, target string) string {
	unit := v1alpha1.UnitName(i.Role, *i.Ordinal)
	pin := c.facts(g, pinOf(g, unit))
	if pin.digests[i.Role] != c.facts(g, target).digests[i.Role] {
		return fmt.Sprintf("%s of %s is at %s, not at %s", unit, g.Name, pinOf(g, unit), target)
	}
	for index := range pin.workers[i.Role] + 1 {
		key := types.NamespacedName{Namespace: g.Namespace, Name: v1alpha1.PodName(g.Name, i.Role, *i.Ordinal, index)}
		pod, ok := c.server.Stored(cluster.Pod, key).(*corev1.Pod)
		switch {
		case !ok || ownerUID(pod) != g.UID:
			return key.Name + " does not exist"
		case !serves(pod):
			return key.Name + " is not Ready"
		}
		if p, _ := placeOf(pod); !c.atPin(g, pod, p) {
			return key.Name + " is not at the pin"
		}
	}
	return ""
}

// explained reports whether a condition says why the ModelServing is not as declared.
func explained(ms *v1alpha1.ModelServing) bool {
	if meta.IsStatusConditionTrue(ms.Status.Conditions, v1alpha1.ConditionBlocked) {
		return true
	}
	c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionProgressing)
	return c != nil && c.Reason == string(v1alpha1.ProgressingPaused)
}

func said(ms *v1alpha1.ModelServing) string {
	var out []string
	for _, c := range ms.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s %s %q", c.Type, c.Status, c.Reason, c.Message))
	}
	return fmt.Sprint(out)
}

// ofReport: the status of a ModelServing that is as declared says so.
func (c *Checker) ofReport(ms *v1alpha1.ModelServing) {
	s, n := ms.Status, *ms.Spec.Replicas
	switch {
	case s.ObservedGeneration != ms.Generation:
		c.ended(ruleReport, "%s: observedGeneration is %d, not %d", ms.Name, s.ObservedGeneration, ms.Generation)
	case s.Replicas != n || s.ReadyReplicas != n || s.AvailableReplicas != n:
		c.ended(ruleReport, "%s: %d replicas, %d ready, %d available instead of %d", ms.Name, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, n)
	case !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionAvailable):
		c.ended(ruleReport, "%s is not Available: %s", ms.Name, said(ms))
	case meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionProgressing):
		c.ended(ruleReport, "%s is still Progressing: %s", ms.Name, said(ms))
	case meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionBlocked) && s.UpdatedReplicas == n:
		c.ended(ruleReport, "%s is Blocked: %s", ms.Name, said(ms))
	}
}

// ofLeftovers: what belongs to nobody who lives, or is still held, was forgotten.
func (c *Checker) ofLeftovers(rests End) {
	live := map[string]bool{}
	for _, o := range c.server.All(cluster.ModelServing) {
		live[string(o.GetUID())] = true
	}
	var pods []string
	for _, o := range c.server.All(cluster.ServingGroup) {
		g := o.(*v1alpha1.ServingGroup)
		live[string(g.UID)] = true
		if ownerUID(g) != "" && !live[string(ownerUID(g))] {
			c.ended(ruleEnd, "ServingGroup %s outlives its ModelServing", g.Name)
		}
		pods = append(pods, c.expected(g)...)
	}
	for _, o := range c.server.All(cluster.Pod) {
		c.ofLeftPin(o.(*corev1.Pod))
		c.ofLeftPod(o.(*corev1.Pod), pods, live)
		if rests {
			c.ofHolds(o.(*corev1.Pod))
		}
	}
	for _, kind := range []string{cluster.Service, cluster.InPlaceUpdate} {
		for _, o := range c.server.All(kind) {
			if owner := ownerUID(o); kind == cluster.Service && owner != "" && (!live[string(owner)] || !slices.Contains(pods, o.GetName())) {
				c.ended(ruleEnd, "%s %s was left behind", kind, o.GetName())
			}
			if kind == cluster.InPlaceUpdate && !live[string(o.GetOwnerReferences()[0].UID)] {
				c.ended(ruleEnd, "%s %s was left behind", kind, o.GetName())
			}
		}
	}
}

// expected are the names of a group's Pods.
func (c *Checker) expected(g *v1alpha1.ServingGroup) []string {
	var out []string
	for _, i := range g.Spec.Instances {
		for index := range c.facts(g, pinOf(g, v1alpha1.UnitName(i.Role, *i.Ordinal))).workers[i.Role] + 1 {
			out = append(out, v1alpha1.PodName(g.Name, i.Role, *i.Ordinal, index))
		}
	}
	return out
}

// ofHolds: no hold outlives its update.
func (c *Checker) ofHolds(pod *corev1.Pod) {
	p, _ := placeOf(pod)
	g, ok := c.server.Stored(cluster.ServingGroup, p.group).(*v1alpha1.ServingGroup)
	if holds := readiness.Holds(pod); ok && len(holds) > 0 && len(g.Spec.Updates) == 0 && pod.DeletionTimestamp == nil {
		c.ended(ruleEnd, "Pod %s is still held: %v", pod.Name, holds)
	}
}

func (c *Checker) ofLeftPod(pod *corev1.Pod, expected []string, live map[string]bool) {
	live[string(pod.UID)] = true
	p, ok := placeOf(pod)
	if !ok {
		return
	}
	if !live[string(p.groupUID)] || !slices.Contains(expected, pod.Name) {
		c.ended(ruleEnd, "Pod %s was left behind", pod.Name)
	}
	if !p.labels(pod) {
		c.ended(ruleEnd, "Pod %s has labels %v", pod.Name, pod.Labels)
	}
}
