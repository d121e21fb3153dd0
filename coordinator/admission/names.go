package admission

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pitstop.dev/api/v1alpha1"
)

// The limits of the schema, which scaling cannot exceed.
const (
	maxReplicas  = 20000 // of spec.replicas
	maxInstances = 8000  // of a ServingGroup's spec.instances
)

// nameErrors judges the names that are made from the ModelServing's: those of Pods, which are host
// names and DNS names of Services too, hence DNS-1035 labels. The other names, of ServingGroups and
// revisions, are shorter or are cut.
func nameErrors(ms *v1alpha1.ModelServing) field.ErrorList {
	path := field.NewPath("metadata", "name")
	var errs field.ErrorList
	if len(ms.Name) <= validation.DNS1035LabelMaxLength && len(validation.IsDNS1035Label(ms.Name)) > 0 {
		errs = append(errs, field.Invalid(path, ms.Name, "must start with a lower-case letter, end with a letter or digit, and hold only"+
			" lower-case letters, digits and '-': names of Pods and Services start with it"))
	}
	longest := ""
	for i := range ms.Spec.Template.Roles {
		if name := longestPodName(ms, &ms.Spec.Template.Roles[i]); len(name) > len(longest) {
			longest = name
		}
	}
	over := len(longest) - validation.DNS1035LabelMaxLength
	switch {
	case over <= 0:
	case over < len(ms.Name):
		errs = append(errs, field.Invalid(path, ms.Name, fmt.Sprintf("must be no more than %d characters, or names of roles shorter:"+
			" %d ServingGroups, which is as far as scaling goes, would have a Pod %q of %d characters, and names of Pods have at most %d",
			len(ms.Name)-over, maxReplicas, longest, len(longest), validation.DNS1035LabelMaxLength)))
	default: // not reached with the schema's limits
		errs = append(errs, field.Invalid(rolesPath(), longest, "names of Pods have at most 63 characters: shorten the names of the roles"))
	}
	return errs
}

// longestPodName is the longest name that a Pod of the role can get, at any number of replicas: an
// ordinal is always below what may live at one time.
func longestPodName(ms *v1alpha1.ModelServing, role *v1alpha1.Role) string {
	groups := int64(maxReplicas) + int64(groupBudget(&ms.Spec, maxReplicas).surge)
	instances := int64(instancesOf(role)) + int64(roleBudget(&ms.Spec, role).surge)
	group := v1alpha1.ServingGroupName(ms.Name, last(groups))
	return v1alpha1.PodName(group, role.Name, last(instances), role.WorkerReplicas)
}

// last is the highest ordinal of n.
func last(n int64) int32 { return int32(min(max(n-1, 0), math.MaxInt32)) }
