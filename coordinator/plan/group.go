package plan

import (
	"cmp"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// A group is a ServingGroup with its units, and its spec as this pass leaves it.
type group struct {
	*Group
	whole *unit
	// instances are not kept of a group at rest.
	instances []unit
	resting   bool
	// layout is that of the group's pin; nil if it cannot be read.
	layout Layout
	// settled: the status is about today's spec.
	settled bool
	// unwell: it is not ready, or one of its instances is not.
	unwell bool
	// What was read is far from what is made of it, and slow to look up again: blocked is the condition of
	// the status if it is True, inUpdate that updates are open, ownPins that an instance has a pin of its own.
	blocked           *metav1.Condition
	inUpdate, ownPins bool
	// ailing: a GPU of it is sick, or it is held for one.
	ailing bool
	// serves: each role has as many available instances as its own budget demands.
	serves bool

	draft v1alpha1.ServingGroupSpec
	// changed: draft is to be written; the ledger has to hold entries first.
	changed bool
	entries []string
	// starts: the write opens an update to the target.
	starts bool
	// remove: the ServingGroup is to be deleted.
	remove bool
	notes  []note
}

// A note tells of one change of a draft.
type note struct{ event, text string }

// units yields the whole and the instances, in that order.
func (g *group) units() iter.Seq[*unit] {
	return func(yield func(*unit) bool) {
		if !yield(g.whole) {
			return
		}
		for i := range g.instances {
			if !yield(&g.instances[i]) {
				return
			}
		}
	}
}

// anyPart reports whether it is so of an instance.
func (g *group) anyPart(is func(*unit) bool) bool {
	for i := range g.instances {
		if is(&g.instances[i]) {
			return true
		}
	}
	return false
}

// crossed reports whether an update of u would cross one of the group that is open or booked: the
// whole and its parts are never in update at one time.
func (g *group) crossed(u *unit) bool {
	if u.role != "" {
		return g.whole.open != nil || g.whole.booked
	}
	return g.anyPart(func(i *unit) bool { return i.open != nil || i.booked })
}

// edit makes the draft one that may be written to.
func (g *group) edit() *v1alpha1.ServingGroupSpec {
	if !g.changed {
		g.changed = true
		g.draft.Instances = slices.Clone(g.draft.Instances)
		g.draft.Updates = slices.Clone(g.draft.Updates)
		g.draft.GPUHolds = slices.Clone(g.draft.GPUHolds)
	}
	return &g.draft
}

// put replaces the open update of the unit, or opens it.
func (g *group) put(u *unit, update v1alpha1.UnitUpdate) {
	d := g.edit()
	u.open, u.ahead, u.report = &update, nil, nil
	if update.Preparing() {
		u.open, u.ahead = nil, &update
	}
	i := slices.IndexFunc(d.Updates, func(o v1alpha1.UnitUpdate) bool { return o.Unit == update.Unit })
	if i >= 0 {
		d.Updates[i] = update
		return
	}
	d.Updates = append(d.Updates, update)
	slices.SortFunc(d.Updates, func(a, b v1alpha1.UnitUpdate) int { return cmp.Compare(a.Unit, b.Unit) })
}

// closeUpdate takes the open update of the unit from the list.
func (g *group) closeUpdate(u *unit) {
	d := g.edit()
	name := u.unitName()
	d.Updates = slices.DeleteFunc(d.Updates, func(o v1alpha1.UnitUpdate) bool { return o.Unit == name })
	u.open, u.ahead, u.report, u.closed = nil, nil, nil, true
}

// nextAttempt takes a number for an attempt.
func (g *group) nextAttempt() int64 {
	d := g.edit()
	d.LastAttempt++
	return d.LastAttempt
}

func (g *group) note(event, text string) { g.notes = append(g.notes, note{event, text}) }
