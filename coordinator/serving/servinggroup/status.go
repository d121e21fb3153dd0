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
// It returns after what time it is to be called again because trifles were left out: a change of every
// Pod is not worth a write of its own.
func (r *Reconciler) report(ctx context.Context, s *sight, plan pods.Plan, out outcome) (time.Duration, error) {
	if out.gone {
		r.forget(s.key())
		return 0, nil
	}
	old := s.sg.Status
	if out.blocked.True && (out.blocked.Reason != v1alpha1.BlockedPin || !plan.Blocked.True) { // what prepares is never the gravest
		override(&plan.Status, old, out.blocked, s.snap.Now)
	}
	for _, p := range out.pins {
		p.say(&plan.Status)
	}
	wait, err := r.write(ctx, s, plan.Status)
	if err != nil {
		return 0, fmt.Errorf("report: %w", err)
	}
	r.tell(s, plan, old)
	r.metrics.observe(s, plan, out)
	return wait, nil
}

// write writes the status if it is new, or returns how long that may wait.
func (r *Reconciler) write(ctx context.Context, s *sight, st v1alpha1.ServingGroupStatus) (time.Duration, error) {
	if !equality.Semantic.DeepEqual(s.sg.Status, st) {
		if trifling(s.sg.Status, st) {
			if left := r.patience.left(s.key(), s.snap.Now, r.cfg.Trifles); left > 0 {
				return left, nil
			}
		}
		sg := s.sg.DeepCopy()
		sg.Status = st
		if err := r.cfg.Client.Status().Update(ctx, sg); err != nil {
			return 0, err
		}
	}
	r.patience.end(s.key())
	return 0, nil
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
