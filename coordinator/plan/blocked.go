package plan

import (
	"cmp"
	"fmt"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// blocked names the first of what stands in the way, the gravest first.
func (w *world) blocked() Verdict {
	for _, found := range []func() *Verdict{
		w.blockedRevision, w.blockedFailed, w.blockedRejected, w.blockedNotInPlace, w.blockedGroup, w.blockedSick, w.blockedAgain, w.blockedBudget, w.blockedStage,
		w.blockedUnavailable, w.blockedUnready,
	} {
		if v := found(); v != nil {
			return *v
		}
	}
	return Verdict{Reason: v1alpha1.NotBlocked, Message: "nothing stands in the way"}
}

func blockedBy(reason v1alpha1.ConditionReason, format string, args ...any) *Verdict {
	return &Verdict{true, reason, fmt.Sprintf(format, args...)}
}

func (w *world) blockedRevision() *Verdict {
	const way = "restore the ControllerRevision, or delete the ServingGroup if it may come back at another revision"
	for _, u := range w.unresolved {
		return blockedBy(v1alpha1.BlockedRevision, "%s is not created: its revision %s is missing or cannot be read; %s", u.unit, u.revision, way)
	}
	for _, g := range w.groups {
		if g.whole.leaving || g.whole.known {
			continue
		}
		return blockedBy(v1alpha1.BlockedRevision, "%s is neither updated nor removed: revision %s is missing or cannot be read; %s", g.Name, w.unreadable(g), way)
	}
	for u := range w.open() {
		if u.updating() && w.Layouts[u.open.Target] == nil {
			return blockedBy(v1alpha1.BlockedRevision, "%s is not replaced: its target %s is missing or cannot be read; %s", u.name(), u.open.Target, way)
		}
	}
	return nil
}

// unreadable is the revision of the group, or of an instance of it, that cannot be read.
func (w *world) unreadable(g *group) string {
	for i := range g.instances {
		if u := &g.instances[i]; !u.leaving && !u.known {
			return u.pin
		}
	}
	return g.Spec.Revision
}

func (w *world) blockedFailed() *Verdict {
	if w.failed == nil || w.failed.open == nil { // it is closed in this pass
		return nil
	}
	return blockedBy(v1alpha1.BlockedFailed, "%s; no further unit is updated until it comes good or the template changes; `kubectl pitstop recreate %s` creates its Pods anew", inUpdate(w.failed), w.failed.name())
}

// blockedGroup passes on what a ServingGroup reports.
func (w *world) blockedGroup() *Verdict {
	for _, g := range w.groups {
		if c := g.blocked; c != nil {
			return blockedBy(v1alpha1.ConditionReason(c.Reason), "%s since %s: %s", g.Name, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message)
		}
	}
	return nil
}

// blockedAgain finds a unit whose attempt was refused and is being made again: until it is told how that ends, what
// stood in the way still does.
func (w *world) blockedAgain() *Verdict {
	for u := range w.units() {
		update := cmp.Or(u.ahead, u.open)
		prepares := update != nil && (update.Permit == v1alpha1.PermitPrepare || update.Swapped)
		if !prepares || update.Tries == 0 || u.report != nil && !u.reached(v1alpha1.UnitPreparing) {
			continue
		}
		text := "not yet reported on"
		if u.report != nil {
			text = fmt.Sprintf("%s: %s", u.report.Reason, u.report.Message)
		}
		return blockedBy(v1alpha1.BlockedRefused, "%s was refused revision %s and is prepared again (try %d), %s", u.name(), update.Target, update.Tries+1, text)
	}
	return nil
}

func (w *world) blockedBudget() *Verdict {
	const text = "%d units wait, but maxUnavailable and maxSurge both resolve to 0%s; raise one of them"
	if !w.byRole() {
		if n := w.pool.count((*unit).eligible); n > 0 && w.Serving.MaxUnavailable+w.Serving.MaxSurge == 0 {
			return blockedBy(v1alpha1.BlockedBudget, text, n, "")
		}
		return nil
	}
	for _, r := range w.Serving.Roles {
		n := int32(0)
		for u := range w.units() {
			n += one(u.role == r.Name && u.eligible())
		}
		if n > 0 && r.MaxUnavailable+r.MaxSurge == 0 {
			return blockedBy(v1alpha1.BlockedBudget, text, n, " for role "+r.Name)
		}
	}
	return nil
}

// blockedStage finds an update that is in its stage for too long.
func (w *world) blockedStage() *Verdict {
	for u := range w.open() {
		if u.report != nil && !u.reached(v1alpha1.UnitFailed) && w.overdue(u.report.Since.Time) {
			return blockedBy(v1alpha1.BlockedDeadline, "%s; that is longer than progressDeadlineSeconds", inUpdate(u))
		}
	}
	return nil
}

// blockedUnavailable finds what spends the budget of units that wait, if no update does.
func (w *world) blockedUnavailable() *Verdict {
	t := w.tally()
	waiting := t.waiting
	if surplus := w.pool.count((*unit).stays) - w.pool.most(); t.leaving == nil {
		waiting += max(0, surplus)
	}
	u := w.broken()
	if waiting == 0 || t.updating > 0 || w.Serving.Paused || u == nil || !w.overdue(u.since) {
		return nil
	}
	return blockedBy(v1alpha1.BlockedUnavailable, "%d units wait: %s and leaves no budget; repair or delete its Pods, or raise maxUnavailable", waiting, notReady(u))
}

func (w *world) blockedUnready() *Verdict {
	u := w.broken()
	if u == nil || !w.overdue(u.since) {
		return nil
	}
	return blockedBy(v1alpha1.BlockedDeadline, "%s, longer than progressDeadlineSeconds; look at its Pods", notReady(u))
}

// overdue reports whether what lasts since then lasts for longer than the deadline.
func (w *world) overdue(since time.Time) bool {
	return w.Serving.Deadline > 0 && !since.IsZero() && w.passed(since.Add(w.Serving.Deadline))
}
