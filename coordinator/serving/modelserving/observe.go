package modelserving

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// list reads the ServingGroups that the ModelServing owns, by UID and never by label.
func (p *pass) list(ctx context.Context) error {
	var found v1alpha1.ServingGroupList
	if err := p.Client.List(ctx, &found, client.InNamespace(p.ms.Namespace), client.MatchingFields{ownerUID: string(p.ms.UID)}); err != nil {
		return fmt.Errorf("list ServingGroups: %w", err)
	}
	slices.SortFunc(found.Items, func(a, b v1alpha1.ServingGroup) int {
		return cmp.Or(cmp.Compare(ptr.Deref(a.Spec.Ordinal, 0), ptr.Deref(b.Spec.Ordinal, 0)), cmp.Compare(a.Name, b.Name))
	})
	p.items, p.groups = found.Items, make(map[string]*v1alpha1.ServingGroup, len(found.Items))
	for i := range p.items {
		p.groups[p.items[i].Name] = &p.items[i]
	}
	return nil
}

// observe gathers all that the plan has to know.
func (p *pass) observe(v versions) (plan.Snapshot, error) {
	declared, err := declaration(p.ms)
	if err != nil {
		return plan.Snapshot{}, err
	}
	s := plan.Snapshot{
		Now: p.now, Serving: declared, Target: v.target, Current: p.ms.Status.CurrentRevision,
		Layouts: v.layouts, Obstacles: v.obstacles, Rejected: p.ms.Status.RejectedRevision, Ledger: slices.Clone(p.ms.Status.Updating),
		Requests: p.requests(),
	}
	for _, sg := range p.items {
		s.Groups = append(s.Groups, plan.Group{
			Name: sg.Name, UID: sg.UID, ResourceVersion: sg.ResourceVersion, Generation: sg.Generation,
			Deleting: !sg.DeletionTimestamp.IsZero(), Spec: sg.Spec, Status: sg.Status,
		})
	}
	return s, nil
}

// failed counts the units whose update failed.
func (p *pass) failed() (n int32) {
	for _, sg := range p.groups {
		for _, u := range sg.Status.Updates {
			if u.Stage == v1alpha1.UnitFailed {
				n++
			}
		}
	}
	return n
}

// name is the ModelServing's name for people and metrics.
func (p *pass) name() types.NamespacedName { return client.ObjectKeyFromObject(p.ms) }

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
