package pods

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// silence is how much longer than the deadline an agent may take to say that it has passed.
const silence = time.Minute

// A standing is how far a unit is, and what it waits for.
type standing struct {
	stage   v1alpha1.UnitStage
	reason  v1alpha1.UnitReason
	message string
	// skipped are the Pods that were not drained though they may have had requests.
	skipped []string
	// waits: the attempt is not to begin yet.
	waits bool
	// cleared: the Pods are gone that the attempt was to take, and none was made yet.
	cleared bool
	// frozen: a revision cannot be read, so that it cannot be told how far the unit is.
	frozen bool
}

// updates takes every open update as far as it goes.
func (d *decision) updates() {
	for n := range d.s.Group.Spec.Updates {
		u := &d.s.Group.Spec.Updates[n]
		members := d.members(u)
		var at standing
		switch {
		case u.Method == v1alpha1.UnitInPlace:
			at = d.inPlace(u, members)
		case !u.Permit.Allows(v1alpha1.PermitDrain):
			if u.NotBefore == nil || d.due(u.NotBefore.Time) {
				continue
			}
			at = d.again(u)
		case !u.Permit.Allows(v1alpha1.PermitSwap):
			at = d.drain(u, members)
		case u.Method == v1alpha1.UnitRemove:
			at = d.removeUnit(u, members)
		default:
			at = d.swap(u, members)
		}
		d.stage(u, at)
		for _, i := range members {
			if i.update == u {
				i.phase = i.phaseIn(at)
			}
		}
	}
}

// phaseIn is the phase of an instance that an update covers.
func (i *instance) phaseIn(at standing) v1alpha1.InstancePhase {
	switch {
	case !i.declared:
		return v1alpha1.InstanceRemoving
	case at.frozen, !i.covered(v1alpha1.PermitSwap), i.update.Method == v1alpha1.UnitRemove:
		return i.keptPhase()
	case i.whole(), i.inPlace() && i.old.Phase == v1alpha1.InstanceRunning:
		return v1alpha1.InstanceRunning
	}
	// The update has taken over from a recovery that it met.
	return v1alpha1.InstanceCreating
}

// keptPhase is the phase that was reported last.
func (i *instance) keptPhase() v1alpha1.InstancePhase {
	switch i.old.Phase {
	case v1alpha1.InstanceRunning, v1alpha1.InstanceRecreating:
		return i.old.Phase
	case v1alpha1.InstanceCreating, v1alpha1.InstanceRemoving:
	}
	return v1alpha1.InstanceCreating
}

// drain has the requests of all Pods of the unit end. No Pod is made meanwhile: it would only be
// deleted again.
func (d *decision) drain(u *v1alpha1.UnitUpdate, members []*instance) standing {
	return d.drainAll(members, OrderKey(u.Attempt))
}

func (d *decision) drainAll(members []*instance, key string) standing {
	at := standing{stage: v1alpha1.UnitDrained, reason: v1alpha1.UnitWaitingPermit}
	for _, i := range members {
		for _, p := range i.pods {
			done, skipped, message := d.drained(p, key)
			if skipped {
				at.skipped = append(at.skipped, p.Name)
			}
			if !done && at.stage == v1alpha1.UnitDrained {
				at.stage, at.reason = v1alpha1.UnitDraining, v1alpha1.UnitWaitingDrain
				at.message = "Pod " + p.Name + ": " + message
			}
		}
	}
	return at
}

// removeUnit deletes the Pods of instances that are no longer declared.
func (d *decision) removeUnit(u *v1alpha1.UnitUpdate, members []*instance) standing {
	at := standing{stage: v1alpha1.UnitSwapping, reason: v1alpha1.UnitWaitingPermit}
	for _, i := range members {
		for _, p := range i.pods {
			if i.declared {
				continue
			}
			at.reason, at.message = v1alpha1.UnitWaitingDeletion, "Pod "+p.Name+" is not gone yet: "+d.takes(p, u)
		}
	}
	return at
}

// swap replaces the Pods that are not at their pin. New ones are made once the last old one is gone,
// so that a unit never runs two revisions. Where a person asked for new Pods all are old until it is written
// that the last of them is gone.
func (d *decision) swap(u *v1alpha1.UnitUpdate, members []*instance) standing {
	for _, i := range members {
		if i.declared && !i.resolved {
			return standing{frozen: true}
		}
	}
	var old standing
	for _, i := range members {
		for _, p := range i.pods {
			switch {
			case i.outdated(p):
				message := d.takes(p, u)
				old = standing{
					stage: v1alpha1.UnitSwapping, reason: v1alpha1.UnitWaitingDeletion,
					message: "the old Pod " + p.Name + " is not gone yet: " + message,
				}
			case p.Ended:
				d.replaceEnded(i, p)
			}
		}
	}
	switch {
	case old.stage != "":
		return old
	case u.Recreates() && !cleared(d.s.Group.Status, u):
		return standing{
			stage: v1alpha1.UnitSwapping, reason: v1alpha1.UnitWaitingScheduling, cleared: true,
			message: "the old Pods are gone, and are about to be created anew",
		}
	}
	for _, i := range members {
		d.refill(i)
	}
	return d.progress(u, members)
}

// progress says how far a unit is that has no old Pod left.
func (d *decision) progress(u *v1alpha1.UnitUpdate, members []*instance) standing {
	for _, i := range members {
		if at := i.incomplete(d.s.Group.Name); at.stage != "" {
			return at
		}
	}
	if p, ok := firstPod(members, func(_ *instance, p Pod) bool { return !p.ContainersReady }); ok {
		at := standing{stage: v1alpha1.UnitSwapping, reason: v1alpha1.UnitWaitingReady, message: notReady(p)}
		if p.Node == "" {
			at.reason = v1alpha1.UnitWaitingScheduling
		}
		return at
	}
	if !u.Permit.Allows(v1alpha1.PermitServe) {
		return standing{stage: v1alpha1.UnitVerified, reason: v1alpha1.UnitWaitingPermit}
	}
	if p, ok := firstPod(members, func(_ *instance, p Pod) bool { return !p.Ready || p.HeldUnit || !d.settled(p) }); ok {
		return standing{stage: v1alpha1.UnitVerified, reason: v1alpha1.UnitWaitingReady, message: notReady(p)}
	}
	return standing{stage: v1alpha1.UnitInService, reason: v1alpha1.UnitWaitingPermit}
}

// incomplete returns what the instance waits for if not all of its Pods exist; else nothing.
func (i *instance) incomplete(group string) standing {
	at := standing{stage: v1alpha1.UnitSwapping, reason: v1alpha1.UnitWaitingScheduling, message: i.trouble}
	if missing := i.missing(); len(missing) > 0 {
		if at.message == "" {
			at.message = "Pod " + v1alpha1.PodName(group, i.role, i.ordinal, missing[0]) + " does not exist yet"
		}
		return at
	}
	for _, p := range i.pods {
		if p.Deleting || p.Ended {
			at.reason, at.message = v1alpha1.UnitWaitingDeletion, "Pod "+p.Name+" was lost and is not gone yet"
			return at
		}
	}
	return standing{}
}

func firstPod(members []*instance, is func(*instance, Pod) bool) (Pod, bool) {
	for _, i := range members {
		for _, p := range i.pods {
			if is(i, p) {
				return p, true
			}
		}
	}
	return Pod{}, false
}

func notReady(p Pod) string {
	return words("Pod "+p.Name+" is not ready", p.Trouble)
}

// stage reports where the update stands, since when, and whether that takes too long.
func (d *decision) stage(u *v1alpha1.UnitUpdate, at standing) {
	was := d.stages[u.Unit]
	if was.Attempt != u.Attempt || !at.waits && !begun(u, was.Since.Time) {
		was = v1alpha1.UnitUpdateStatus{Since: d.now()}
	}
	now := v1alpha1.UnitUpdateStatus{Unit: u.Unit, Attempt: u.Attempt, Stage: at.stage, Reason: at.reason, Message: at.message}
	now.Cleared = was.Cleared || at.cleared
	switch {
	case at.frozen:
		if now = was; was.Stage == "" {
			return // nothing is known yet
		}
	case at.stage == v1alpha1.UnitSwapping && was.Stage == v1alpha1.UnitFailed:
		now.Stage = v1alpha1.UnitFailed
	case before(at.stage) && was.Stage == v1alpha1.UnitRefused && was.Reason == v1alpha1.UnitTooLong:
		now = was // what comes too late is of no use: the attempt is being given up
	case at.stage == v1alpha1.UnitSwapping && u.Permit.Allows(v1alpha1.PermitServe) &&
		(was.Stage == v1alpha1.UnitVerified || was.Stage == v1alpha1.UnitInService):
		now.Stage = v1alpha1.UnitVerified // as far as it has gone: what is left counts from there
	}
	now.Since = was.Since
	if now.Stage != was.Stage {
		now.Since = d.now()
	}
	d.deadline(u, &now)
	d.outage(u, &now)
	if now.Stage != was.Stage {
		d.announce(now, at)
	}
	d.plan.Status.Updates = append(d.plan.Status.Updates, now)
}

// begun reports whether the attempt had begun by then, and did not wait for its time.
func begun(u *v1alpha1.UnitUpdate, then time.Time) bool {
	return u.NotBefore == nil || !then.Before(u.NotBefore.Time)
}

// before reports whether a stage comes before the swap, and has to be left in time.
func before(stage v1alpha1.UnitStage) bool {
	return stage == v1alpha1.UnitPreparing || stage == v1alpha1.UnitDraining
}

// deadline has a unit fail that takes too long after its Pods were touched, has an attempt in place be given
// up that takes too long before that, and has the group report any other stage that does.
func (d *decision) deadline(u *v1alpha1.UnitUpdate, now *v1alpha1.UnitUpdateStatus) {
	inPlace := u.Method == v1alpha1.UnitInPlace
	swapping := now.Stage == v1alpha1.UnitSwapping && u.Method != v1alpha1.UnitRemove ||
		now.Stage == v1alpha1.UnitVerified && u.Permit.Allows(v1alpha1.PermitServe)
	if swapping || before(now.Stage) || now.Stage == v1alpha1.UnitSwapping {
		now.Deadline = new(metav1.NewTime(now.Since.Add(d.bound(u, now.Stage))))
	}
	switch {
	case now.Deadline == nil || !d.due(now.Deadline.Time):
	case swapping:
		now.Stage, now.Since = v1alpha1.UnitFailed, d.now()
	case inPlace && !u.Swapped:
		now.Message = fmt.Sprintf("it was %s since %s: %s", now.Stage, stamp(now.Since), now.Message)
		now.Stage, now.Since, now.Reason = v1alpha1.UnitRefused, d.now(), v1alpha1.UnitTooLong
	default:
		d.block(v1alpha1.BlockedDeadline, fmt.Sprintf("%s is at stage %s since %s: %s",
			unitWords(u.Unit), now.Stage, stamp(now.Since), now.Message))
	}
	if now.Stage == v1alpha1.UnitFailed {
		d.block(v1alpha1.BlockedFailed, fmt.Sprintf("%s failed at revision %s at %s: %s; it comes good when its Pods are ready, or is updated again for a new revision; `kubectl pitstop recreate %s` creates its Pods anew",
			unitWords(u.Unit), u.Target, stamp(now.Since), now.Message, v1alpha1.LedgerEntry(d.s.Group.Name, u.Unit)))
	}
	if now.Stage == v1alpha1.UnitRefused {
		d.block(v1alpha1.BlockedRefused, fmt.Sprintf("%s is not brought to revision %s, %s since %s: %s; %s", unitWords(u.Unit), u.Target,
			now.Reason, stamp(now.Since), now.Message, refusedWords(u)))
	}
}

// bound is how long an update may be at a stage that waits on the world. The agents of a unit in place
// have the deadline first, and a minute more to say that it has passed.
func (d *decision) bound(u *v1alpha1.UnitUpdate, stage v1alpha1.UnitStage) time.Duration {
	switch {
	case u.Method != v1alpha1.UnitInPlace:
		return d.s.Settings.Deadline
	case stage == v1alpha1.UnitDraining:
		return d.s.Settings.Deadline + d.s.Settings.DrainFor + silence
	default:
		return d.s.Settings.Deadline + silence
	}
}

// refusedWords says what a refused attempt means for the unit.
func refusedWords(u *v1alpha1.UnitUpdate) string {
	switch {
	case u.Swapped:
		return "it stays out of traffic until it is updated to a revision that its nodes can have"
	case u.Permit.Allows(v1alpha1.PermitDrain):
		return "it goes back in service as it was"
	default:
		return "it serves as before"
	}
}

// announce tells of a stage that the unit has just reached.
func (d *decision) announce(now v1alpha1.UnitUpdateStatus, at standing) {
	switch {
	case now.Stage == v1alpha1.UnitDrained && len(at.skipped) > 0:
		d.note(Notice{
			Reason: v1alpha1.EventDrainSkipped, Warning: true,
			Message: unitWords(now.Unit) + " goes without a drain of " + strings.Join(at.skipped, ", ") + ": no live agent drains there",
		})
	case now.Stage == v1alpha1.UnitRefused:
		if !at.waits { // else it is told again of the attempt before
			d.plan.Refusals = append(d.plan.Refusals, now.Reason)
		}
		d.note(Notice{Reason: v1alpha1.EventUnitRefused, Warning: true, Message: unitWords(now.Unit) + ": " + string(now.Reason) + ": " + now.Message})
	case now.Stage == v1alpha1.UnitFailed:
		d.note(Notice{Reason: v1alpha1.EventUnitFailed, Warning: true, Message: unitWords(now.Unit) + ": " + now.Message})
	}
}

func unitWords(unit string) string {
	if unit == "" {
		return "the group"
	}
	return "unit " + unit
}

// now is the time as the API stores it.
func (d *decision) now() metav1.Time { return metav1.NewTime(d.s.Now).Rfc3339Copy() }

func stamp(t metav1.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z07:00") }
