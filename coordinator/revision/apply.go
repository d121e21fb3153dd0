package revision

import (
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// Apply writes what the revision says into a spec and leaves the rest as it is: replicas, budgets
// and partitions stay those of today. Of roles that are not there, those of the revision come with one
// replica, after the others, and those that the revision lacks go.
//
// What the API server fills in stays left out. A template of workers that are none stays as it is.
func (d Data) Apply(spec *v1alpha1.ModelServingSpec) {
	spec.SchedulerName = d.SchedulerName
	var roles []v1alpha1.Role
	for _, today := range spec.Template.Roles {
		if r, ok := d.Role(today.Name); ok {
			roles = append(roles, r.apply(today))
		}
	}
	for _, r := range d.Roles {
		if !slices.ContainsFunc(roles, func(other v1alpha1.Role) bool { return other.Name == r.Name }) {
			roles = append(roles, r.apply(v1alpha1.Role{Name: r.Name, Replicas: new(int32(1))}))
		}
	}
	spec.Template.Roles = roles
}

func (r Role) apply(role v1alpha1.Role) v1alpha1.Role {
	role.WorkerReplicas = r.WorkerReplicas
	role.EntryTemplate = *r.EntryTemplate.DeepCopy()
	if r.WorkerTemplate != nil {
		role.WorkerTemplate = r.WorkerTemplate.DeepCopy()
	}
	return role
}
