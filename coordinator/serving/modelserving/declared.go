package modelserving

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// declaration resolves what is declared: defaults where a field is absent, and every percentage of
// today's replicas.
func declaration(ms *v1alpha1.ModelServing) (plan.Serving, error) {
	strategy := ms.Spec.RolloutStrategy
	s := plan.Serving{
		Name: ms.Name, Replicas: ptr.Deref(ms.Spec.Replicas, 1), Paused: ms.Spec.Paused,
		Type: cmp.Or(strategy.Type, v1alpha1.ServingGroupRollingUpdate), MinReady: seconds(strategy.MinReadySeconds),
		Deadline: seconds(ptr.Deref(ms.Spec.ProgressDeadlineSeconds, 1800)),
		InPlace:  strategy.UpdateMethod == v1alpha1.UpdateInPlace,
		Rollback: strategy.InPlace.OnFailure == v1alpha1.FailureRollback,
	}
	n := numbers{total: s.Replicas}
	if s.Type == v1alpha1.ServingGroupRollingUpdate {
		budget := ptr.Deref(strategy.RollingUpdateConfiguration, v1alpha1.RollingUpdateConfiguration{})
		s.MaxUnavailable = n.down(budget.MaxUnavailable)
		s.MaxSurge = n.up(budget.MaxSurge)
		s.Partition = n.up(budget.Partition)
	} else if strategy.MaxUnavailableGroups != nil {
		s.MaxUnavailableGroups = max(1, n.down(strategy.MaxUnavailableGroups))
	}
	if n.err != nil {
		return s, fmt.Errorf("rolloutStrategy: %w", n.err)
	}
	if err := declareRoles(&s, ms.Spec.Template.Roles); err != nil {
		return s, err
	}
	if s.InPlace { // what is updated in place needs no stand-in; admission refuses any other number
		s.MaxSurge = 0
		for i := range s.Roles {
			s.Roles[i].MaxSurge = 0
		}
	}
	return s, nil
}

func declareRoles(s *plan.Serving, roles []v1alpha1.Role) error {
	for _, r := range roles {
		n := numbers{total: ptr.Deref(r.Replicas, 1)}
		s.Roles = append(s.Roles, plan.Role{
			Name: r.Name, Replicas: n.total,
			MaxUnavailable: n.down(r.MaxUnavailable), MaxSurge: n.up(r.MaxSurge), Partition: n.up(r.Partition),
		})
		if n.err != nil {
			return fmt.Errorf("role %s: %w", r.Name, n.err)
		}
	}
	slices.SortFunc(s.Roles, func(a, b plan.Role) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// numbers resolves numbers and percentages of one total. The first that cannot be read is err.
type numbers struct {
	total int32
	err   error
}

// up is 0 where v is absent.
func (n *numbers) up(v *intstr.IntOrString) int32 {
	return n.keep(intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(v, intstr.FromInt32(0)), int(n.total), true))
}

// down is 1 where v is absent.
func (n *numbers) down(v *intstr.IntOrString) int32 {
	return n.keep(intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(v, intstr.FromInt32(1)), int(n.total), false))
}

func (n *numbers) keep(v int, err error) int32 {
	n.err = cmp.Or(n.err, err)
	return int32(v)
}
