package diagnose

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// sickWaits are the units of a group that are held for a sick GPU, and those that serve on with one.
func sickWaits(f ServingFacts, sg *v1alpha1.ServingGroup) []Wait {
	var all []Wait
	held := sg.Spec.GPUHolds
	for _, unit := range held {
		w := sickWait(f, sg, unit)
		w.Kind, w.Summary = WaitHeld, "is kept out of traffic for a sick GPU"
		w.Since = downSince(sg, unit)
		w.Way += "; it then goes back in traffic by itself"
		if w.Message == "" {
			w.Why, w.Way = "no GPU of it is known to be sick any more", "the controller lets go of it at its next look, within seconds"
		}
		all = append(all, w)
	}
	seen := map[string]bool{}
	for _, s := range sg.Status.Instances {
		unit := ""
		if f.Serving.Spec.RolloutStrategy.Type == v1alpha1.RoleRollingUpdate {
			unit = v1alpha1.UnitName(s.Role, ordinal(s.Ordinal))
		}
		if s.GPUFault == "" || seen[unit] || slices.Contains(held, unit) || sg.DeletionTimestamp != nil {
			continue
		}
		seen[unit] = true
		w := sickWait(f, sg, unit)
		w.Kind, w.Summary = WaitSick, "serves on with a sick GPU: the budget (maxUnavailable) has no place for it, or something else goes on with it"
		all = append(all, w)
	}
	return all
}

// sickWait names the Pods of the unit that have a sick GPU, and what the first of them needs.
func sickWait(f ServingFacts, sg *v1alpha1.ServingGroup, unit string) Wait {
	w := Wait{Unit: v1alpha1.LedgerEntry(sg.Name, unit)}
	sick := sickIn(f, sg, unit)
	if len(sick) == 0 {
		sick = faults(sg, unit)
	}
	if len(sick) == 0 {
		return w
	}
	w.Reason, w.Why, w.Way = string(sick[0].Reason), sick[0].Why, sick[0].Way
	var texts []string
	for _, s := range sick {
		texts = append(texts, s.text())
	}
	w.Message = few(texts, "; ")
	return w
}

// sickIn are the Pods of a unit that have a sick GPU; the group as a whole has no name.
func sickIn(f ServingFacts, sg *v1alpha1.ServingGroup, unit string) []Sick {
	var all []Sick
	for _, p := range f.Pods {
		if !metav1.IsControlledBy(p, sg) || unit != "" && unit != unitOf(p) {
			continue
		}
		if s, sick := sickOf(p); sick {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Sick) int { return cmp.Compare(a.Pod, b.Pod) })
	return all
}

// downSince is since when Pods of the unit are out of traffic, nil if that is not known.
func downSince(sg *v1alpha1.ServingGroup, unit string) *metav1.Time {
	var first *metav1.Time
	for _, s := range sg.Status.Instances {
		if unit != "" && unit != v1alpha1.UnitName(s.Role, ordinal(s.Ordinal)) || s.DownSince == nil {
			continue
		}
		if first == nil || s.DownSince.Before(first) {
			first = s.DownSince
		}
	}
	return first
}

// heldForGPU reports whether a role instance is held for a sick GPU.
func heldForGPU(sg *v1alpha1.ServingGroup, unit string) bool {
	return slices.Contains(sg.Spec.GPUHolds, "") || slices.Contains(sg.Spec.GPUHolds, unit)
}

// firstSick is the place of the first sick GPU of all groups.
func firstSick(f ServingFacts) Place {
	for _, sg := range f.Groups {
		for _, s := range sickIn(f, sg, "") {
			return Place{s.Node, FirstGPUs(s.Message)}
		}
	}
	return Place{}
}
