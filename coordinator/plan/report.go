package plan

import (
	"fmt"
	"iter"

	"pitstop.dev/api/v1alpha1"
)

// units yields every unit of the rollout: ServingGroups, or with RoleRollingUpdate role instances.
func (w *world) units() iter.Seq[*unit] { return w.unitsOf(w.groups) }

// unitsOf yields the units of the rollout in some groups.
func (w *world) unitsOf(groups []*group) iter.Seq[*unit] {
	return func(yield func(*unit) bool) {
		for _, g := range groups {
			if !w.byRole() {
				if !yield(g.whole) {
					return
				}
				continue
			}
			for i := range g.instances {
				if !yield(&g.instances[i]) {
					return
				}
			}
		}
	}
}

// open yields every unit with an open update, whatever the strategy.
func (w *world) open() iter.Seq[*unit] {
	return func(yield func(*unit) bool) {
		for _, g := range w.groups {
			if len(g.draft.Updates) == 0 {
				continue
			}
			for u := range g.units() {
				if u.open != nil && !yield(u) {
					return
				}
			}
		}
	}
}

func (w *world) report() Report {
	r := Report{Replicas: int32(len(w.groups))}
	serving := int32(0)
	complete := r.Replicas == w.Serving.Replicas && r.Replicas > 0
	for _, g := range w.groups {
		u := g.whole
		updated := u.atTarget && !u.leaving && !g.inUpdate && len(g.draft.Updates) == 0
		r.Ready += one(u.ready)
		r.Available += one(u.available)
		r.Updated += one(updated)
		serving += one(g.serves)
		complete = complete && updated && u.available && g.draft.Revision == w.Target && !g.overrides()
	}
	r.Complete = complete
	r.Progressing = w.progressing()
	r.Blocked = w.blocked()
	r.Enough = w.enough(r.Available, serving)
	r.Answers = w.answers
	return r
}

// enough judges what is available. With RoleRollingUpdate a ServingGroup counts while each of its
// roles has as many available instances as the role's budget demands.
func (w *world) enough(available, serving int32) Verdict {
	needed := w.Serving.Replicas - w.Serving.MaxUnavailable
	if w.byRole() {
		available, needed = serving, w.Serving.Replicas
	}
	needed = max(0, needed)
	text := fmt.Sprintf("%d of %d ServingGroups are available, %d are needed", available, w.Serving.Replicas, needed)
	if available >= needed {
		return Verdict{True: true, Reason: v1alpha1.AvailableEnough, Message: text}
	}
	if u := w.unready(); u != nil {
		text += "; " + notReady(u)
	}
	return Verdict{Reason: v1alpha1.AvailableTooFew, Message: text}
}

// unready returns the unit that has been without readiness for longest, or else whatever is not ready
// beside the units of the rollout; nil if all are ready.
func (w *world) unready() *unit {
	return w.longestUnready((*unit).stays)
}

// broken is as unready, but for what is in update or booked: its stages have deadlines of their own.
func (w *world) broken() *unit {
	return w.longestUnready(func(u *unit) bool {
		return u.stays() && u.open == nil && !u.booked && !u.group.crossed(u)
	})
}

func (w *world) longestUnready(is func(*unit) bool) *unit {
	for _, units := range []iter.Seq[*unit]{w.unitsOf(w.unwell), partsOf(w.unwell)} {
		var longest *unit
		for u := range units {
			if u.ready || !is(u) {
				continue
			}
			if longest == nil || !u.since.IsZero() && (longest.since.IsZero() || u.since.Before(longest.since)) {
				longest = u
			}
		}
		if longest != nil {
			return longest
		}
	}
	return nil
}

// partsOf yields groups and all their instances.
func partsOf(groups []*group) iter.Seq[*unit] {
	return func(yield func(*unit) bool) {
		for _, g := range groups {
			for u := range g.units() {
				if !yield(u) {
					return
				}
			}
		}
	}
}
