package modelserving

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// maxMessage keeps a condition readable; the API server's limit is far above it.
const maxMessage = 2048

// report writes the status, if it says anything new, and tells what has changed.
func (p *pass) report(ctx context.Context) error { return p.publish(ctx, p.reported()) }

// reported is the ModelServing with the status as the plan, and what the actions have met, has it.
func (p *pass) reported() *v1alpha1.ModelServing {
	ms, report := p.draft(), p.decided.Report
	st := &ms.Status
	st.ObservedGeneration, st.Selector, st.Updating = ms.Generation, selector(ms.Name), p.ledger()
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpdatedReplicas = report.Replicas, report.Ready, report.Available, report.Updated
	st.UpdateRevision = p.target
	if st.RejectedRevision != p.target {
		st.RejectedRevision = "" // it is the template's no longer
	}
	if report.Complete {
		st.CurrentRevision = p.target
	}
	p.answered(st)
	p.set(ms, v1alpha1.ConditionAvailable, report.Enough)
	p.set(ms, v1alpha1.ConditionProgressing, report.Progressing)
	if blocked, known := p.blocked(report.Blocked); known {
		p.set(ms, v1alpha1.ConditionBlocked, blocked)
	}
	return ms
}

// refused says whether the revision of the spec cannot be stored before a person has changed something.
func refused(err error) bool {
	return errors.Is(err, errNoRevision) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// reportUnstored says that nothing goes on since the target's revision cannot be stored.
func (p *pass) reportUnstored(ctx context.Context, cause error) error {
	ms := p.draft()
	ms.Status.ObservedGeneration, ms.Status.Selector = ms.Generation, selector(ms.Name)
	p.set(ms, v1alpha1.ConditionBlocked, plan.Verdict{
		True: true, Reason: v1alpha1.BlockedRevision,
		Message: fmt.Sprintf("the revision of the spec is not stored, so nothing is created or updated: %v; it is tried again every %s", cause, refusedRetry),
	})
	return p.publish(ctx, ms)
}

// publish writes the status and then, once it stands, tells of the change.
func (p *pass) publish(ctx context.Context, ms *v1alpha1.ModelServing) error {
	was := p.ms.Status
	if _, err := p.writeStatus(ctx, ms); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	p.tell(was)
	p.metrics.show(p)
	return nil
}

// draft is the ModelServing with a status of its own, to be changed. It shares the rest.
func (p *pass) draft() *v1alpha1.ModelServing {
	ms := *p.ms
	ms.Status = *p.ms.Status.DeepCopy()
	return &ms
}

// writeStatus writes ms unless it says what is known already.
func (p *pass) writeStatus(ctx context.Context, ms *v1alpha1.ModelServing) (bool, error) {
	if equality.Semantic.DeepEqual(&ms.Status, &p.ms.Status) {
		return false, nil
	}
	return true, p.replaceStatus(ctx, ms)
}

// replaceStatus writes ms, bound to the version that was read. Once that succeeded, and only then, it
// takes the place of the pass's own.
func (p *pass) replaceStatus(ctx context.Context, ms *v1alpha1.ModelServing) error {
	ms = ms.DeepCopy() // the answer is read into it
	if err := p.Client.Status().Update(ctx, ms); err != nil {
		return gone(err)
	}
	p.ms, p.fresh = ms, true
	return nil
}

// blocked joins what the plan says with what the actions met. It is not known while an action that
// comes before them failed and trouble was reported before.
func (p *pass) blocked(planned plan.Verdict) (v plan.Verdict, known bool) {
	switch {
	case planned.True && p.found.True:
		planned.Message += "; moreover " + string(p.found.Reason) + ": " + p.found.Message
		return planned, true
	case p.found.True:
		return p.found, true
	case !planned.True && !p.acted && p.troubled():
		return plan.Verdict{}, false
	case !planned.True && planned.Reason == "":
		planned.Reason = v1alpha1.NotBlocked
	}
	return planned, true
}

// troubled says whether the condition Blocked is about trouble that only an action can find.
func (p *pass) troubled() bool {
	c := p.condition(v1alpha1.ConditionBlocked)
	if c == nil || c.Status != metav1.ConditionTrue {
		return false
	}
	reason := v1alpha1.ConditionReason(c.Reason)
	return reason == v1alpha1.BlockedName || reason == v1alpha1.BlockedCreate
}

func (p *pass) set(ms *v1alpha1.ModelServing, kind string, v plan.Verdict) {
	meta.SetStatusCondition(&ms.Status.Conditions, metav1.Condition{
		Type: kind, Status: statusOf(v), Reason: string(v.Reason), Message: cut(v.Message, maxMessage),
		ObservedGeneration: ms.Generation, LastTransitionTime: metav1.NewTime(p.now),
	})
}

func statusOf(v plan.Verdict) metav1.ConditionStatus {
	if v.True {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

func (p *pass) condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(p.ms.Status.Conditions, kind)
}

// selector selects one Pod of each ServingGroup, whose number is then that of the replicas.
func selector(name string) string {
	return labels.SelectorFromSet(labels.Set{v1alpha1.LabelModelServing: name, v1alpha1.LabelLeader: "true"}).String()
}
