package admission

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"pitstop.dev/api/v1alpha1"
)

// transitionErrors judges the step from what is stored to what is asked for.
func transitionErrors(old, updated *v1alpha1.ModelServing) field.ErrorList {
	errs := typeErrors(old, updated)
	errs = append(errs, methodErrors(old, updated)...)
	return append(errs, stepErrors(old, updated)...)
}

// typeErrors keeps the type while units are in update.
//
// Such a unit is either a group or an instance of one. If the type changed in the middle, an
// instance and its group could be taken out of service at one time, each within its own budget. The
// ledger is written with the object's resourceVersion, so no unit can be entered unseen meanwhile.
func typeErrors(old, updated *v1alpha1.ModelServing) field.ErrorList {
	before, after := old.Spec.RolloutStrategy.Type, updated.Spec.RolloutStrategy.Type
	if before == after || len(old.Status.Updating) == 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(strategyPath().Child("type"), fmt.Sprintf(
		"%s cannot become %s while units are in update, or held for a sick GPU (%s): set spec.paused, wait until status.updating is empty, then change the type; one that is held leaves it when its GPU is healthy or its Pods are deleted",
		before, after, some(old.Status.Updating)))}
}

// some names the first few.
func some(names []string) string {
	const enough = 3
	if len(names) <= enough {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:enough], ", "), len(names)-enough)
}
