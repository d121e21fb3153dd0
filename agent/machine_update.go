package agent

import (
	"strings"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// An Update is all that a decision about one Pod's update depends on.
type Update struct {
	Order      Order
	Report     Report
	Pod        Pod
	Node       Node
	Drain      Drain
	GPUs       GPUs
	Containers []Container
	// PatchDenied is the API server's message if it refused this attempt's patch for good.
	PatchDenied string
	// Stage is the stage that the attempt was last seen at. Since is since when, or since the
	// last wait there for people or the coordinator, if that is later.
	Stage v1alpha1.Stage
	Since time.Time
}

// An Order is the part of InPlaceUpdate.spec that decisions depend on.
type Order struct {
	Token       string
	Attempt     int64
	ByHand      bool
	Permit      v1alpha1.Permit
	OpenAt      v1alpha1.OpenAt
	DrainMode   v1alpha1.DrainMode // empty: nothing is drained
	DrainFor    time.Duration
	Propagation time.Duration
	StopTimeout time.Duration
	Deadline    time.Duration
	// Want are the names of the containers to change.
	Want []string
	// Foreign says why this order may not be followed; empty if it may.
	Foreign       string
	ForeignReason v1alpha1.Reason
}

// Targets are the containers that the order names.
func (o Order) Targets() []string { return o.Want }

// counts reports whether the requests of the engine are counted during the drain.
func (o Order) counts() bool {
	return o.DrainMode == v1alpha1.DrainEngineMetrics || o.DrainMode == v1alpha1.DrainRouter
}

// A Report is what InPlaceUpdate.status says of the present attempt; zero if it says nothing.
type Report struct {
	Attempt int64
	Stage   v1alpha1.Stage
	Reason  v1alpha1.Reason
	Message string
	Since   time.Time
	// Superseded is true if an attempt before this one had not ended.
	Superseded bool
	// Closed is the highest attempt that is known to have ended, 0 if none is. It tells apart what
	// an attempt without containers takes back from what was there before.
	Closed int64
}

// A Hold is the agent's own hold on the Pod.
type Hold struct {
	Token        string
	LoweredAt    time.Time
	Acknowledged time.Time
}

// Placed reports whether the agent holds the Pod, for whichever attempt.
func (h Hold) Placed() bool { return h.Token != "" }

// A Patch says which attempt patched the Pod's images last, and when.
type Patch struct {
	Token string
	At    time.Time
}

// A Pod is the state of the Pod in the API.
type Pod struct {
	Gone                 bool   // or being deleted, or not the Pod that the order is about
	Elsewhere            string // the node that it runs on, if that is another one than the order says
	Failed               bool   // its phase is final
	HasGate              bool
	GateOpen             bool
	Hold                 Hold
	Announced            string // the token that the Pod's router is asked for; empty: it is not asked
	OtherHolders         []string
	Patched              Patch
	NotReadyAcknowledged bool
	// ContainersReady is kubelet's, and only if it is about the containers that run now.
	ContainersReady bool
	// Ready is kubelet's, under the same proviso.
	Ready bool
	// LabelsDue reports whether the order's labels differ from the Pod's.
	LabelsDue bool
	// patchedByOrder is whether Patched belongs to the present attempt.
	patchedByOrder bool
}

// goneMessage says why there is nothing to work on.
func (p Pod) goneMessage() string {
	if p.Elsewhere != "" {
		return "the Pod runs on node " + p.Elsewhere + " and not on the one that the order names: delete this InPlaceUpdate and order again"
	}
	return "the Pod is being deleted or is gone: nothing was touched; a new Pod needs a new InPlaceUpdate"
}

// PatchedByOrder reports whether the present attempt has patched the Pod.
func (p Pod) PatchedByOrder() bool { return p.patchedByOrder }

// A Node is the state of what the update depends on besides the Pod.
type Node struct {
	RuntimeUp   bool
	KubeletUp   bool
	JournalOpen bool
	// NotNow says why no Pod may be taken out of traffic now; empty if it may.
	NotNow        v1alpha1.Reason
	NotNowMessage string
	NotNowUntil   time.Time
}

// A Drain is what is known of the requests that the Pod still works on.
type Drain struct {
	// Over is true when there is nothing left, or never was.
	Over bool
	// Message says how many there are, or why that is not known.
	Message string
}

// swapped reports whether the attempt is past the point of no return.
func (u Update) swapped() bool {
	return u.Pod.patchedByOrder || u.reached(v1alpha1.StageSwapping) ||
		len(u.Order.Want) == 0 && u.Order.Permit.Allows(v1alpha1.PermitServe)
}

// swapOpen reports whether the Pod is held for a patch that has not been seen through, by this
// attempt or one before: what runs in it may be no good, so the hold is not given back.
func (u Update) swapOpen() bool {
	patched, hold := u.Pod.Patched, u.Pod.Hold
	switch {
	case patched.Token == "" || !hold.Placed():
		return false
	case sameOrder(patched.Token, hold.Token):
		return attemptOf(patched.Token) >= attemptOf(hold.Token)
	case sameOrder(patched.Token, u.Order.Token): // the order was made anew, and patched under the hold of the old one
		return true
	default: // of two orders' attempts neither is the later one by its number
		return !patched.At.Before(hold.LoweredAt)
	}
}

// holdLeft reports whether an ended attempt has left a hold that is this order's to take away.
func (u Update) holdLeft() bool {
	ours := u.Order.Foreign == "" || sameOrder(u.Pod.Hold.Token, u.Order.Token)
	return u.Pod.Hold.Placed() && !u.swapOpen() && ours && !u.keepsHold()
}

// keepsHold reports whether an attempt that was refused leaves the Pod out of traffic: others of its unit may
// have been changed already, so whether it may serve as it is is the coordinator's to say.
func (u Update) keepsHold() bool {
	return !u.Order.ByHand && u.Order.OpenAt == v1alpha1.OpenAtVerified && !u.Order.Permit.Allows(v1alpha1.PermitServe)
}

// untouched reports whether the attempt has no part in what runs in the Pod: it changes no
// container and comes after no patch that was not seen through.
func (u Update) untouched() bool { return len(u.Order.Want) == 0 && !u.seesThrough() }

// seesThrough reports whether an attempt without containers comes after a patch, so that nothing
// can be taken back: it takes the Pod on to service.
func (u Update) seesThrough() bool {
	if len(u.Order.Want) > 0 {
		return false
	}
	patched := u.Pod.Patched.Token
	return u.swapOpen() || u.reached(v1alpha1.StageSwapping) ||
		u.Report.Superseded && sameOrder(patched, u.Order.Token) && attemptOf(patched) > u.Report.Closed
}

// opensVerified reports whether the gate stays closed until all containers are ready.
func (u Update) opensVerified() bool {
	takesBack := u.untouched() && u.Order.Permit.Allows(v1alpha1.PermitServe)
	return u.failed() || u.seesThrough() || u.Order.OpenAt == v1alpha1.OpenAtVerified && !takesBack
}

// announces is the token that the Pod's router is asked for during the drain; empty if it is not.
func (u Update) announces() string {
	if u.Order.DrainMode == v1alpha1.DrainRouter {
		return u.Order.Token
	}
	return ""
}

// reached reports whether the attempt has been reported at stage s or a later one.
func (u Update) reached(s v1alpha1.Stage) bool { return rank(u.Report.Stage) >= rank(s) }

func (u Update) failed() bool { return u.Report.Stage == v1alpha1.StageFailed }

func rank(s v1alpha1.Stage) int {
	switch s {
	case v1alpha1.StagePending:
		return 0
	case v1alpha1.StagePreparing:
		return 1
	case v1alpha1.StagePrepared:
		return 2
	case v1alpha1.StageDraining:
		return 3
	case v1alpha1.StageDrained:
		return 4
	case v1alpha1.StageSwapping, v1alpha1.StageFailed:
		return 5
	case v1alpha1.StageProved:
		return 6
	case v1alpha1.StageVerified:
		return 7
	case v1alpha1.StageInService, v1alpha1.StageRefused, v1alpha1.StageCancelled:
		return 8
	}
	return -1 // not reported
}

// drainedReported reports whether the baseline of the present hold is stored.
func (u Update) drainedReported() bool {
	return u.Report.Stage == v1alpha1.StageDrained && !u.Report.Since.Before(u.Pod.Hold.LoweredAt)
}

func (u Update) mustOpen() bool {
	return u.Pod.Hold.Placed() || u.Pod.LabelsDue || u.Pod.HasGate && !u.Pod.GateOpen && len(u.Pod.OtherHolders) == 0
}

func (u Update) provedStage() v1alpha1.Stage {
	if u.verified() {
		return v1alpha1.StageVerified
	}
	return v1alpha1.StageProved
}

// awaitPermit waits at stage at for permit p.
func awaitPermit(at v1alpha1.Stage, p v1alpha1.Permit) Step {
	return Step{Stage: at, Reason: v1alpha1.WaitingPermit, Message: "waits for permit " + string(p)}
}

// reportPermit reports stage at, and that permit p is waited for if it is.
func (u Update) reportPermit(at v1alpha1.Stage, p v1alpha1.Permit) Step {
	s := Step{Stage: at}
	if !u.Order.Permit.Allows(p) {
		s = awaitPermit(at, p)
	}
	s.Do = ActReport
	return s
}

// lateReason says what is special about an attempt that came good.
func (u Update) lateReason() v1alpha1.Reason {
	switch {
	case u.Order.ByHand && u.seesThrough():
		return v1alpha1.EndedCancelTooLate
	case u.failed() || u.Report.Reason == v1alpha1.EndedLateSuccess:
		return v1alpha1.EndedLateSuccess
	}
	return ""
}

// late reports whether the attempt has been at stage s for longer than its deadline.
func (u Update) late(now time.Time, s v1alpha1.Stage) bool {
	return u.Stage == s && !now.Before(u.Since.Add(u.Order.Deadline))
}

func (u Update) deadline(now time.Time, s v1alpha1.Stage) time.Time {
	if u.Stage == s {
		return u.Since.Add(u.Order.Deadline)
	}
	return now.Add(u.Order.Deadline)
}

// waitOrRefuse waits at a stage before the patch, until the deadline.
func (u Update) waitOrRefuse(now time.Time, s v1alpha1.Stage, reason v1alpha1.Reason, message string) Step {
	if u.late(now, s) {
		return u.refuse(v1alpha1.RefusedDeadline, string(s)+" took longer than "+u.Order.Deadline.String()+": "+message)
	}
	return Step{Stage: s, Reason: reason, Message: message, Until: u.deadline(now, s)}
}

// failLate waits at a stage after the patch, until the deadline.
func (u Update) failLate(now time.Time, s v1alpha1.Stage, reason v1alpha1.Reason, message string) Step {
	if u.failed() {
		return u.fail(u.Report.Reason, u.Report.Message)
	}
	if u.late(now, s) {
		return u.fail(v1alpha1.FailedDeadline, string(s)+" took longer than "+u.Order.Deadline.String()+": "+message)
	}
	return Step{Stage: s, Reason: reason, Message: message, Until: u.deadline(now, s)}
}

// by returns the step as one that is judged again at t at the latest, if it waits.
func (s Step) by(t time.Time) Step {
	if s.Do == ActNone {
		s.Until = earliest(s.Until, t)
	}
	return s
}

// earliest returns the earlier of two times; a zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func join(words []string) string { return strings.Join(words, ", ") }
