package modelserving

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// troubles are what a pass met that a person has to look at. They go into the condition Blocked.
type troubles struct {
	acted   bool // whether all actions were taken, so that found is complete
	found   plan.Verdict
	retryIn time.Duration
}

// trouble keeps the first of its kind: one name is enough to go and look.
func (t *troubles) trouble(reason v1alpha1.ConditionReason, message string) {
	t.retryIn = refusedRetry
	if !t.found.True {
		t.found = plan.Verdict{True: true, Reason: reason, Message: message}
	}
}

// again is when to look again: at what the plan says, and soon if there is trouble whose end
// nothing tells.
func (t *troubles) again(recheck time.Duration) time.Duration {
	if t.retryIn > 0 && (recheck <= 0 || t.retryIn < recheck) {
		return t.retryIn
	}
	return recheck
}

// create makes a ServingGroup. A creation has no version that it could be bound to, so the
// ModelServing is read live first: a former leader makes no groups for what was declared once.
func (p *pass) create(ctx context.Context, a plan.Action) (bool, error) {
	if err := p.confirm(ctx); err != nil {
		return false, err
	}
	sg := &v1alpha1.ServingGroup{ObjectMeta: p.child(a.Group), Spec: *a.Spec.DeepCopy()}
	sg.Finalizers = []string{v1alpha1.FinalizerOrdinal}
	err := p.Client.Create(ctx, sg)
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, p.collide(ctx, a.Group)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false, nil // all that is here goes
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		p.trouble(v1alpha1.BlockedCreate, fmt.Sprintf("ServingGroup %s is not created: %v; it is tried again every %s", a.Group, err, refusedRetry))
		return false, nil
	}
	return err == nil, err
}

// child is the metadata of an object that the ModelServing owns.
func (p *pass) child(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: p.ms.Namespace, Name: name,
		Labels:          map[string]string{v1alpha1.LabelModelServing: p.ms.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.ms, v1alpha1.GroupVersion.WithKind("ModelServing"))},
	}
}

// confirm makes sure, once a pass, that the ModelServing is still the one that was read.
func (p *pass) confirm(ctx context.Context) error {
	if p.fresh {
		return nil
	}
	var live v1alpha1.ModelServing
	err := p.Live.Get(ctx, client.ObjectKeyFromObject(p.ms), &live)
	if apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return err
	}
	if live.UID != p.ms.UID || live.ResourceVersion != p.ms.ResourceVersion {
		return errStale
	}
	p.fresh = true
	return nil
}

// collide finds out whose the ServingGroup of a taken name is. One of our own means that the cache
// is behind; nobody else's is adopted.
func (p *pass) collide(ctx context.Context, name string) error {
	var other v1alpha1.ServingGroup
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.ms.Namespace, Name: name}, &other)
	if apierrors.IsNotFound(err) || err == nil && metav1.IsControlledBy(&other, p.ms) {
		return errStale
	}
	if err != nil {
		return err
	}
	p.trouble(v1alpha1.BlockedName, fmt.Sprintf("ServingGroup %s exists and belongs to %s; this clears within %s after it is gone", name, owner(&other), refusedRetry))
	return nil
}

func owner(obj metav1.Object) string {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return fmt.Sprintf("%s %s (UID %s)", ref.Kind, ref.Name, ref.UID)
	}
	return "nobody"
}
