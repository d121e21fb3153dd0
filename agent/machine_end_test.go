package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

func TestNextRefuses(t *testing.T) {
	const end = v1alpha1.StageRefused
	refuses := func(why v1alpha1.Reason) Step { return report(end, why) }
	checkTransitions(t, Next, map[string]transition{
		"an order that is not the coordinator's": {
			asked(func(u *Update) { u.Order.Foreign = "the Pod is a ServingGroup's" }), refuses(v1alpha1.RefusedForeign).says("ServingGroup's"),
		},
		"such an order without containers": {
			asked(nothingAsked, relabels, func(u *Update) { u.Order.Foreign = "not yours" }), refuses(v1alpha1.RefusedForeign),
		},
		"and leaves the hold of another order alone": {
			drained(held("other/7"), reported(end, v1alpha1.RefusedForeign), func(u *Update) { u.Order.Foreign = "not yours" }),
			Step{Do: ActDone, Stage: end, Reason: v1alpha1.RefusedForeign},
		},
		"and takes its own hold away": {
			drained(reported(end, v1alpha1.RefusedForeign), func(u *Update) { u.Order.Foreign = "not yours" }), do(ActOpen, v1alpha1.StagePending),
		},
		"but goes on where its own patch is made": {
			started(func(u *Update) { u.Order.Foreign = "not yours any more" }), do(ActOpen, v1alpha1.StageProved),
		},
		"a Pod without our gate": {
			asked(func(u *Update) { u.Pod.HasGate = false }), refuses(v1alpha1.RefusedNoGate),
		},
		"a Pod that has ended": {
			asked(podFailed), refuses(v1alpha1.RefusedEnded),
		},
		"a container that is not a regular one": {
			asked(engine(func(c *Container) { *c = Container{Name: "init", Want: "new"} })), refuses(v1alpha1.RefusedNotRegular),
		},
		"pull policy Always": {
			asked(engine(func(c *Container) { c.PullAlways = true })), refuses(v1alpha1.RefusedPullAlways),
		},
		"a restart policy other than Always": {
			asked(engine(func(c *Container) { c.RestartsAlways = false })), refuses(v1alpha1.RefusedRestartPolicy),
		},
		"not for a container that stays as it is": {
			asked(sidecar(func(c *Container) { c.PullAlways, c.RestartsAlways = true, false })), do(ActPull, v1alpha1.StagePreparing).image("new"),
		},
		"an image that the registry does not have": {
			asked(imageRefused(v1alpha1.RefusedNotFound)), refuses(v1alpha1.RefusedNotFound),
		},
		"an image for another platform": {
			asked(imageRefused(v1alpha1.RefusedPlatform)), refuses(v1alpha1.RefusedPlatform),
		},
		"the second of two images, before the first is there": {
			asked(pending(v1alpha1.WaitingPull), sidecar(wants("bad", Proof{State: ProofRefused, Why: v1alpha1.RefusedNotFound}))),
			refuses(v1alpha1.RefusedNotFound),
		},
		"an image that only a pin Pod could bring": {
			asked(pending(v1alpha1.WaitingUnauthorized)), refuses(v1alpha1.RefusedNeedsPinPod),
		},
		"a patch that the API server forbids": {
			drained(func(u *Update) { u.PatchDenied = "no" }), refuses(v1alpha1.RefusedPatch),
		},
		"a pull past the deadline": {
			asked(pending(v1alpha1.WaitingPull), overdue(v1alpha1.StagePreparing)), refuses(v1alpha1.RefusedDeadline),
		},
		"a registry past the deadline, also between two tries": {
			asked(overdue(v1alpha1.StagePreparing)), refuses(v1alpha1.RefusedDeadline),
		},
		"a slot past the deadline": {
			asked(pending(v1alpha1.WaitingSlot), overdue(v1alpha1.StagePreparing)), refuses(v1alpha1.RefusedDeadline),
		},
		"a runtime that is silent past the deadline": {
			asked(runtimeDown, overdue(v1alpha1.StagePreparing)), refuses(v1alpha1.RefusedDeadline),
		},
		"a journal that is shut past the deadline": {
			asked(journalShut, overdue(v1alpha1.StagePending)), refuses(v1alpha1.RefusedDeadline),
		},
		"a node that does not settle before the deadline": {
			prepared(overdue(v1alpha1.StagePrepared), func(u *Update) { u.Node.NotNow = v1alpha1.WaitingSettle }), refuses(v1alpha1.RefusedDeadline),
		},
		"a kubelet that does not answer before the deadline": {
			lowered(overdue(v1alpha1.StageDraining)), refuses(v1alpha1.RefusedDeadline),
		},
		"a Pod that stays Ready past the deadline": {
			drained(readyAgain, overdue(v1alpha1.StageDrained)), refuses(v1alpha1.RefusedDeadline),
		},
		"to wait longer for kubelet to act on the patch before": {
			drained(held("ipu/1"), patchedBy("ipu/1"), engine(runs("c-first", "first")), overdue(v1alpha1.StageDrained)),
			refuses(v1alpha1.RefusedDeadline).says("stays out of traffic"),
		},
		"a bad image after an open swap, and says what that means": {
			drained(superseding, held("ipu/2"), patchedBy("ipu/2"), imageRefused(v1alpha1.RefusedNotFound)),
			refuses(v1alpha1.RefusedNotFound).says("stays out of traffic"),
		},
		"and puts the Pod back in traffic, with its labels as they were": {
			drained(reported(end, v1alpha1.RefusedDeadline)), do(ActOpen, v1alpha1.StagePending),
		},
		"and keeps it held after an open swap while its images are not up": {
			drained(superseding, held("ipu/2"), patchedBy("ipu/2"), engine(exited), reported(end, v1alpha1.RefusedNotFound)),
			Step{Stage: end, Reason: v1alpha1.RefusedNotFound},
		},
		"and lets it go once they are": {
			drained(superseding, held("ipu/2"), patchedBy("ipu/2"), reported(end, v1alpha1.RefusedNotFound)),
			do(ActOpen, v1alpha1.StagePending),
		},
		"and kills what does not stop for an open swap": {
			drained(superseding, held("ipu/2"), patchedBy("ipu/2"), stopOver, engine(runs("c-first", "first")), reported(end, v1alpha1.RefusedNotFound)),
			do(ActStop, v1alpha1.StageSwapping).container("c-first"),
		},
		"and is done": {
			asked(reported(end, v1alpha1.RefusedNotFound)), Step{Do: ActDone, Stage: end, Reason: v1alpha1.RefusedNotFound},
		},
	})
}

func TestNextFails(t *testing.T) {
	const failed, proven, verified = v1alpha1.StageFailed, v1alpha1.StageProved, v1alpha1.StageVerified
	fails := func(why v1alpha1.Reason) Step { return report(failed, why) }
	rests := func(why v1alpha1.Reason) Step { return waits(failed, why) }
	crashed := func(n int32) change { return engine(func(c *Container) { c.Crashes = n }) }
	stuck := func(u *Update) { u.Pod.Patched.At, u.Containers[0].Killed = at(9), at(39) }
	justKilled := func(u *Update) { u.Pod.Patched.At, u.Containers[0].Killed = at(9), at(95) }
	reportedLate := reported(failed, v1alpha1.FailedDeadline)
	otherGate := func(u *Update) { u.Pod.Ready = false }
	checkTransitions(t, Next, map[string]transition{
		"when the new container has crashed three times": {
			opened(crashed(3), engine(exited)), fails(v1alpha1.FailedCrashLooping).says("crashed 3 times"),
		},
		"not when it has crashed twice": {
			opened(crashed(2), engine(exited)), waits(proven, v1alpha1.WaitingRestart).until(1895).says("crashed 2 times"),
		},
		"not when it is ready after three crashes": {
			served(crashed(3)), report(v1alpha1.StageInService, ""),
		},
		"and then holds the Pod that was let in": {
			opened(crashed(3), reported(failed, v1alpha1.FailedCrashLooping)), Step{Do: ActHold, Stage: failed, Reason: v1alpha1.FailedCrashLooping, Message: "as reported"},
		},
		"and rests": {
			started(crashed(3), reported(failed, v1alpha1.FailedCrashLooping)), rests(v1alpha1.FailedCrashLooping),
		},
		"and rests where a crash loop looks good for a moment": {
			started(isReady, reported(failed, v1alpha1.FailedCrashLooping)), rests(v1alpha1.FailedCrashLooping),
		},
		"when kubelet does not start the container before the deadline": {
			patched(engine(exited), overdue(v1alpha1.StageSwapping)), fails(v1alpha1.FailedDeadline),
		},
		"when the engine does not come up before the deadline": {
			opened(overdue(proven)), fails(v1alpha1.FailedDeadline).says("Proved took longer than 30m0s"),
		},
		"when the engine of a unit's Pod does not": {
			started(openAtVerified, overdue(proven)), fails(v1alpha1.FailedDeadline),
		},
		"when kubelet does not say Ready before the deadline": {
			served(otherGate, overdue(verified)), fails(v1alpha1.FailedDeadline),
		},
		"with a hold where the engine is to blame": {
			opened(reportedLate), Step{Do: ActHold, Stage: failed, Reason: v1alpha1.FailedDeadline, Message: "as reported"},
		},
		"without one where another gate is": {
			served(otherGate, reportedLate), rests(v1alpha1.FailedDeadline),
		},
		"without one where it has changed nothing": {
			opened(patchedBy("ipu/1"), reportedLate), rests(v1alpha1.FailedDeadline),
		},
		"when the old container outlives its kill": {
			patched(stuck, engine(stopping)), fails(v1alpha1.FailedStopStuck),
		},
		"not when it was killed late, for want of kubelet": {
			patched(justKilled, engine(stopping)), waits(v1alpha1.StageSwapping, v1alpha1.WaitingKubelet).until(102),
		},
		"not while kubelet is down": {
			patched(stuck, engine(stopping), kubeletDown), waits(v1alpha1.StageSwapping, v1alpha1.WaitingKubelet).until(102),
		},
		"and tries again to kill it": {
			patched(stuck, reported(failed, v1alpha1.FailedStopStuck)), do(ActStop, v1alpha1.StageSwapping).container("c-old"),
		},
		"and rests between two tries": {
			patched(stuck, engine(stopping), reported(failed, v1alpha1.FailedStopStuck)), rests(v1alpha1.FailedStopStuck),
		},
		"when the Pod has ended after the patch": {
			started(podFailed), fails(v1alpha1.FailedPod),
		},
		"and does not hold a Pod that has ended": {
			opened(podFailed, reported(failed, v1alpha1.FailedPod)), rests(v1alpha1.FailedPod),
		},
		"and stays failed while the runtime is silent": {
			started(reportedLate, runtimeDown), rests(v1alpha1.FailedDeadline),
		},
		"and stays failed while the engine still loads": {
			started(reportedLate), rests(v1alpha1.FailedDeadline),
		},
		"by the later reason where a second comes": {
			started(crashed(3), reportedLate), fails(v1alpha1.FailedCrashLooping),
		},
		"and comes good late": {
			started(isReady, reportedLate), report(verified, v1alpha1.EndedLateSuccess),
		},
		"and is opened then": {
			started(isReady, reported(verified, v1alpha1.EndedLateSuccess)), do(ActOpen, proven),
		},
		"and is in service with a word about it": {
			served(reported(verified, v1alpha1.EndedLateSuccess)), report(v1alpha1.StageInService, v1alpha1.EndedLateSuccess),
		},
		"and comes good late where the other gate opens": {
			served(reportedLate), report(verified, v1alpha1.EndedLateSuccess),
		},
		"and comes good late after a stop that hung": {
			started(isReady, reported(failed, v1alpha1.FailedStopStuck)), report(verified, v1alpha1.EndedLateSuccess),
		},
		"and comes good late in a unit, where it waits for Serve": {
			started(isReady, openAtVerified, permit(v1alpha1.PermitSwap), reported(verified, v1alpha1.EndedLateSuccess)),
			waits(verified, v1alpha1.WaitingPermit),
		},
	})
}
