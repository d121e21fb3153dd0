package plan

import (
	"strings"

	"pitstop.dev/api/v1alpha1"
)

// Decide returns what follows from a snapshot. What is on its way out goes or comes back first, then
// open updates move on, then the budget that is left is spent.
func Decide(s Snapshot) Plan { return decide(s, (*world).resting) }

func decide(s Snapshot, atRest func(*world, *group) bool) Plan {
	w := observe(&s, atRest)
	w.scaleGroups()
	w.scaleInstances()
	w.answer()
	w.findFailed()
	w.advance()
	w.holdSick()
	w.rollOut()
	w.prepareAhead()
	w.settle()
	p := Plan{Actions: w.actions(), Report: w.report()}
	if !w.next.IsZero() {
		p.Recheck = w.next.Sub(w.Now)
	}
	return p
}

// rollOut starts updates. A unit that failed at the target stops it, or may yet fail there.
func (w *world) rollOut() {
	switch {
	case w.stopped() || w.Serving.Paused || w.rejected():
	case w.byRole():
		w.rollInstances()
	default:
		for _, u := range w.pool.starts() {
			w.start(u)
		}
	}
}

// actions puts what was decided in order: what frees units, what goes on, the ledger, what it
// covers, and last what a taken name could stop. Updates begin after the removals that make room for
// them.
func (w *world) actions() []Action {
	var book []string
	var written []*group
	for _, g := range w.groups {
		book = append(book, g.entries...)
		if g.phase() != unchanged {
			written = append(written, g)
		}
	}
	actions := make([]Action, 0, len(written)+len(w.creates)+5)
	if w.records() {
		actions = append(actions, Action{Kind: Record})
	}
	if w.rejects() {
		actions = append(actions, Action{Kind: Reject})
	}
	if strike := w.strikes(); len(strike) > 0 {
		actions = append(actions, Action{Kind: Strike, Entries: strike})
	}
	actions = appendPhase(actions, written, free)
	if strike := w.closing(); len(strike) > 0 {
		actions = append(actions, Action{Kind: Strike, Entries: strike})
	}
	if len(book) > 0 {
		actions = append(actions, Action{Kind: Book, Entries: book})
	}
	for _, p := range []phase{removing, starting, deleting} {
		actions = appendPhase(actions, written, p)
	}
	return append(actions, w.creates...)
}

// A phase is when in a pass a group is written.
type phase int

const (
	unchanged phase = iota
	free            // needs no ledger entry
	removing
	starting
	deleting
)

func (g *group) phase() phase {
	switch {
	case g.remove:
		return deleting
	case g.starts:
		return starting
	case len(g.entries) > 0:
		return removing
	case g.changed:
		return free
	default:
		return unchanged
	}
}

// appendPhase appends what is written of those of the groups that are in a phase.
func appendPhase(actions []Action, groups []*group, p phase) []Action {
	kind := Write
	if p == deleting {
		kind = Delete
	}
	from := len(actions)
	for _, g := range groups {
		if g.phase() == p {
			a := g.action(kind)
			a.Beside = len(actions) > from
			actions = append(actions, a)
		}
	}
	return actions
}

// action is the write or the deletion of the group.
func (g *group) action(kind ActionKind) Action {
	a := Action{Kind: kind, Group: g.Name, UID: g.UID, ResourceVersion: g.ResourceVersion}
	if kind == Delete {
		a.Event, a.Message = v1alpha1.EventScaled, "deleting ServingGroup "+g.Name
		return a
	}
	a.Spec = g.draft
	texts := make([]string, 0, len(g.notes))
	for _, n := range g.notes {
		a.Event = n.event
		texts = append(texts, n.text)
	}
	a.Message = strings.Join(texts, "; ")
	return a
}

// closing returns the entries of the ledger of which the update is closed in this pass, before the
// ledger is written. Their places are given to others in a later pass, which sees them free.
func (w *world) closing() []string {
	var strike []string
	for _, g := range w.groups {
		if g.phase() != free {
			continue
		}
		for u := range g.units() {
			if u.closed && u.booked && u.open == nil && !u.held {
				strike = append(strike, u.name())
			}
		}
	}
	return strike
}

// strikes returns the entries of the ledger that no open update stands behind.
func (w *world) strikes() []string {
	open := make(map[string]bool, len(w.Ledger))
	for _, g := range w.groups {
		if w.booked[g.Name] == nil {
			continue
		}
		open[g.Name] = g.whole.leaving
		g.standing(open)
		for u := range g.units() {
			open[u.name()] = open[u.name()] || u.open != nil
		}
		for i := range g.Spec.Updates {
			if !g.Spec.Updates[i].Preparing() {
				open[v1alpha1.LedgerEntry(g.Name, g.Spec.Updates[i].Unit)] = true
			}
		}
	}
	var strike []string
	for _, e := range w.Ledger {
		if !open[e] {
			strike = append(strike, e)
		}
	}
	return strike
}
