package servinggroup

import (
	"context"
	"fmt"

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
	if out.blocked.True {
		// What was refused in this pass is more urgent than what merely takes long.
		pods.SetCondition(&plan.Status, v1alpha1.ConditionBlocked, out.blocked, metav1.NewTime(s.snap.Now).Rfc3339Copy())
	}
	old := s.sg.Status
	if !equality.Semantic.DeepEqual(old, plan.Status) {
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

// blockedBy returns the reason of the condition Blocked; empty if it is not True.
func blockedBy(st v1alpha1.ServingGroupStatus) (reason, message string) {
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionBlocked)
	if c == nil || c.Status != metav1.ConditionTrue {
		return "", ""
	}
	return c.Reason, c.Message
}
