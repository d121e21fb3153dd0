package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
)

// A budget is what a rollout may do at one level, in numbers.
type budget struct{ replicas, unavailable, surge, partition int32 }

// stalls reports that units are to be updated and none ever may be.
func (b budget) stalls(method v1alpha1.UpdateMethod) bool {
	surges := b.surge > 0 && method != v1alpha1.UpdateInPlace
	return b.replicas > b.partition && b.unavailable == 0 && !surges
}

// groupBudget is the budget over ServingGroups, at that many replicas. With RoleRollingUpdate no
// group is updated as a whole, so nothing may be added or missing.
func groupBudget(s *v1alpha1.ModelServingSpec, replicas int32) budget {
	if s.RolloutStrategy.Type == v1alpha1.RoleRollingUpdate {
		return budget{replicas: replicas}
	}
	c := ptr.Deref(s.RolloutStrategy.RollingUpdateConfiguration, v1alpha1.RollingUpdateConfiguration{})
	return budget{
		replicas:    replicas,
		unavailable: scaled(orInt(c.MaxUnavailable, 1), replicas, roundDown),
		surge:       scaled(orInt(c.MaxSurge, 0), replicas, roundUp),
		partition:   scaled(orInt(c.Partition, 0), replicas, roundUp),
	}
}

// roleBudget is the budget over the instances of a role in one ServingGroup.
func roleBudget(s *v1alpha1.ModelServingSpec, r *v1alpha1.Role) budget {
	n := instancesOf(r)
	if s.RolloutStrategy.Type != v1alpha1.RoleRollingUpdate {
		return budget{replicas: n}
	}
	return budget{
		replicas:    n,
		unavailable: scaled(orInt(r.MaxUnavailable, 1), n, roundDown),
		surge:       scaled(orInt(r.MaxSurge, 0), n, roundUp),
		partition:   scaled(orInt(r.Partition, 0), n, roundUp),
	}
}

func instancesOf(r *v1alpha1.Role) int32 { return ptr.Deref(r.Replicas, 1) }

func replicasOf(s *v1alpha1.ModelServingSpec) int32 { return ptr.Deref(s.Replicas, 1) }

func orInt(v *intstr.IntOrString, n int) intstr.IntOrString { return ptr.Deref(v, intstr.FromInt(n)) }

type rounding bool

const (
	roundDown rounding = false
	roundUp   rounding = true
)

// scaled resolves a number or a percentage of total. The schema keeps malformed ones out.
func scaled(v intstr.IntOrString, total int32, r rounding) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, int(total), bool(r))
	if err != nil {
		return 0
	}
	return int32(n)
}

// budgetErrors refuses budgets under which no unit could ever be updated. They come about by
// scaling too, so whoever changes the spec later has to put them right.
func budgetErrors(s *v1alpha1.ModelServingSpec) field.ErrorList {
	if s.RolloutStrategy.Type != v1alpha1.RoleRollingUpdate {
		b := groupBudget(s, replicasOf(s))
		if !b.stalls(s.RolloutStrategy.UpdateMethod) {
			return nil
		}
		c := ptr.Deref(s.RolloutStrategy.RollingUpdateConfiguration, v1alpha1.RollingUpdateConfiguration{})
		return field.ErrorList{stall{
			path: strategyPath().Child("rollingUpdateConfiguration"), units: "replicas", method: s.RolloutStrategy.UpdateMethod,
			surge: orInt(c.MaxSurge, 0), unavailable: orInt(c.MaxUnavailable, 1),
		}.err(b)}
	}
	var errs field.ErrorList
	for i := range s.Template.Roles {
		r := &s.Template.Roles[i]
		if b := roleBudget(s, r); b.stalls(s.RolloutStrategy.UpdateMethod) {
			errs = append(errs, stall{
				path: rolePath(i), units: "instances of the role", method: s.RolloutStrategy.UpdateMethod,
				surge: orInt(r.MaxSurge, 0), unavailable: orInt(r.MaxUnavailable, 1),
			}.err(b))
		}
	}
	return errs
}

// A stall is a budget of nothing, as it was declared.
type stall struct {
	path               *field.Path
	units              string
	method             v1alpha1.UpdateMethod
	unavailable, surge intstr.IntOrString
}

func (s stall) err(b budget) *field.Error {
	if s.method == v1alpha1.UpdateInPlace {
		return field.Invalid(s.path.Child("maxUnavailable"), s.unavailable.String(), fmt.Sprintf(
			"is 0 of %d %s, and updateMethod InPlace takes each out of service for a while, so none could ever be updated: set maxUnavailable to at least 1 or %d%%",
			b.replicas, s.units, b.whole()))
	}
	return field.Invalid(s.path.Child("maxUnavailable"), s.unavailable.String(), fmt.Sprintf(
		"is 0 of %d %s, and maxSurge %s is 0 too, so none could ever be updated: set maxUnavailable to at least 1 or %d%%, or maxSurge to at least 1",
		b.replicas, s.units, s.surge.String(), b.whole()))
}

// whole is the least percentage that comes to a unit.
func (b budget) whole() int32 { return (100 + b.replicas - 1) / b.replicas }

// roleErrors judges what roles say of rollouts, and how many instances they ask for.
func roleErrors(s *v1alpha1.ModelServingSpec) field.ErrorList {
	var errs field.ErrorList
	instances := int64(0)
	for i := range s.Template.Roles {
		r := &s.Template.Roles[i]
		instances += int64(instancesOf(r)) + int64(roleBudget(s, r).surge)
		if s.RolloutStrategy.Type != v1alpha1.RoleRollingUpdate {
			errs = append(errs, strayBudget(r, rolePath(i))...)
			continue
		}
		if u, n := r.MaxUnavailable, instancesOf(r); u != nil && u.Type == intstr.Int && n > 0 && u.IntVal > n {
			errs = append(errs, field.Invalid(rolePath(i).Child("maxUnavailable"), u.IntVal, fmt.Sprintf(
				"must be no more than the role's replicas, %d", n)))
		}
	}
	if instances > maxInstances {
		errs = append(errs, field.Invalid(rolesPath(), instances, fmt.Sprintf(
			"must add up to no more than %d role instances in a ServingGroup, maxSurge included", maxInstances)))
	}
	return errs
}

// strayBudget refuses a role's own budget where the rollout is one over ServingGroups.
func strayBudget(r *v1alpha1.Role, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"maxUnavailable", r.MaxUnavailable}, {"maxSurge", r.MaxSurge}, {"partition", r.Partition}} {
		if f.value != nil {
			errs = append(errs, field.Forbidden(path.Child(f.name), fmt.Sprintf(
				"%s belongs to rolloutStrategy.type RoleRollingUpdate: with ServingGroupRollingUpdate set rolloutStrategy.rollingUpdateConfiguration.%s",
				f.value.String(), f.name)))
		}
	}
	return errs
}
