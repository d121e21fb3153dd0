package agent

import (
	"time"

	"pitstop.dev/api/v1alpha1"
)

// prepare has every wanted image on the node and proved, while the Pod serves. Pulls are begun
// before anything is waited for. Its result counts only if wait is true.
func (u Update) prepare(now time.Time) (s Step, wait bool) {
	for _, c := range u.Containers {
		if c.Want == "" || c.WantProof.State == Proved {
			continue
		}
		one := u.prepareOne(c, now)
		if one.Do != ActNone {
			return one, true
		}
		if !wait {
			s, wait = one, true
		}
	}
	return s, wait
}

func (u Update) prepareOne(c Container, now time.Time) Step {
	p := c.WantProof
	switch {
	case p.State == ProofRefused:
		return u.refuse(p.Why, "container "+c.Name+": "+p.Message)
	case p.Why == v1alpha1.WaitingUnauthorized && u.Order.ByHand:
		return u.refuse(v1alpha1.RefusedNeedsPinPod, "container "+c.Name+": "+p.Message+
			": preload the image on the node, or let a ServingGroup's pin Pod bring it")
	case p.State == ProofUnknown:
		return u.waitOrRefuse(now, u.preparing(), v1alpha1.WaitingRuntime, p.Message)
	case u.Pod.Hold.Placed() && u.backsOut():
		return Step{Do: ActOpen, Stage: v1alpha1.StagePreparing} // serve while the image comes again
	case p.State == ProofPending:
		return u.waitOrRefuse(now, v1alpha1.StagePreparing, p.Why, "container "+c.Name+": "+p.Message).by(p.RetryAt)
	case !u.Node.JournalOpen && !u.Pod.Hold.Placed():
		return u.waitForJournal(now, v1alpha1.StagePending)
	case u.late(now, v1alpha1.StagePreparing):
		return u.waitOrRefuse(now, v1alpha1.StagePreparing, v1alpha1.WaitingPull, "image "+c.Want+" is not on the node")
	default:
		return Step{Do: ActPull, Stage: v1alpha1.StagePreparing, Image: c.Want}
	}
}

// preparing is the stage at which the node's word on an image is awaited. A Pod that is held stays
// where it is: nothing is known to have changed.
func (u Update) preparing() v1alpha1.Stage {
	switch {
	case !u.Pod.Hold.Placed():
		return v1alpha1.StagePreparing
	case u.drainedReported():
		return v1alpha1.StageDrained
	}
	return v1alpha1.StageDraining
}

func (u Update) waitForJournal(now time.Time, at v1alpha1.Stage) Step {
	return u.waitOrRefuse(now, at, v1alpha1.WaitingJournal,
		"the agent's journal cannot be written: free space on its file system or repair it")
}

// drain takes the Pod out of traffic and waits for its requests to end. Its result counts only
// if wait is true.
func (u Update) drain(now time.Time) (s Step, wait bool) {
	if !u.Pod.Hold.Placed() {
		return u.hold(now), true
	}
	if u.GPUs.Released && u.backsOut() {
		return Step{Do: ActOpen, Stage: v1alpha1.StagePrepared}, true // serve until the driver is taken again
	}
	if u.drainedReported() {
		return Step{}, false
	}
	at := v1alpha1.StageDraining
	if u.Pod.Announced != u.announces() {
		return Step{Do: ActAnnounce, Stage: at}, true
	}
	switch ack := u.Pod.Hold.Acknowledged; {
	case ack.IsZero() && u.Pod.NotReadyAcknowledged:
		return Step{Do: ActAcknowledge, Stage: at}, true
	case ack.IsZero():
		return u.waitOrRefuse(now, at, v1alpha1.WaitingAcknowledge, "kubelet has not yet reported the Pod as not Ready"), true
	case now.Before(ack.Add(u.Order.Propagation)):
		return Step{
			Stage: at, Reason: v1alpha1.WaitingPropagation, Until: ack.Add(u.Order.Propagation),
			Message: "endpoints and routers are given " + u.Order.Propagation.String(),
		}, true
	}
	end := u.Pod.Hold.Acknowledged.Add(u.Order.Propagation).Add(u.Order.DrainFor)
	over := u.Order.DrainMode == "" || u.Order.DrainMode != v1alpha1.DrainDelay && u.Drain.Over
	if over || !now.Before(end) {
		return Step{}, false
	}
	if u.Order.DrainMode == v1alpha1.DrainDelay {
		return Step{Stage: at, Reason: v1alpha1.WaitingDrain, Message: "the delay of " + u.Order.DrainFor.String() + " is waited out", Until: end}, true
	}
	return Step{Stage: at, Reason: v1alpha1.WaitingDrain, Message: u.Drain.Message, Until: end}, true
}

// hold takes the Pod out of traffic, if now is the time.
func (u Update) hold(now time.Time) Step {
	at := v1alpha1.StagePrepared
	switch {
	case !u.Node.RuntimeUp:
		return u.waitOrRefuse(now, at, v1alpha1.WaitingRuntime, "the container runtime does not answer")
	case !u.Node.JournalOpen:
		return u.waitForJournal(now, at)
	case u.Node.NotNow != "" && len(u.Order.Want) > 0: // a mere drain ends no container
		return u.waitOrRefuse(now, at, u.Node.NotNow, u.Node.NotNowMessage).by(u.Node.NotNowUntil)
	case u.GPUs.Released:
		return u.awaitDriver(now, at)
	case u.GPUs.awaitsLook(now):
		return u.awaitLook(now, at)
	default:
		return Step{Do: ActHold, Stage: v1alpha1.StageDraining}
	}
}
