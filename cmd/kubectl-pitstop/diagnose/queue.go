package diagnose

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/pins"
)

// queue returns the units that are outdated and in no update, and says what they wait for.
func queue(f ServingFacts, d ServingDiagnosis) *Queue {
	q := &Queue{Next: []string{}}
	for _, sg := range f.Groups {
		if sg.DeletionTimestamp == nil {
			q.add(f, sg)
		}
	}
	if done(f.Serving) { // of what has another revision, this rollout changes nothing
		q.Next = []string{}
	}
	if len(q.Next) > 0 {
		q.Why, q.Way = turn(f.Serving, d)
	}
	if len(q.Next)+len(q.Protected) == 0 {
		return nil
	}
	return q
}

func (q *Queue) add(f ServingFacts, sg *v1alpha1.ServingGroup) {
	ms, target := f.Serving, f.Serving.Status.UpdateRevision
	busy := map[string]bool{}
	for _, u := range sg.Spec.Updates {
		busy[u.Unit] = true
	}
	if target == "" || busy[""] {
		return
	}
	if ms.Spec.RolloutStrategy.Type != v1alpha1.RoleRollingUpdate {
		if !f.Pins.Same(pins.Unit{Namespace: ms.Namespace}, sg.Spec.Revision, target) {
			q.sort(sg.Name, ordinal(sg.Spec.Ordinal), groupPartition(ms))
		}
		return
	}
	for _, i := range sg.Spec.Instances {
		pin, unit := cmp.Or(i.Revision, sg.Spec.Revision), v1alpha1.UnitName(i.Role, ordinal(i.Ordinal))
		if !busy[unit] && !f.Pins.Same(pins.Unit{Namespace: ms.Namespace, Role: i.Role}, pin, target) {
			q.sort(v1alpha1.LedgerEntry(sg.Name, unit), ordinal(i.Ordinal), rolePartition(ms, i.Role))
		}
	}
}

func (q *Queue) sort(unit string, ordinal, partition int32) {
	if ordinal < partition {
		q.Protected = append(q.Protected, unit)
		return
	}
	q.Next = append(q.Next, unit)
}

// done reports whether the controller says that nothing is left to update, of the spec as it is.
func done(ms *v1alpha1.ModelServing) bool {
	c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionProgressing)
	if c == nil || ms.Status.ObservedGeneration != ms.Generation {
		return false
	}
	r := v1alpha1.ConditionReason(c.Reason)
	return r == v1alpha1.ProgressingComplete || r == v1alpha1.ProgressingPartition
}

// turn says why outdated units have not been started.
func turn(ms *v1alpha1.ModelServing, d ServingDiagnosis) (why, way string) {
	if ms.Spec.Paused {
		e := explained(ms, metav1.Condition{Reason: string(v1alpha1.ProgressingPaused)})
		return e.Why, e.Way
	}
	if c := blocked(ms.Status.Conditions); c != nil {
		e := explained(ms, *c)
		return e.Why, e.Way
	}
	ahead := false
	for _, w := range d.Waits {
		switch {
		case w.Reason == string(v1alpha1.UnitCancelled) && w.Permit == v1alpha1.PermitPrepare: // it keeps nobody from anything
		case w.Kind == WaitUpdate && w.Permit == v1alpha1.PermitPrepare:
			ahead = true
		case w.Kind == WaitUpdate || w.Kind == WaitReady || w.Kind == WaitDeletion || w.Kind == WaitHeld:
			return "the budget (maxUnavailable, maxSurge) is spent by the units above", "one of those is available again"
		}
	}
	if ahead {
		return "the units above get their images first: no more are prepared at one time than twice the budget", "one of those has been updated"
	}
	return "the controller has not started them yet", "its next look, within seconds"
}

func groupPartition(ms *v1alpha1.ModelServing) int32 {
	if c := ms.Spec.RolloutStrategy.RollingUpdateConfiguration; c != nil {
		return scaled(c.Partition, replicas(ms))
	}
	return 0
}

func rolePartition(ms *v1alpha1.ModelServing, role string) int32 {
	for _, r := range ms.Spec.Template.Roles {
		if r.Name == role && r.Replicas != nil {
			return scaled(r.Partition, *r.Replicas)
		}
		if r.Name == role {
			return scaled(r.Partition, 1)
		}
	}
	return 0
}

// scaled resolves a partition, of which a percentage rounds up. What cannot be read protects nothing:
// the API server would not have stored it.
func scaled(n *intstr.IntOrString, of int32) int32 {
	if n == nil {
		return 0
	}
	v, err := intstr.GetScaledValueFromIntOrPercent(n, int(of), true)
	if err != nil {
		return 0
	}
	return int32(min(v, 1<<30)) //nolint:gosec // bounded
}
