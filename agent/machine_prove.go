package agent

import (
	"slices"
	"strconv"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// prove compares what runs with what was asked for, container by container. Its result counts
// only if wait is true.
func (u Update) prove(now time.Time) (s Step, wait bool) {
	for _, c := range u.Containers {
		if !c.Regular {
			continue
		}
		if c.Want != "" || u.swapOpen() {
			if s, wait := u.proveOne(c, now); wait {
				return s, true
			}
		}
	}
	return Step{}, false
}

func (u Update) proveOne(c Container, now time.Time) (s Step, wait bool) {
	proof := c.WantProof
	switch {
	case c.Want == "":
		proof = Proof{State: Proved, ID: c.Now.ImageID} // not this update's image
	case c.SpecImage != c.Want && c.Stored != "" && c.SpecImage != c.Stored:
		return u.fail(v1alpha1.FailedImageRewritten, "container "+c.Name+": somebody changed the image to "+c.SpecImage+
			" after the patch to "+c.Stored+": order the image that is to run"), true
	case c.SpecImage != c.Want:
		proof = c.SpecProof
		if proof.State == ProofMissing || proof.State == ProofRefused {
			return u.fail(v1alpha1.FailedImageRewritten, "container "+c.Name+": the API server stored image "+c.SpecImage+
				" for "+c.Want+", and that one is not on the node: look for a webhook that rewrites images"), true
		}
	}
	switch {
	case c.Crashes >= crashLimit && !u.Pod.ContainersReady && !now.Before(latest(u.GPUs.HeldUntil, u.GPUs.ExcusedUntil)):
		return u.crashLoops(c), true
	case proof.State == ProofMissing:
		return Step{Do: ActPull, Stage: v1alpha1.StageSwapping, Image: c.Want}, true // kubelet would have to pull it itself
	case proof.State != Proved:
		return u.awaitKubelet(now, "container "+c.Name+": image "+c.SpecImage+" is not proved: "+proof.Message), true
	case !c.Now.Up && c.Now.Hash == c.SpecHash:
		return u.awaitRestart(now, c), true
	case c.Now.Hash != c.SpecHash && c.Now.Up:
		return u.awaitKubelet(now, "container "+c.Name+" still runs the image before"), true
	case !c.Now.Up:
		return u.awaitKubelet(now, "container "+c.Name+" is not running"), true
	case c.Now.ImageID != proof.ID:
		return u.awaitKubelet(now, "container "+c.Name+" runs image "+c.Now.ImageID+", proved was "+proof.ID), true
	case u.Pod.patchedByOrder && c.Want != "" && c.inBaseline() && now.Before(u.Pod.Patched.At.Add(relist)):
		s := u.awaitKubelet(now, "container "+c.Name+" may still be about to be replaced")
		return s.by(u.Pod.Patched.At.Add(relist)), true
	}
	return Step{}, false
}

// crashLoops gives an attempt up whose new container crashed again and again.
func (u Update) crashLoops(c Container) Step {
	if u.failed() && u.Report.Reason == v1alpha1.FailedCrashLooping {
		return u.fail(u.Report.Reason, u.Report.Message) // as it was then
	}
	return u.fail(v1alpha1.FailedCrashLooping, "container "+c.Name+" crashed "+strconv.Itoa(int(c.Crashes))+
		" times with image "+c.SpecImage+": see its logs, then update to a good image"+u.unjudged())
}

// awaitRestart waits for a new container that kubelet has made and that does not run. Up and down between crashes, an
// attempt stays at one stage: there is one deadline.
func (u Update) awaitRestart(now time.Time, c Container) Step {
	if c.Now.Made {
		return u.awaitStart(now, v1alpha1.WaitingKubelet, "container "+c.Name+" is made and not started yet")
	}
	message := "container " + c.Name + " has ended, and kubelet starts it again"
	if c.Crashes > 0 {
		message += "; it crashed " + strconv.Itoa(int(c.Crashes)) + " times"
	}
	if c.Retried {
		message += "; its first start failed for want of GPU memory"
	}
	return u.awaitStart(now, v1alpha1.WaitingRestart, message)
}

// awaitStart waits for the engine, until the deadline.
func (u Update) awaitStart(now time.Time, reason v1alpha1.Reason, message string) Step {
	s := u.failLate(now, v1alpha1.StageProved, reason, message)
	if !u.failed() && s.Do == ActReport {
		s.Message += u.unjudged()
	}
	return s
}

// identified reports whether kubelet has made all that the order asks for: new containers, each
// with kubelet's hash for the new image and the proved image id, though not all may run yet.
//
// The gate opens at this moment and not at the start that follows it. Kubelet makes and starts
// a container in one sync of its Pod, and looks at the gate again only in its next sync, which
// waits for the next relist: a gate that is open by then costs nothing, one that opens later
// costs a second. Until the new engine is ready ContainersReady keeps the Pod out of traffic:
// the sync that made the container has seen the old one dead.
func (u Update) identified() bool {
	made := 0
	for _, c := range u.Containers {
		switch {
		case !c.Regular || c.Want == "" || c.Before.Image == c.SpecImage:
		case c.WantProof.State != Proved || c.Want != c.SpecImage,
			!c.Now.Up && !c.Now.Made, c.Now.Hash != c.SpecHash, c.Now.ImageID != c.WantProof.ID, c.inBaseline():
			return false
		default:
			made++
		}
	}
	return made > 0
}

// awaitKubelet waits for the new containers, bounds the stop of the old ones and gives up at
// the deadline.
func (u Update) awaitKubelet(now time.Time, message string) Step {
	if u.stopStuck(now) {
		return u.fail(v1alpha1.FailedStopStuck, message+" and did not end when it was killed: the node may have to be rebooted")
	}
	return u.failLate(now, v1alpha1.StageSwapping, v1alpha1.WaitingKubelet, message).by(u.nextStop(now))
}

// stopBy is when the old containers must have ended; zero if they are not this update's to end.
func (u Update) stopBy() time.Time {
	if !u.Pod.patchedByOrder && !u.swapOpen() {
		return time.Time{}
	}
	return u.Pod.Patched.At.Add(u.Order.StopTimeout)
}

// overdueStop returns the step that kills an old container whose time is over. It needs a live
// kubelet: a container that is down while kubelet restarts would lose its Pod its devices.
func (u Update) overdueStop(now time.Time) (Step, bool) {
	if by := u.stopBy(); by.IsZero() || now.Before(by) || !u.Node.KubeletUp {
		return Step{}, false
	}
	for _, c := range u.Containers {
		if c.old() && !c.Stopping {
			return Step{Do: ActStop, Stage: v1alpha1.StageSwapping, ContainerID: c.Now.ID}, true
		}
	}
	return Step{}, false
}

// stopStuck reports whether an old container has outlived its kill. It counts from the kill: that
// may have had to wait for kubelet.
func (u Update) stopStuck(now time.Time) bool {
	return u.Node.KubeletUp && slices.ContainsFunc(u.Containers, func(c Container) bool {
		return c.old() && !c.Killed.IsZero() && now.After(c.Killed.Add(killGrace))
	})
}

// nextStop returns when overdueStop is worth another look; zero if never.
func (u Update) nextStop(now time.Time) time.Time {
	by := u.stopBy()
	switch {
	case by.IsZero() || !slices.ContainsFunc(u.Containers, Container.old):
		return time.Time{}
	case now.Before(by):
		return by
	default:
		return now.Add(relist)
	}
}
