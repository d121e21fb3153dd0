package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// A world is the snapshot as units, and what a pass makes of it.
type world struct {
	*Snapshot
	declared map[string]Role
	target   Layout
	// booked is the ledger: by group the units in it.
	booked map[string]map[string]bool
	groups []*group
	// unwell are those of the groups of which something is not ready.
	unwell []*group
	pool   pool
	// failed is a unit that failed at the target, nil if none did. awaited is one that is created anew there on
	// request: before it is known whether it comes up no other unit is brought there.
	failed, awaited *unit
	answers         []Answer
	// next is when the snapshot is to be judged again; zero: never.
	next time.Time

	// memory is where instances are made, and counts where they are counted: a few pieces for all.
	memory []unit
	counts []instanceCounts
	// atRest tells of which groups the instances need not be kept.
	atRest func(*world, *group) bool
	// part is where the units of one role are listed.
	part []*unit

	// left is how many more units the ledger can hold.
	left int

	creates []Action
	// unresolved are the units that are not created because their revision cannot be read.
	unresolved []unresolved
}

type unresolved struct{ unit, revision string }

func observe(s *Snapshot, atRest func(*world, *group) bool) *world {
	w := &world{
		Snapshot: s,
		declared: make(map[string]Role, len(s.Serving.Roles)),
		target:   s.Layouts[s.Target],
		booked:   make(map[string]map[string]bool, len(s.Ledger)),
		groups:   make([]*group, 0, len(s.Groups)),
		atRest:   atRest,
		left:     maxLedger - len(s.Ledger),
	}
	for _, r := range s.Serving.Roles {
		w.declared[r.Name] = r
	}
	for _, e := range s.Ledger {
		sg, unit, _ := strings.Cut(e, "/")
		if w.booked[sg] == nil {
			w.booked[sg] = map[string]bool{}
		}
		w.booked[sg][unit] = true
	}
	groups, wholes := make([]group, len(s.Groups)), make([]unit, len(s.Groups))
	for i := range s.Groups {
		groups[i].whole = &wholes[i]
		w.newGroup(&groups[i], &s.Groups[i])
		w.groups = append(w.groups, &groups[i])
	}
	slices.SortFunc(w.groups, func(a, b *group) int { return cmp.Compare(a.whole.ordinal, b.whole.ordinal) })
	for _, g := range w.groups {
		if g.unwell {
			w.unwell = append(w.unwell, g)
		}
	}
	w.pool = w.groupPool()
	return w
}

// maxLedger is how many entries the API server takes in status.updating. One more would have the whole
// write refused, and with it every update.
const maxLedger = 20000

// full reports whether the ledger cannot hold the unit. It waits until others are struck.
func (w *world) full(u *unit) bool { return !u.booked && w.left <= 0 }

// piece is how many units are made room for at a time where there are many groups. What is made stays
// where it is.
const piece = 1024

// room takes an empty slice with room for n units from the memory.
func (w *world) room(n int) []unit {
	if cap(w.memory)-len(w.memory) < n {
		w.memory = make([]unit, 0, max(n, min(piece, n*len(w.Groups))))
	}
	from := len(w.memory)
	w.memory = w.memory[:from+n]
	return w.memory[from : from : from+n]
}

// giveBack returns what room gave last, which nothing may point to any more.
func (w *world) giveBack(units []unit) {
	w.memory = w.memory[:len(w.memory)-cap(units)]
}

func (w *world) groupPool() pool {
	p := pool{
		units:    make([]*unit, 0, len(w.groups)),
		replicas: w.Serving.Replicas, paused: w.Serving.Paused, inPlace: w.Serving.InPlace,
	}
	if !w.byRole() {
		p.maxUnavailable, p.maxSurge = w.Serving.MaxUnavailable, w.Serving.MaxSurge
	}
	for _, g := range w.groups {
		p.units = append(p.units, g.whole)
	}
	return p
}

// byRole reports whether the units of the rollout are role instances.
func (w *world) byRole() bool { return w.Serving.Type == v1alpha1.RoleRollingUpdate }

// findFailed finds a unit that failed at the target and is not on its way out.
func (w *world) findFailed() {
	if w.rejected() {
		return
	}
	for _, g := range w.groups {
		if len(g.draft.Updates) == 0 || g.whole.leaving {
			continue
		}
		for u := range g.units() {
			if u.updating() && (u.reached(v1alpha1.UnitFailed) && u.atTarget || u.refusedHeld() && u.open.Target == w.Target) {
				w.failed = u
				return
			}
			if u.updating() && u.open.Recreates() && u.atTarget && !u.reached(v1alpha1.UnitInService) {
				w.awaited = u
			}
		}
	}
}

// want is the revision that a unit is to have.
func (w *world) want(u *unit) string {
	gone := u.role != "" && !w.target.has(u.role)
	switch {
	case w.keepsPin(u):
		return u.open.Target
	case w.rejected() && u.updating() && u.open.Previous != "":
		return u.open.Previous
	case u.protected || gone:
		return u.pin
	}
	return w.Target
}

// keepsPin reports whether the unit is created anew at its own pin: until it is in service, unless it failed
// there or, once it was drained, the rollout has another target than when a person asked for it.
func (w *world) keepsPin(u *unit) bool {
	return u.updating() && u.open.Recreates() && !u.reached(v1alpha1.UnitFailed) &&
		(u.open.Permit == v1alpha1.PermitDrain || u.open.Request.Wanted == w.Target)
}

// stopped reports whether no other unit may be brought to the target.
func (w *world) stopped() bool { return w.failed != nil || w.awaited != nil }

// current is the revision at which protected units are rebuilt.
func (w *world) current() string { return cmp.Or(w.Current, w.Target) }

// ripe reports whether what is ready since then is available, and looks again when it will be.
func (w *world) ripe(since time.Time) bool {
	if w.Serving.MinReady == 0 {
		return true
	}
	return !since.IsZero() && w.passed(since.Add(w.Serving.MinReady))
}

// passed reports whether it is t or later; if not, the snapshot is judged again at t.
func (w *world) passed(t time.Time) bool {
	if !w.Now.Before(t) {
		return true
	}
	if w.next.IsZero() || t.Before(w.next) {
		w.next = t
	}
	return false
}
