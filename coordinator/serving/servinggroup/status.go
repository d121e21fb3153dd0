package servinggroup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// report writes the status if it says anything new, and tells of that by events once it is stored.
func (r *Reconciler) report(ctx context.Context, s *sight, plan pods.Plan, out outcome) error {
	if out.gone {
		r.metrics.forget(s.key())
		return nil
	}
	old := s.sg.Status
	if out.blocked.True {
		override(&plan.Status, old, out.blocked, s.snap.Now)
	}
	if !equality.Semantic.DeepEqual(&old, &plan.Status) {
		sg := s.sg.DeepCopy()
		sg.Status = plan.Status
		if err := r.cfg.Client.Status().Update(ctx, sg); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	r.tell(s, plan, old)
	r.metrics.observe(s, plan, out)
	return nil
}

// override has Blocked say what was refused in this pass: that is more urgent than what merely takes
// long. It follows what the condition said before, so that its time stays where it was the same.
func override(st *v1alpha1.ServingGroupStatus, old v1alpha1.ServingGroupStatus, v pods.Verdict, now time.Time) {
	before := meta.FindStatusCondition(old.Conditions, v1alpha1.ConditionBlocked)
	for n := range st.Conditions {
		if st.Conditions[n].Type == v1alpha1.ConditionBlocked && before != nil {
			st.Conditions[n] = *before
		}
	}
	pods.SetCondition(st, v1alpha1.ConditionBlocked, v, metav1.NewTime(now).Rfc3339Copy())
}

// blockedBy returns the reason of the condition Blocked; empty if it is not True.
func blockedBy(st v1alpha1.ServingGroupStatus) (reason, message string) {
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionBlocked)
	if c == nil || c.Status != metav1.ConditionTrue {
		return "", ""
	}
	return c.Reason, c.Message
}
