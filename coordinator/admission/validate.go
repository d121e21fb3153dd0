// Package admission refuses ModelServings that could not work, and says what would be right.
//
// The schema of the ModelServing says what it can: types, limits, and rules between the fields of
// one struct. Validate says the rest: what takes arithmetic, Pod templates, and the object as it
// was. Neither is asked about scaling, status or deletion, so what holds has to hold after any
// scaling too, or the ModelServing controller reports it.
package admission

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"pitstop.dev/api/v1alpha1"
)

// Validate judges a ModelServing as the API server is about to store it, after defaults. old is
// what is stored, nil on creation. Warnings say what is legal and probably not meant.
//
// A mistake that old has too, as an earlier version let it pass, is only warned of: it must not
// keep anybody from changing something else.
func Validate(old, updated *v1alpha1.ModelServing) (warnings []string, errs field.ErrorList) {
	warnings = warningsOf(updated)
	lasting := lastingErrors(updated)
	if old == nil {
		return warnings, append(lasting, budgetErrors(&updated.Spec)...)
	}
	known := lastingErrors(old)
	for _, err := range lasting {
		if slices.ContainsFunc(known, func(k *field.Error) bool { return sameMistake(k, err) }) {
			warnings = append(warnings, err.Error()+" (stored so before)")
			continue
		}
		errs = append(errs, err)
	}
	errs = append(errs, budgetErrors(&updated.Spec)...)
	return warnings, append(errs, transitionErrors(old, updated)...)
}

// lastingErrors are the mistakes that no scaling brings about or heals.
func lastingErrors(ms *v1alpha1.ModelServing) field.ErrorList {
	errs := nameErrors(ms)
	errs = append(errs, roleErrors(&ms.Spec)...)
	errs = append(errs, surgeErrors(&ms.Spec)...)
	for i := range ms.Spec.Template.Roles {
		role := &ms.Spec.Template.Roles[i]
		path := rolePath(i)
		errs = append(errs, templateErrors(&role.EntryTemplate, path.Child("entryTemplate"))...)
		if role.WorkerTemplate != nil {
			errs = append(errs, templateErrors(role.WorkerTemplate, path.Child("workerTemplate"))...)
		}
	}
	return errs
}

func sameMistake(a, b *field.Error) bool {
	return a.Type == b.Type && a.Field == b.Field && fmt.Sprint(a.BadValue) == fmt.Sprint(b.BadValue)
}

func strategyPath() *field.Path { return field.NewPath("spec", "rolloutStrategy") }

func rolesPath() *field.Path { return field.NewPath("spec", "template", "roles") }

func rolePath(i int) *field.Path { return rolesPath().Index(i) }
