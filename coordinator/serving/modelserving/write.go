package modelserving

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/coordinator/revision"
)

// writeAll makes writes that need not wait for each other, side by side: each is bound to its own group. errs
// says how each ended; one that was not begun has the context's error.
func (p *pass) writeAll(ctx context.Context, actions []plan.Action, errs []error) {
	groups := make([]*v1alpha1.ServingGroup, len(actions))
	for i, a := range actions {
		groups[i], errs[i] = p.rewritten(ctx, a)
	}
	begun := make([]bool, len(actions))
	workqueue.ParallelizeUntil(ctx, len(actions), len(actions), func(i int) {
		if begun[i] = true; errs[i] == nil {
			errs[i] = gone(p.Client.Update(ctx, groups[i]))
		}
	})
	for i, a := range actions {
		switch {
		case !begun[i]:
			errs[i] = context.Cause(ctx)
		case errs[i] == nil:
			p.written[a.Group] = groups[i]
		}
	}
}

// revisionsOf are the revisions that a spec names.
func revisionsOf(s *v1alpha1.ServingGroupSpec) sets.Set[string] {
	return revision.References(&v1alpha1.ModelServing{}, []v1alpha1.ServingGroup{{Spec: *s}})
}

// write replaces the spec of a ServingGroup. A pin that moves outside an update has no entry in the ledger
// that proves the declaration to be today's, so that is read.
func (p *pass) write(ctx context.Context, a plan.Action) (bool, error) {
	sg, err := p.rewritten(ctx, a)
	if err != nil {
		return false, err
	}
	if err := p.Client.Update(ctx, sg); err != nil {
		return false, gone(err)
	}
	p.written[a.Group] = sg
	return true, nil
}

// rewritten is the ServingGroup as a write leaves it.
func (p *pass) rewritten(ctx context.Context, a plan.Action) (*v1alpha1.ServingGroup, error) {
	read := p.groups[a.Group]
	if read == nil || read.UID != a.UID {
		return nil, errStale
	}
	settles := a.Spec.Revision != read.Spec.Revision && len(a.Spec.Updates) == 0
	if settles || len(revisionsOf(&a.Spec).Difference(revisionsOf(&read.Spec))) > 0 {
		if err := p.confirm(ctx); err != nil { // what an old declaration asks for may be trimmed by now
			return nil, err
		}
	}
	sg := read.DeepCopy()
	if v, ok := p.fenced[a.Group]; ok {
		metav1.SetMetaDataAnnotation(&sg.ObjectMeta, v1alpha1.LedgerMark, v.before)
	}
	sg.ResourceVersion, sg.Spec = p.bound(a.Group, a.ResourceVersion), *a.Spec.DeepCopy()
	if sg.DeletionTimestamp.IsZero() {
		controllerutil.AddFinalizer(sg, v1alpha1.FinalizerOrdinal) // in case somebody took it away
	}
	return sg, nil
}
