package admission

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/revision"
)

func inPlace(s *v1alpha1.ModelServingSpec) bool {
	return s.RolloutStrategy.UpdateMethod == v1alpha1.UpdateInPlace
}

// surgeErrors refuses a surge where units are updated where they are. A percentage is refused whatever
// it comes to today, as nobody asks when the ModelServing is scaled.
func surgeErrors(s *v1alpha1.ModelServingSpec) field.ErrorList {
	if !inPlace(s) {
		return nil
	}
	var errs field.ErrorList
	judge := func(path *field.Path, surge *intstr.IntOrString) {
		if surge == nil || scaled(*surge, 100, roundUp) == 0 {
			return
		}
		errs = append(errs, field.Invalid(path.Child("maxSurge"), surge.String(),
			"must be 0 with rolloutStrategy.updateMethod InPlace, which makes no further units: set it to 0 or leave it out, or set updateMethod to Recreate"))
	}
	if s.RolloutStrategy.Type != v1alpha1.RoleRollingUpdate {
		c := ptr.Deref(s.RolloutStrategy.RollingUpdateConfiguration, v1alpha1.RollingUpdateConfiguration{})
		judge(strategyPath().Child("rollingUpdateConfiguration"), c.MaxSurge)
		return errs // roles may have none, whatever the method
	}
	for i := range s.Template.Roles {
		judge(rolePath(i), s.Template.Roles[i].MaxSurge)
	}
	return errs
}

// methodErrors lets InPlace in where all units are of one revision: from any other, the step to the target
// may be one that only new Pods can take. Recreate takes every step, so it may come at any time.
func methodErrors(old, updated *v1alpha1.ModelServing) field.ErrorList {
	if !inPlace(&updated.Spec) || inPlace(&old.Spec) {
		return nil
	}
	wait := rolling(old)
	if wait == "" {
		return nil
	}
	return field.ErrorList{field.Forbidden(strategyPath().Child("updateMethod"), fmt.Sprintf(
		"Recreate cannot become InPlace in the middle of a rollout: %s, then change the method; the images may change in the same request", wait))}
}

// rolling says what to wait for until all units are of one revision; empty if they are.
func rolling(ms *v1alpha1.ModelServing) string {
	s := &ms.Status
	switch {
	case len(s.Updating) > 0:
		return fmt.Sprintf("units are in update, or held for a sick GPU (%s): wait until status.updating is empty; one that is held leaves it when its GPU is healthy or its Pods are deleted", some(s.Updating))
	case s.ObservedGeneration == 0 && ms.Generation <= 1:
		return "" // the first change of all, and nothing was made before
	case s.ObservedGeneration != ms.Generation:
		return fmt.Sprintf("the coordinator has not yet seen the last change: wait until status.observedGeneration is %d (it is %d)", ms.Generation, s.ObservedGeneration)
	case s.CurrentRevision != s.UpdateRevision:
		return fmt.Sprintf("not all units are at %s yet: wait until status.currentRevision is that too (it is %s), for which partitions have to be 0",
			s.UpdateRevision, s.CurrentRevision)
	}
	return ""
}

// stepErrors refuses a template that the one before cannot become in place. A part of it is never
// taken: what one role needs keeps the others back too.
func stepErrors(old, updated *v1alpha1.ModelServing) field.ErrorList {
	if !inPlace(&updated.Spec) {
		return nil
	}
	from, err := revision.Project(&old.Spec)
	if err != nil {
		return field.ErrorList{field.InternalError(templatePath(), fmt.Errorf("what is stored cannot be compared: %w", err))}
	}
	to, err := revision.Project(&updated.Spec)
	if err != nil {
		return field.ErrorList{field.InternalError(templatePath(), err)}
	}
	obstacles := revision.Obstacles(from, to)
	if len(obstacles) == 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(templatePath(), fmt.Sprintf(
		"with rolloutStrategy.updateMethod InPlace only images of regular containers may change. In the way: %s. Change only images, or set updateMethod to Recreate in the same request: then new Pods are made",
		strings.Join(obstacles, "; ")))}
}

func templatePath() *field.Path { return field.NewPath("spec", "template") }
