// Package agent takes Pods of one node through an in-place update, one attempt at a time.
//
// Next decides and the runner acts. What Next reads is observed anew each time, from the order
// (InPlaceUpdate), the Pod and the container runtime; so a restarted agent enters at the step
// that fits what it finds. An attempt passes through these stages:
//
//	Pending -> Preparing -> Prepared -> Draining -> Drained -> Swapping -> Proved -> Verified -> InService
//	   |           |            |           |          |           |          |          |
//	   +-----------+------------+-----------+----------+           +----------+----------+
//	                 Refused, Cancelled                                   Failed -> Verified (late success)
//
// Until the patch everything can be taken back: the Pod then serves as before. Where an image is
// lost from the node after Prepared, a Pod that is alone in its unit goes back there. From the
// patch on an update goes only forward, or to a newer attempt. How an attempt ends is reported
// before the Pod is opened or held for it: what follows from a report is found again after a
// crash, and a deadline that has passed is not.
package agent

import (
	"cmp"
	"slices"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// Bounds that are not the operator's to set.
const (
	// crashLimit is how many crashes of a patched container make the attempt fail.
	crashLimit = 3
	// relist is how long kubelet may take to see a change of its own Pod: one period of its
	// generic PLEG (1 s) and some more.
	relist = 2 * time.Second
	// killGrace is how long a killed container may take to be reported dead.
	killGrace = time.Minute
)

// An Action is what the runner does for one step. Each is safe to repeat.
type Action string

// The actions.
const (
	// ActNone: nothing; the step waits.
	ActNone Action = ""
	// ActDone: the attempt has ended; nothing is left to do.
	ActDone Action = "Done"
	// ActReport writes the stage to the order's status.
	ActReport Action = "Report"
	// ActPull pulls Step.Image.
	ActPull Action = "Pull"
	// ActHold takes the Pod out of traffic.
	ActHold Action = "Hold"
	// ActAnnounce makes the router's marks on the Pod those of this attempt: it asks the router, or
	// takes back what an attempt before has asked.
	ActAnnounce Action = "Announce"
	// ActAcknowledge stores when kubelet answered the hold.
	ActAcknowledge Action = "Acknowledge"
	// ActPatch patches the images.
	ActPatch Action = "Patch"
	// ActStop kills the container Step.ContainerID, whose time to stop is over.
	ActStop Action = "Stop"
	// ActRetry notes that the first start of Step.Container failed for want of GPU memory, so that the next one is
	// planned as well.
	ActRetry Action = "Retry"
	// ActOpen puts the Pod back in traffic, with its labels.
	ActOpen Action = "Open"
)

// A Step is what Next decides: an action, or a wait with its reason. Stage is where the attempt
// stands; an ActReport writes it. A wait is judged again when something changes, and at Until
// at the latest unless that is zero.
type Step struct {
	Do          Action
	Stage       v1alpha1.Stage
	Reason      v1alpha1.Reason
	Message     string
	Until       time.Time
	Image       string
	ContainerID string
	Container   string
}

// patient reports whether the step waits for people or the coordinator, whom no deadline hurries.
func (s Step) patient() bool {
	return s.Do == ActNone && (s.Reason == v1alpha1.WaitingPermit || s.Reason == v1alpha1.WaitingHeld)
}

// Next returns the one step that moves u on, as far as its permit allows.
func Next(u Update, now time.Time) Step { return u.withGPUs(u.next(now), now) }

func (u Update) next(now time.Time) Step {
	switch {
	case u.Pod.Gone && u.Report.Stage.Ended():
		return Step{Do: ActDone, Stage: u.Report.Stage}
	case u.Pod.Gone:
		return Step{Do: ActReport, Stage: v1alpha1.StageCancelled, Reason: v1alpha1.EndedPodGone, Message: u.Pod.goneMessage()}
	case u.Report.Stage == v1alpha1.StageInService && u.holdLeft():
		return Step{Do: ActOpen, Stage: v1alpha1.StageInService}
	case u.Report.Stage.Ended() && u.holdLeft():
		return Step{Do: ActOpen, Stage: v1alpha1.StagePending} // the Pod is only taken back
	case u.Report.Stage.Ended() && u.Pod.Hold.Placed() && u.Order.ByHand && u.Order.Foreign == "":
		return u.finishEarlier(now)
	case u.Report.Stage.Ended():
		return Step{Do: ActDone, Stage: u.Report.Stage, Reason: u.Report.Reason}
	case u.Order.Foreign != "" && !u.Pod.patchedByOrder:
		return Step{Do: ActReport, Stage: v1alpha1.StageRefused, Reason: cmp.Or(u.Order.ForeignReason, v1alpha1.RefusedForeign), Message: u.Order.Foreign}
	case u.swapped():
		return u.afterSwap(now)
	default:
		return u.beforeSwap(now)
	}
}

// finishEarlier sees the swap of an earlier attempt through after the present one has ended
// without one of its own: its report stays as it is.
func (u Update) finishEarlier(now time.Time) Step {
	s := FinishOrphan(u, now)
	if s.Do == ActOpen {
		s.Stage = v1alpha1.StagePending // the Pod is only taken back
	}
	if s.Do == ActNone {
		s.Stage, s.Reason, s.Message = u.Report.Stage, u.Report.Reason, u.Report.Message
	}
	return s
}

// FinishOrphan returns the one step that brings a Pod back in service whose order is gone: at
// once where it was not patched, else as soon as its containers run what its spec says.
func FinishOrphan(u Update, now time.Time) Step {
	switch {
	case u.Pod.Gone || !u.Pod.Hold.Placed():
		return Step{Do: ActDone}
	case u.swapOpen():
		if s, ok := u.overdueStop(now); ok {
			return s
		}
		if !u.Node.RuntimeUp || !u.Pod.ContainersReady || !u.wholeAtSpec() {
			return Step{Stage: v1alpha1.StageSwapping, Reason: v1alpha1.WaitingLoad, Until: u.nextStop(now)}
		}
	}
	return Step{Do: ActOpen}
}

// KeepHeld returns the one step for a ServingGroup's Pod that is held and whose order is missing.
// It stays held until its controller gives the order anew; only the stop of an old container goes
// on being bounded.
func KeepHeld(u Update, now time.Time) Step {
	if u.Pod.Gone {
		return Step{}
	}
	if s, ok := u.overdueStop(now); ok {
		return s
	}
	return Step{Until: u.nextStop(now)}
}

// beforeSwap moves an attempt up to its patch, or gives it up and leaves the Pod as it was.
func (u Update) beforeSwap(now time.Time) Step {
	if reason, message := u.refusal(); reason != "" {
		return u.refuse(reason, message)
	}
	if u.Pod.Hold.Placed() && u.Pod.Hold.Token != u.Order.Token && u.backsOut() {
		return Step{Do: ActOpen, Stage: v1alpha1.StagePending}
	}
	if s, wait := u.prepare(now); wait {
		return s
	}
	if !u.reached(v1alpha1.StagePrepared) || u.reached(v1alpha1.StageDraining) && !u.Pod.Hold.Placed() {
		return u.reportPermit(v1alpha1.StagePrepared, v1alpha1.PermitDrain)
	}
	if !u.Order.Permit.Allows(v1alpha1.PermitDrain) {
		return awaitPermit(v1alpha1.StagePrepared, v1alpha1.PermitDrain)
	}
	if len(u.Order.Want) > 0 && u.nothingToSwap() &&
		u.Order.OpenAt == v1alpha1.OpenAtProved && u.Order.Permit.Allows(v1alpha1.PermitSwap) {
		return u.afterSwap(now) // the containers already run what is asked for
	}
	if s, wait := u.drain(now); wait {
		return s
	}
	return u.swap(now)
}

// swap patches the images of a drained Pod once it may.
func (u Update) swap(now time.Time) Step {
	at := v1alpha1.StageDrained
	switch {
	case !u.drainedReported() && !u.Node.RuntimeUp:
		return u.waitOrRefuse(now, v1alpha1.StageDraining, v1alpha1.WaitingRuntime, "the containers of the baseline are not known")
	case !u.drainedReported() && u.GPUs.Released && !u.swapOpen():
		return u.awaitDriver(now, v1alpha1.StageDraining)
	case !u.drainedReported() && u.GPUs.awaitsLook(now):
		return u.awaitLook(now, v1alpha1.StageDraining)
	case !u.drainedReported():
		return u.reportPermit(at, v1alpha1.PermitSwap)
	case !u.Order.Permit.Allows(v1alpha1.PermitSwap):
		return awaitPermit(at, v1alpha1.PermitSwap)
	case !u.Pod.NotReadyAcknowledged:
		return u.waitOrRefuse(now, at, v1alpha1.WaitingAcknowledge, "the Pod is Ready again though its gate is lowered")
	case u.Node.NotNow != "" && !u.swapOpen():
		return u.waitOrRefuse(now, at, u.Node.NotNow, u.Node.NotNowMessage).by(u.Node.NotNowUntil)
	case u.GPUs.Released && !u.swapOpen():
		return u.awaitDriver(now, at)
	case u.GPUs.awaitsLook(now) && !u.swapOpen():
		// Of the stage that an agent before has reported the deadline may be over; this has its own.
		return Step{Stage: at, Reason: v1alpha1.WaitingUnread, Message: u.GPUs.Unseen, Until: u.GPUs.AwaitUntil}
	case u.kubeletBehind():
		if s, ok := u.overdueStop(now); ok {
			return s
		}
		s := u.waitOrRefuse(now, at, v1alpha1.WaitingKubelet, "kubelet has not yet acted on the images of the attempt before")
		return s.by(u.nextStop(now))
	case u.nothingToSwap():
		return u.afterSwap(now)
	case u.late(now, v1alpha1.StageSwapping):
		return u.refuse(v1alpha1.RefusedDeadline, "the API server did not take the patch within "+u.Order.Deadline.String())
	default:
		return Step{Do: ActPatch, Stage: v1alpha1.StageSwapping}
	}
}

// afterSwap proves what kubelet started, and puts the Pod back in service.
func (u Update) afterSwap(now time.Time) Step {
	switch {
	case u.untouched():
		return u.open(now)
	case u.Pod.Failed:
		return u.fail(v1alpha1.FailedPod, "the Pod's phase is final and kubelet starts nothing in it: recreate it")
	case u.failed() && (!u.mayComeGood() || !u.Node.RuntimeUp):
		return u.fail(u.Report.Reason, u.Report.Message)
	case !u.Node.RuntimeUp:
		return Step{Stage: v1alpha1.StageSwapping, Reason: v1alpha1.WaitingRuntime, Message: "the container runtime does not answer"}
	}
	if s, ok := u.overdueStop(now); ok {
		return s
	}
	for _, decide := range []func() (Step, bool){u.memoryFailure, u.plannedRetry} {
		if s, ok := decide(); ok {
			return s
		}
	}
	if u.opensEarly() {
		return Step{Do: ActOpen, Stage: v1alpha1.StageProved}
	}
	if s, wait := u.prove(now); wait {
		return s
	}
	return u.open(now)
}

// opensEarly reports whether the gate opens before the new containers run.
func (u Update) opensEarly() bool {
	return u.Order.OpenAt == v1alpha1.OpenAtProved && u.Order.Permit.Allows(v1alpha1.PermitServe) &&
		u.Report.Stage != v1alpha1.StageFailed && u.Pod.Hold.Placed() && u.Pod.patchedByOrder && u.identified()
}

// open takes a proved Pod to service.
func (u Update) open(now time.Time) Step {
	switch verified := u.verified(); {
	case u.opensVerified() && !verified:
		return u.load(now)
	case u.failed() && u.Pod.GateOpen && !u.Pod.Ready:
		return u.awaitReady(now)
	case u.opensVerified() && !u.reached(v1alpha1.StageVerified):
		return Step{Do: ActReport, Stage: v1alpha1.StageVerified, Reason: u.lateReason()}
	case !u.Order.Permit.Allows(v1alpha1.PermitServe):
		return awaitPermit(u.provedStage(), v1alpha1.PermitServe)
	case u.untouched() && !u.Pod.HasGate && u.Pod.LabelsDue:
		return u.refuse(u.refusal()) // nobody but its owner writes to a Pod without the gate
	case u.mustOpen():
		return Step{Do: ActOpen, Stage: u.provedStage()}
	case u.untouched():
		return u.endUntouched()
	case !verified:
		return u.load(now)
	case len(u.Pod.OtherHolders) > 0:
		return Step{
			Stage: v1alpha1.StageVerified, Reason: v1alpha1.WaitingHeld,
			Message: "kept out of traffic by another hold: " + join(u.Pod.OtherHolders),
		}
	case !u.Pod.Ready:
		return u.awaitReady(now)
	}
	return Step{Do: ActReport, Stage: v1alpha1.StageInService, Reason: u.lateReason()}
}

// endUntouched ends an attempt that patched nothing: one by hand without containers takes back
// the one before it.
func (u Update) endUntouched() Step {
	if u.Order.ByHand && u.Report.Superseded {
		return Step{Do: ActReport, Stage: v1alpha1.StageCancelled, Reason: v1alpha1.EndedCancelled}
	}
	return Step{Do: ActReport, Stage: v1alpha1.StageInService}
}

// verified reports whether a proved Pod has come up on GPUs that were given back.
func (u Update) verified() bool { return u.Pod.ContainersReady && u.memoryReleased() }

// load waits for the engine, and for the memory of the one before.
func (u Update) load(now time.Time) Step {
	if u.Pod.ContainersReady {
		return u.awaitRelease()
	}
	return u.awaitStart(now, v1alpha1.WaitingLoad, "the new containers run and are not ready yet")
}

// awaitReady waits for kubelet, or for another gate of the Pod. What runs is good, so the Pod is
// not held where that takes too long: it would never be Ready then.
func (u Update) awaitReady(now time.Time) Step {
	s := u.failLate(now, v1alpha1.StageVerified, v1alpha1.WaitingReady, "the gate is open; kubelet has not reported Ready")
	if s.Do == ActHold {
		s.Do = ActNone
	}
	return s
}

// refusal returns why nothing that this order asks for can be done to this Pod, if so.
func (u Update) refusal() (v1alpha1.Reason, string) {
	switch {
	case !u.Pod.HasGate:
		return v1alpha1.RefusedNoGate, "the Pod has no readiness gate " + string(v1alpha1.InService) +
			": gates cannot be added to a live Pod; add it to the template and recreate the Pod"
	case u.PatchDenied != "":
		return v1alpha1.RefusedPatch, "the API server refused the patch: " + u.PatchDenied
	case u.Pod.Failed:
		return v1alpha1.RefusedEnded, "the Pod has ended and kubelet starts nothing in it any more: recreate it"
	}
	for _, c := range u.Containers {
		switch {
		case c.Want == "":
		case !c.Regular:
			return v1alpha1.RefusedNotRegular, "container " + c.Name + " is not a regular container of the Pod"
		case c.PullAlways:
			return v1alpha1.RefusedPullAlways, "container " + c.Name +
				" has imagePullPolicy Always: recreate the Pod with IfNotPresent to update it in place"
		case !c.RestartsAlways:
			return v1alpha1.RefusedRestartPolicy, "container " + c.Name + " has a restart policy other than Always"
		}
	}
	return "", ""
}

// backsOut reports whether a hold that protects nothing yet may be given back while this
// attempt prepares. In units of several Pods that is the coordinator's decision.
func (u Update) backsOut() bool {
	return !u.swapOpen() && u.Order.OpenAt == v1alpha1.OpenAtProved
}

func (u Update) refuse(reason v1alpha1.Reason, message string) Step {
	if u.swapOpen() {
		message += "; the Pod stays out of traffic until the images of the attempt before are up: wait for them, or update to images that are good"
	}
	return Step{Do: ActReport, Stage: v1alpha1.StageRefused, Reason: reason, Message: message}
}

// fail reports that the attempt has failed, and holds the Pod if its new images were let in.
func (u Update) fail(reason v1alpha1.Reason, message string) Step {
	s := Step{Do: ActReport, Stage: v1alpha1.StageFailed, Reason: reason, Message: message}
	switch {
	case !u.failed() || u.Report.Reason != reason:
	case u.Pod.patchedByOrder && !u.Pod.Hold.Placed() && u.Pod.HasGate && !u.Pod.Failed:
		s.Do = ActHold
	default:
		s.Do = ActNone
	}
	return s
}

// mayComeGood reports whether a failed attempt is worth another look. So is a crash loop that need not be the image's
// doing: the memory of before is not known to be free, or it began under another order.
func (u Update) mayComeGood() bool {
	return u.failedForMemory() || u.Report.Reason == v1alpha1.FailedCrashLooping && (!u.Pod.patchedByOrder || !u.memoryProven()) ||
		slices.Contains([]v1alpha1.Reason{v1alpha1.FailedDeadline, v1alpha1.FailedStopStuck, v1alpha1.FailedImageRewritten}, u.Report.Reason)
}
