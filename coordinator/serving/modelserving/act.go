package modelserving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// errStale reports that a pass rests on an outdated view: something that it decided on has changed.
var errStale = errors.New("view is outdated")

// stale says whether an error means no more than that the next pass will see it right.
func stale(err error) bool { return errors.Is(err, errStale) || apierrors.IsConflict(err) }

// act takes the actions in their order and ends at the first that fails. What the API server refuses
// to create does not count as failed: it is reported, and the rest goes on without it.
func (p *pass) act(ctx context.Context, actions []plan.Action) error {
	log := logr.FromContextOrDiscard(ctx).WithValues("modelserving", p.ms.Namespace+"/"+p.ms.Name)
	for len(actions) > 0 {
		n := p.together(actions)
		done, err := p.takeAll(ctx, actions[:n])
		for i, a := range actions[:n] {
			if !done[i] {
				continue
			}
			log.V(1).Info("acted", "action", a.Kind, "unit", about(a), "cause", a.Message)
			if a.Event != "" {
				p.event(a.Event, a.Message)
			}
		}
		if err != nil {
			return err
		}
		actions = actions[n:]
	}
	p.acted = true
	return nil
}

// together is how many of the actions, from the first on, need not wait for each other.
func (p *pass) together(actions []plan.Action) int {
	n := 1
	for n < len(actions) && n < p.Writes && actions[n].Kind == plan.Write && actions[n].Beside {
		n++
	}
	return n
}

// takeAll takes actions that need not wait for each other, and says which of them changed anything.
func (p *pass) takeAll(ctx context.Context, actions []plan.Action) ([]bool, error) {
	done, errs := make([]bool, len(actions)), make([]error, len(actions))
	if len(actions) == 1 {
		done[0], errs[0] = p.take(ctx, actions[0])
	} else {
		p.writeAll(ctx, actions, errs)
	}
	for i, a := range actions {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s %s: %w", strings.ToLower(string(a.Kind)), about(a), errs[i])
			continue
		}
		done[i] = done[i] || len(actions) > 1
	}
	return done, errors.Join(errs...)
}

func about(a plan.Action) string {
	if a.Group != "" {
		return a.Group
	}
	return strings.Join(a.Entries, ", ")
}

// take reports whether the action changed anything.
func (p *pass) take(ctx context.Context, a plan.Action) (bool, error) {
	switch a.Kind {
	case plan.Book:
		return p.book(ctx, a.Entries)
	case plan.Record:
		return p.record(ctx)
	case plan.Reject:
		return p.reject(ctx)
	case plan.Strike:
		return p.strike(ctx, a.Entries)
	case plan.Create:
		return p.create(ctx, a)
	case plan.Write:
		return p.write(ctx, a)
	case plan.Delete:
		return p.delete(ctx, a)
	}
	return false, fmt.Errorf("no such action: %q", a.Kind)
}

// book enters units into the ledger. That it carries the resourceVersion is what makes the ledger
// one that nobody overdraws: whoever has not seen the last entry fails. It is written even if all of
// them are in the ledger already, as the answer proves that what was read is what there is. The report
// of the pass goes with it, and what was struck.
func (p *pass) book(ctx context.Context, entries []string) (bool, error) {
	ms := p.reported()
	ms.Status.Updating = append(ms.Status.Updating, entries...)
	ms.Status.Bookings++ // a write that changes nothing would refuse nobody
	slices.Sort(ms.Status.Updating)
	ms.Status.Updating = slices.Compact(ms.Status.Updating)
	was := p.ms.Status
	if err := p.replaceStatus(ctx, ms); err != nil {
		return false, err
	}
	p.tell(was)
	return true, nil
}

// reject gives up the target, of which a unit failed: nothing is taken back before that is written.
func (p *pass) reject(ctx context.Context) (bool, error) {
	ms := p.ms.DeepCopy()
	ms.Status.RejectedRevision = p.target
	return p.writeStatus(ctx, ms)
}

// strike has the units leave the ledger whose update is closed for certain. They leave it with the next
// write of the status.
func (p *pass) strike(ctx context.Context, entries []string) (bool, error) {
	for _, entry := range entries {
		ok, err := p.closed(ctx, entry)
		if err != nil {
			return false, err
		}
		p.struck[entry] = ok
	}
	return true, nil
}

// ledger is the ledger without what was struck.
func (p *pass) ledger() []string {
	return slices.DeleteFunc(slices.Clone(p.ms.Status.Updating), func(e string) bool { return p.struck[e] })
}

// keepStrikes writes no more than the ledger, if anything was struck: the rest of the pass was in vain.
func (p *pass) keepStrikes(ctx context.Context) error {
	ms := p.ms.DeepCopy()
	ms.Status.Updating = p.ledger()
	_, err := p.writeStatus(ctx, ms)
	return err
}

// closed finds out whether a unit is closed: it is in no update and its group is not on its way out, or
// is gone. The API server says so, now or in its answer to the write by which this pass closed the unit.
// Else it is first made sure that the ledger is today's, lest groups be marked for an entry that is gone.
func (p *pass) closed(ctx context.Context, entry string) (bool, error) {
	name, unit, _ := strings.Cut(entry, "/")
	if sg := p.written[name]; sg != nil {
		return isClosed(sg, unit), nil
	}
	if err := p.confirm(ctx); err != nil {
		return false, err
	}
	var sg v1alpha1.ServingGroup
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.ms.Namespace, Name: name}, &sg)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(&sg, p.ms) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !isClosed(&sg, unit) {
		return false, nil
	}
	return true, p.fence(ctx, &sg)
}

func isClosed(sg *v1alpha1.ServingGroup, unit string) bool {
	return sg.DeletionTimestamp.IsZero() && !slices.Contains(sg.Spec.GPUHolds, unit) &&
		!slices.ContainsFunc(sg.Spec.Updates, func(u v1alpha1.UnitUpdate) bool { return u.Unit == unit && !u.Preparing() })
}

// fence leaves a mark on a ServingGroup, so that the write with which a former leader, which died
// or slept after it had booked the unit, would yet open its update meets a later version. The mark
// is the version that it replaces, which no mark was before. The write that closes a unit in the pass
// that strikes it is such a mark itself.
func (p *pass) fence(ctx context.Context, sg *v1alpha1.ServingGroup) error {
	if _, done := p.fenced[sg.Name]; done {
		return nil
	}
	before := sg.ResourceVersion
	metav1.SetMetaDataAnnotation(&sg.ObjectMeta, v1alpha1.LedgerMark, before)
	if err := p.Client.Update(ctx, sg); err != nil {
		return gone(err)
	}
	p.fenced[sg.Name] = version{before: before, after: sg.ResourceVersion}
	return nil
}

// A version is that of a ServingGroup before and after a fence: to the plan they are the same.
type version struct{ before, after string }

// bound is the version that a write to a group, decided on the version read, is to carry.
func (p *pass) bound(group, read string) string {
	if v := p.fenced[group]; v.before == read && v.after != "" {
		return v.after
	}
	return read
}

// gone turns "not found" on an update into what it means: the view was outdated.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return errStale
	}
	return err
}

// delete deletes a ServingGroup; its finalizer keeps it until the last Pod is gone. One that somebody took
// the finalizer from is left until the ServingGroup controller has put it back.
func (p *pass) delete(ctx context.Context, a plan.Action) (bool, error) {
	if read := p.groups[a.Group]; read != nil && !controllerutil.ContainsFinalizer(read, v1alpha1.FinalizerOrdinal) {
		return false, errStale
	}
	sg := &v1alpha1.ServingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: p.ms.Namespace, Name: a.Group}}
	version := p.bound(a.Group, a.ResourceVersion)
	err := p.Client.Delete(ctx, sg, client.Preconditions{UID: &a.UID, ResourceVersion: &version})
	return err == nil, client.IgnoreNotFound(err)
}
