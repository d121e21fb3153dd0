package revision

import (
	"k8s.io/apimachinery/pkg/util/sets"

	"pitstop.dev/api/v1alpha1"
)

// References returns the names of the revisions that a ModelServing and its ServingGroups need:
// what is pinned, led to or come from, and what Pods were last seen at.
func References(ms *v1alpha1.ModelServing, groups []v1alpha1.ServingGroup) sets.Set[string] {
	names := sets.New(ms.Status.CurrentRevision, ms.Status.UpdateRevision)
	for i := range groups {
		g := &groups[i]
		names.Insert(g.Spec.Revision)
		for _, instance := range g.Spec.Instances {
			names.Insert(instance.Revision)
		}
		for _, update := range g.Spec.Updates {
			names.Insert(update.Target, update.Previous)
		}
		for _, instance := range g.Status.Instances {
			names.Insert(instance.Revision)
		}
	}
	return names.Delete("")
}
