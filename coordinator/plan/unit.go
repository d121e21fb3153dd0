package plan

import (
	"time"

	"pitstop.dev/api/v1alpha1"
)

// downAfter is how long a unit has to be without a Ready entry Pod to count as down: one that
// merely blinks comes back, and taking it meanwhile would add to the loss.
const downAfter = 30 * time.Second

// A unit is what one update touches: a ServingGroup as a whole, or one role instance of it.
type unit struct {
	group   *group
	role    string // empty: the whole group
	ordinal int32
	pin     string
	// known: the layouts of the pin, and of the update's target, can be read.
	known bool
	// atTarget: what the pin says of the unit is what the target says.
	atTarget bool
	// protected: the ordinal is below the partition.
	protected bool
	// leaving: it is being deleted, and lives until its last Pod is gone.
	leaving bool
	// booked: it is in the ledger.
	booked bool
	// closed: its update is closed in this pass, so that nothing new begins before that is seen.
	closed bool
	// open is its update, nil if there is none. ahead is one that merely prepares: the unit serves, and
	// counts as in no update.
	open, ahead *v1alpha1.UnitUpdate
	// report is on the attempt of open or ahead and on today's spec; nil if there is none yet.
	report *v1alpha1.UnitUpdateStatus

	// available: ready for minReady, in no update and not booked. uncertain: what is reported is about
	// an older spec, so that it may be available all the same. down: without a Ready entry Pod, and for
	// so long that it costs nothing to take it.
	ready, available, uncertain, down bool
	// sick says which GPU of it is sick, empty if none is. held: it is kept out of traffic for that.
	sick string
	held bool
	// sound: all instances that the group has are ready, be they fewer than are declared.
	sound bool
	// since is when it stopped being ready, as far as that is known.
	since time.Time
	cost  int64
}

// name is the unit's name in the ledger and in messages.
func (u *unit) name() string { return v1alpha1.LedgerEntry(u.group.Name, u.unitName()) }

// unitName is the unit's name within its group.
func (u *unit) unitName() string {
	if u.role == "" {
		return ""
	}
	return v1alpha1.UnitName(u.role, u.ordinal)
}

func (u *unit) removing() bool {
	return u.open != nil && u.open.Method == v1alpha1.UnitRemove
}

func (u *unit) updating() bool {
	return u.open != nil && u.open.Method != v1alpha1.UnitRemove
}

// latched reports whether a person took the unit's update back, so that it is not chosen again for a while. In
// place such a unit is prepared anew in time.
func (u *unit) latched() bool { return u.ahead != nil && u.ahead.Method == v1alpha1.UnitRecreate }

// serves reports whether the unit may be in service, although it is perhaps not counted as available:
// it is still in the ledger, or not ready for long enough.
func (u *unit) serves() bool {
	return u.open == nil && !u.leaving && (u.ready || u.sound || !u.group.settled)
}

// stays reports whether the unit is neither gone nor going.
func (u *unit) stays() bool { return !u.leaving && !u.removing() }

// recallable reports whether the unit is being removed, and could still stay.
func (u *unit) recallable() bool {
	return u.removing() && !u.leaving && u.open.Permit == v1alpha1.PermitDrain
}

// eligible reports whether the unit is to be brought to the target.
func (u *unit) eligible() bool {
	return !u.atTarget && !u.protected && u.known && u.stays()
}

// swapped reports whether the open update has left the revision at which the unit last served.
func (u *unit) swapped() bool {
	return u.open.Swapped || u.open.Permit != v1alpha1.PermitDrain || u.pin != u.open.Previous
}

func (u *unit) reached(stage v1alpha1.UnitStage) bool {
	return u.report != nil && u.report.Stage == stage
}
