package modelserving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/coordinator/revision"
)

// errNoRevision reports a spec that cannot be made a revision of, until a person changes it.
var errNoRevision = errors.New("no revision of the spec")

// maxNames bounds how many names are tried in one pass if all are taken.
const maxNames = 8

// versions are the revisions of a ModelServing.
type versions struct {
	target      string
	stored      []*appsv1.ControllerRevision // those found; other owners' among them
	superfluous []*appsv1.ControllerRevision // those that nobody needs, as far as the caches know
	layouts     map[string]plan.Layout       // of the target and of all that is referred to and can be read
	obstacles   map[string]string            // what keeps units at a revision from the target in place
	collisions  int32
}

// store makes sure that the revision of the spec is stored, and that the status names what protected
// units are rebuilt at, before anything else is written.
func (p *pass) store(ctx context.Context) (versions, error) {
	stored, err := p.stored(ctx)
	if err != nil {
		return versions{}, err
	}
	known := key(p.history(stored))
	v, ok := p.memo.recall(p.name(), known)
	if !ok {
		if v, err = p.decideVersions(ctx, stored, known); err != nil {
			return versions{}, err
		}
	}
	return v, p.adopt(ctx, v)
}

func (p *pass) decideVersions(ctx context.Context, stored []*appsv1.ControllerRevision, known string) (versions, error) {
	h := p.history(stored)
	declared, err := p.revisions.Project(p.ms)
	if err != nil {
		return versions{}, fmt.Errorf("%w: %w", errNoRevision, err)
	}
	h.Data = declared.Data
	for try := range maxNames {
		d, err := revision.Decide(h)
		if err != nil {
			return versions{}, fmt.Errorf("%w: %w", errNoRevision, err)
		}
		taken, err := p.keep(ctx, d)
		if err != nil {
			return versions{}, fmt.Errorf("store revision %s: %w", d.Target, err)
		}
		if taken != nil {
			h.Stored = append(without(h.Stored, taken.Name), taken)
			continue
		}
		lost, err := p.lost(ctx, d)
		if err != nil {
			return versions{}, fmt.Errorf("read revision %s: %w", d.Target, err)
		}
		if lost {
			h.Stored = without(h.Stored, d.Target)
			continue
		}
		v := versions{target: d.Target, stored: h.Stored, superfluous: d.Delete, collisions: d.CollisionCount}
		v.layouts = map[string]plan.Layout{v.target: layout(declared)}
		complete, err := p.readLayouts(ctx, &v, h)
		if err == nil && complete && try == 0 && d.Create == nil && d.Raise == nil {
			p.memo.remember(p.name(), known, v)
		}
		return v, err
	}
	return versions{}, fmt.Errorf("%w: %d names of revisions are taken", errStale, maxNames)
}

func without(stored []*appsv1.ControllerRevision, name string) []*appsv1.ControllerRevision {
	return slices.DeleteFunc(slices.Clone(stored), func(cr *appsv1.ControllerRevision) bool { return cr.Name == name })
}

// lost reports whether a target that was found in the cache, and that nothing names yet, is there no more:
// as long as nothing did, it could be trimmed.
func (p *pass) lost(ctx context.Context, d revision.Decision) (bool, error) {
	if d.Create != nil || d.Raise != nil || d.Target == p.ms.Status.UpdateRevision {
		return false, nil
	}
	cr, err := p.revision(ctx, d.Target)
	return err == nil && (cr == nil || !metav1.IsControlledBy(cr, p.ms)), err
}

func (p *pass) history(stored []*appsv1.ControllerRevision) revision.History {
	return revision.History{
		Owner: p.ms, Stored: stored, References: revision.References(p.ms, p.items),
		Limit:          ptr.Deref(p.ms.Spec.RevisionHistoryLimit, 10),
		CollisionCount: ptr.Deref(p.ms.Status.CollisionCount, 0), Memo: &p.revisions,
	}
}

// stored reads the revisions under the ModelServing's label. Which of them are its own is decided by
// UID; of the others the names are taken. One that has lost its label is found when it is needed.
func (p *pass) stored(ctx context.Context) ([]*appsv1.ControllerRevision, error) {
	var found appsv1.ControllerRevisionList
	label := client.MatchingLabels{v1alpha1.LabelModelServing: p.ms.Name}
	if err := p.Client.List(ctx, &found, client.InNamespace(p.ms.Namespace), label); err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	all := make([]*appsv1.ControllerRevision, len(found.Items))
	for i := range found.Items {
		all[i] = &found.Items[i]
	}
	return all, nil
}

// keep writes the target's revision. If its name is taken, which the cache did not show, it returns
// whose it is, to decide again.
func (p *pass) keep(ctx context.Context, d revision.Decision) (taken *appsv1.ControllerRevision, err error) {
	switch {
	case d.Create != nil:
		err := p.Client.Create(ctx, d.Create)
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if taken, err = p.revision(ctx, d.Create.Name); err == nil && taken == nil {
			err = errStale // gone in between
		}
		return taken, err
	case d.Raise != nil:
		return nil, gone(p.Client.Update(ctx, d.Raise))
	}
	return nil, nil
}

// revision reads a revision live; nil if there is none.
func (p *pass) revision(ctx context.Context, name string) (*appsv1.ControllerRevision, error) {
	var cr appsv1.ControllerRevision
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.ms.Namespace, Name: name}, &cr)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &cr, err
}

// adopt puts into the status what has to be known before the first ServingGroup is: what the
// protected ones are rebuilt at, and the count that the target's name is salted with.
func (p *pass) adopt(ctx context.Context, v versions) error {
	if p.ms.Status.CurrentRevision != "" && ptr.Deref(p.ms.Status.CollisionCount, 0) == v.collisions {
		return nil
	}
	ms := p.draft()
	if ms.Status.CurrentRevision == "" {
		ms.Status.CurrentRevision, ms.Status.UpdateRevision = v.target, v.target
	}
	if v.collisions > 0 {
		ms.Status.CollisionCount = &v.collisions
	}
	return p.replaceStatus(ctx, ms)
}

// readLayouts reads the roles of every other revision that is referred to. One that the cache lacks is
// read live; one that is missing, another's or unreadable has none. It reports whether the cache had
// all of them.
func (p *pass) readLayouts(ctx context.Context, v *versions, h revision.History) (complete bool, err error) {
	cached := map[string]*appsv1.ControllerRevision{}
	for _, cr := range v.stored {
		cached[cr.Name] = cr
	}
	v.obstacles = map[string]string{}
	complete = true
	for name := range h.References {
		if name == v.target {
			continue
		}
		cr := cached[name]
		if cr == nil {
			complete = false
			if cr, err = p.revision(ctx, name); err != nil {
				return false, fmt.Errorf("read revision %s: %w", name, err)
			}
		}
		if cr == nil || !metav1.IsControlledBy(cr, p.ms) {
			continue
		}
		if stored, err := p.revisions.Read(cr); err == nil {
			v.layouts[name] = layout(stored)
			if differences := revision.Obstacles(stored.Data, h.Data); len(differences) > 0 {
				v.obstacles[name] = strings.Join(differences, "; ")
			}
		}
	}
	return complete, nil
}

func layout(r revision.Reading) plan.Layout {
	roles := make(plan.Layout, len(r.Data.Roles))
	for _, role := range r.Data.Roles {
		roles[role.Name] = plan.RoleLayout{Digest: r.Digests[role.Name], Workers: role.WorkerReplicas}
	}
	return roles
}

// trim deletes the revisions beyond the limit that nothing refers to. What the caches say is only a
// hint that there are any: a ServingGroup that they do not show yet may be pinned to one. So the
// ModelServing and all ServingGroups of the namespace are read live, whatever their labels are, and a
// revision that was raised since is spared by its version.
func (p *pass) trim(ctx context.Context, v versions) error {
	if len(v.superfluous) == 0 {
		return nil
	}
	if err := p.confirm(ctx); err != nil {
		return err
	}
	var live v1alpha1.ServingGroupList
	if err := p.Live.List(ctx, &live, client.InNamespace(p.ms.Namespace)); err != nil {
		return fmt.Errorf("list ServingGroups: %w", err)
	}
	needed := revision.References(p.ms, slices.DeleteFunc(live.Items, func(sg v1alpha1.ServingGroup) bool { return !metav1.IsControlledBy(&sg, p.ms) }))
	for _, cr := range v.superfluous {
		if needed.Has(cr.Name) {
			continue
		}
		err := p.Client.Delete(ctx, cr, client.Preconditions{UID: &cr.UID, ResourceVersion: &cr.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete revision %s: %w", cr.Name, err)
		}
	}
	return nil
}
