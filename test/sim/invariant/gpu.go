package invariant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// ofGPUHolds: a unit is held for a sick GPU within the budget, as if it were taken for an update.
func (c *Checker) ofGPUHolds(w cluster.Write, ms *v1alpha1.ModelServing, before, after *v1alpha1.ServingGroup) {
	for _, unit := range after.Spec.GPUHolds {
		if slices.Contains(before.Spec.GPUHolds, unit) {
			continue
		}
		entry := v1alpha1.LedgerEntry(after.Name, unit)
		if !slices.Contains(ms.Status.Updating, entry) {
			c.violated(w, ruleLedger, "%s is held for a GPU and not in the ledger %v", entry, ms.Status.Updating)
		}
		if openOf(before, unit) != nil {
			c.violated(w, ruleGPU, "%s is in update", entry)
		}
		if !slices.ContainsFunc(before.Status.Instances, func(i v1alpha1.InstanceStatus) bool {
			return i.GPUFault != "" && (unit == "" || v1alpha1.UnitName(i.Role, *i.Ordinal) == unit)
		}) {
			c.violated(w, ruleGPU, "no GPU of %s is sick", entry)
		}
		c.ofBudget(w, ms, before, v1alpha1.UnitUpdate{Unit: unit})
	}
}

// ofGPUHold: a Pod gets the hold where its unit was granted it, as far as its controller could know.
func (c *Checker) ofGPUHold(w cluster.Write, before, after *corev1.Pod, g *v1alpha1.ServingGroup, p place) {
	_, had := before.Annotations[v1alpha1.HoldGPUHealth]
	_, has := after.Annotations[v1alpha1.HoldGPUHealth]
	if had || !has {
		return
	}
	known := []client.Object{g}
	if w.Frame != nil {
		known = append(known, c.server.Versions(cluster.ServingGroup, client.ObjectKeyFromObject(g), w.Frame.AsOf(cluster.ServingGroup))...)
	}
	if !slices.ContainsFunc(known, func(o client.Object) bool {
		g, ok := o.(*v1alpha1.ServingGroup)
		return ok && (slices.Contains(g.Spec.GPUHolds, "") || slices.Contains(g.Spec.GPUHolds, p.unit))
	}) {
		c.violated(w, ruleGPU, "the hold was not granted to %s", p.unit)
	}
}
