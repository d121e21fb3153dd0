package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

func TestNextPrepares(t *testing.T) {
	const preparing, prepare = v1alpha1.StagePreparing, v1alpha1.StagePrepared
	checkTransitions(t, Next, map[string]transition{
		"pulls the image while the Pod serves": {
			asked(), do(ActPull, preparing).image("new"),
		},
		"pulls although the Pod is not ready": {
			asked(loading), do(ActPull, preparing).image("new"),
		},
		"begins the second pull before it waits for the first": {
			asked(pending(v1alpha1.WaitingPull), sidecar(wants("new-side", Proof{State: ProofMissing}))),
			do(ActPull, preparing).image("new-side"),
		},
		"waits for a pull that is under way": {
			asked(pending(v1alpha1.WaitingPull)), waits(preparing, v1alpha1.WaitingPull).until(fresh),
		},
		"counts the deadline of a pull from the start of the stage": {
			asked(pending(v1alpha1.WaitingPull), stands(preparing, 40)), waits(preparing, v1alpha1.WaitingPull).until(1840),
		},
		"waits while other Pods' pulls have all slots": {
			asked(pending(v1alpha1.WaitingSlot)), waits(preparing, v1alpha1.WaitingSlot).until(fresh),
		},
		"waits for a registry until the next try": {
			asked(proof(Proof{State: ProofPending, Why: v1alpha1.WaitingRegistry, RetryAt: at(104)})),
			waits(preparing, v1alpha1.WaitingRegistry).until(104),
		},
		"waits for space on the disk until the next try": {
			asked(proof(Proof{State: ProofPending, Why: v1alpha1.WaitingDisk, RetryAt: at(104)})),
			waits(preparing, v1alpha1.WaitingDisk).until(104),
		},
		"waits for a pin Pod where the registry wants credentials": {
			asked(openAtVerified, pending(v1alpha1.WaitingUnauthorized)), waits(preparing, v1alpha1.WaitingUnauthorized).until(fresh),
		},
		"waits for the runtime where it cannot say what is on the node": {
			asked(runtimeDown), waits(preparing, v1alpha1.WaitingRuntime).until(fresh),
		},
		"starts nothing without a journal": {
			asked(journalShut), waits(v1alpha1.StagePending, v1alpha1.WaitingJournal).until(fresh),
		},
		"needs no journal where the Pod is held already": {
			asked(openAtVerified, held("ipu/1"), journalShut), do(ActPull, preparing).image("new"),
		},
		"reports Prepared once every image is proved": {
			asked(proof(Proof{State: Proved, ID: "id-new"})), report(prepare, ""),
		},
		"says so where the next permit is missing": {
			asked(proof(Proof{State: Proved, ID: "id-new"}), permit(v1alpha1.PermitPrepare)), report(prepare, v1alpha1.WaitingPermit),
		},
		"reports Prepared where no container is to change": {
			asked(nothingAsked, permit(v1alpha1.PermitDrain)), report(prepare, ""),
		},
		"waits for permit Drain as long as it takes": {
			prepared(permit(v1alpha1.PermitPrepare), overdue(prepare)), waits(prepare, v1alpha1.WaitingPermit),
		},
		"prepares with an empty permit and goes no further": {
			prepared(permit("")), waits(prepare, v1alpha1.WaitingPermit),
		},
		"pulls an image again that the collector took before Drain": {
			prepared(lost), do(ActPull, preparing).image("new"),
		},
	})
}

func TestNextDrains(t *testing.T) {
	const prepare, drain, empty = v1alpha1.StagePrepared, v1alpha1.StageDraining, v1alpha1.StageDrained
	delay := func(u *Update) { u.Order.DrainMode = v1alpha1.DrainDelay }
	justAnswered := func(u *Update) { u.Pod.Hold.Acknowledged = at(98.5) }
	asked := func(token string) change { return func(u *Update) { u.Pod.Announced = token } }
	router := func(u *Update) { u.Order.DrainMode, u.Pod.Announced = v1alpha1.DrainRouter, "ipu/2" }
	drainOver := func(u *Update) { u.Pod.Hold.Acknowledged = at(100 - 303) }
	checkTransitions(t, Next, map[string]transition{
		"takes a prepared Pod out of traffic": {
			prepared(), do(ActHold, drain),
		},
		"takes one that another holder keeps out of traffic": {
			prepared(heldByOther), do(ActHold, drain),
		},
		"takes none while the runtime is silent, though its image was seen": {
			prepared(func(u *Update) { u.Node.RuntimeUp = false }), waits(prepare, v1alpha1.WaitingRuntime).until(1850),
		},
		"takes none without a journal": {
			prepared(journalShut), waits(prepare, v1alpha1.WaitingJournal).until(1850),
		},
		"takes none while the node settles": {
			prepared(func(u *Update) { u.Node.NotNow, u.Node.NotNowUntil = v1alpha1.WaitingSettle, at(130) }),
			waits(prepare, v1alpha1.WaitingSettle).until(130),
		},
		"takes none without its device plugin": {
			prepared(func(u *Update) { u.Node.NotNow, u.Node.NotNowUntil = v1alpha1.WaitingDevicePlugin, at(102) }),
			waits(prepare, v1alpha1.WaitingDevicePlugin).until(102),
		},
		"waits for kubelet to see the gate": {
			lowered(), waits(drain, v1alpha1.WaitingAcknowledge).until(1860),
		},
		"stores when kubelet saw it": {
			lowered(func(u *Update) { u.Pod.NotReadyAcknowledged = true }), do(ActAcknowledge, drain),
		},
		"gives endpoints their delay, to the millisecond": {
			acknowledged(justAnswered), waits(drain, v1alpha1.WaitingPropagation).until(101.5),
		},
		"gives them the delay where there is nothing to drain": {
			acknowledged(idle, justAnswered), waits(drain, v1alpha1.WaitingPropagation).until(101.5),
		},
		"waits for requests, and says how many": {
			acknowledged(), waits(drain, v1alpha1.WaitingDrain).until(61 + 3 + 300).says("2 requests running"),
		},
		"waits a plain delay out": {
			acknowledged(delay), waits(drain, v1alpha1.WaitingDrain).until(61 + 3 + 300),
		},
		"reports Drained, with the baseline, when no request is left": {
			acknowledged(idle), report(empty, ""),
		},
		"reports Drained at the timeout, whatever is left": {
			acknowledged(drainOver), report(empty, ""),
		},
		"reports Drained after the delay": {
			acknowledged(delay, drainOver), report(empty, ""),
		},
		"waits for the router's answer, and says so": {
			acknowledged(router, func(u *Update) { u.Drain.Message = "the router has not answered" }),
			waits(drain, v1alpha1.WaitingDrain).until(61 + 3 + 300).says("the router has not answered"),
		},
		"gives endpoints their delay though the router has answered": {
			acknowledged(router, idle, justAnswered), waits(drain, v1alpha1.WaitingPropagation).until(101.5),
		},
		"reports Drained when router and engine have no request left": {
			acknowledged(router, idle), report(empty, ""),
		},
		"reports Drained at the timeout, whatever the router says": {
			acknowledged(router, drainOver), report(empty, ""),
		},
		"asks the router anew under the hold of an attempt before": {
			acknowledged(router, idle, held("ipu/1"), openAtVerified, asked("ipu/1")), do(ActAnnounce, drain),
		},
		"asks the router anew where its question was removed": {
			lowered(router, asked("")), do(ActAnnounce, drain),
		},
		"asks the router where an attempt before has drained without it": {
			acknowledged(router, held("ipu/1"), openAtVerified, asked("")), do(ActAnnounce, drain),
		},
		"takes back what an attempt before has asked the router": {
			acknowledged(idle, held("ipu/1"), openAtVerified, asked("ipu/1")), do(ActAnnounce, drain),
		},
		"asks no router after Drained": {
			drained(router, permit(v1alpha1.PermitDrain), asked("")), waits(empty, v1alpha1.WaitingPermit),
		},
		"drains nothing where none is asked for": {
			acknowledged(func(u *Update) { u.Order.DrainMode = "" }), report(empty, ""),
		},
		"says so where the next permit is missing": {
			acknowledged(idle, permit(v1alpha1.PermitDrain)), report(empty, v1alpha1.WaitingPermit),
		},
		"drains a Pod of which nothing changes": {
			acknowledged(nothingAsked, permit(v1alpha1.PermitDrain)), waits(drain, v1alpha1.WaitingDrain).until(61 + 3 + 300),
		},
		"drains it at permit Swap too": {
			prepared(nothingAsked, permit(v1alpha1.PermitSwap)), do(ActHold, drain),
		},
		"goes on without a journal": {
			acknowledged(idle, journalShut), report(empty, ""),
		},
		"serves while a lost image comes again": {
			acknowledged(lost), do(ActOpen, v1alpha1.StagePreparing),
		},
		"keeps a unit's Pod held while a lost image comes again": {
			acknowledged(openAtVerified, lost), do(ActPull, v1alpha1.StagePreparing).image("new"),
		},
		"is Prepared again where it served meanwhile": {
			drained(released, isReady), report(prepare, ""),
		},
		"is Prepared again where it served in the middle of the drain": {
			acknowledged(released, isReady, reported(drain, v1alpha1.WaitingDrain)), report(prepare, ""),
		},
		"takes no baseline while the runtime is silent": {
			acknowledged(nothingAsked, permit(v1alpha1.PermitDrain), runtimeDown, idle), waits(drain, v1alpha1.WaitingRuntime).until(1860),
		},
		"does not take the baseline of an earlier hold for this one's": {
			drained(func(u *Update) { u.Report.Since = at(59) }), report(empty, ""),
		},
	})
}

func TestNextSwaps(t *testing.T) {
	const drain, swap = v1alpha1.StageDrained, v1alpha1.StageSwapping
	checkTransitions(t, Next, map[string]transition{
		"patches a drained Pod": {
			drained(), do(ActPatch, swap),
		},
		"patches without a journal": {
			drained(journalShut), do(ActPatch, swap),
		},
		"patches a Pod whose engine is down": {
			drained(engine(exited)), do(ActPatch, swap),
		},
		"patches a Pod that never started a container": {
			drained(engine(func(c *Container) { c.Now = Running{} })), do(ActPatch, swap),
		},
		"patches where one image of two differs": {
			drained(sidecar(wants("old", Proof{State: Proved, ID: "id-old"}))), do(ActPatch, swap),
		},
		"waits for permit Swap as long as it takes": {
			drained(permit(v1alpha1.PermitDrain), overdue(drain)), waits(drain, v1alpha1.WaitingPermit),
		},
		"does not patch a Pod that is Ready again": {
			drained(readyAgain), waits(drain, v1alpha1.WaitingAcknowledge).until(1870),
		},
		"proves the image once more: lost, the Pod serves again": {
			drained(lost), do(ActOpen, v1alpha1.StagePreparing),
		},
		"proves the image once more: unknown is not lost, the Pod stays where it is": {
			drained(proof(Proof{})), waits(v1alpha1.StageDrained, v1alpha1.WaitingRuntime).until(1870),
		},
		"proves the image once more: lost, a unit's Pod gets it under the hold": {
			drained(openAtVerified, lost), do(ActPull, v1alpha1.StagePreparing).image("new"),
		},
		"waits for the node to settle, also when it was restarted during the drain": {
			drained(func(u *Update) { u.Node.NotNow, u.Node.NotNowUntil = v1alpha1.WaitingSettle, at(90) }),
			waits(drain, v1alpha1.WaitingSettle).until(90),
		},
		"settles no longer where an earlier swap is open": {
			drained(held("ipu/1"), patchedBy("ipu/1"), engine(runs("c-first", "old")), func(u *Update) {
				u.Node.NotNow = v1alpha1.WaitingSettle
			}), do(ActPatch, swap),
		},
		"gives up a patch that the API server has not taken by the deadline": {
			drained(overdue(swap)), report(v1alpha1.StageRefused, v1alpha1.RefusedDeadline),
		},
		"waits for kubelet to act on the patch of the attempt before": {
			drained(held("ipu/1"), patchedBy("ipu/1"), engine(runs("c-first", "first"))),
			waits(drain, v1alpha1.WaitingKubelet).until(120),
		},
		"does not wait for one that was seen through": {
			drained(patchedBy("ipu/1"), engine(runs("c-first", "first"))), do(ActPatch, swap),
		},
		"bounds the stop that the attempt before has begun": {
			drained(held("ipu/1"), patchedBy("ipu/1"), stopOver, engine(runs("c-first", "first"))),
			do(ActStop, swap).container("c-first"),
		},
		"patches on where the attempt before hangs on its image": {
			drained(held("ipu/1"), patchedBy("ipu/1"), engine(exited)), do(ActPatch, swap),
		},
		"does not drain for what is there already": {
			prepared(engine(func(c *Container) { c.SpecImage, c.SpecHash = "new", "hash-new" }, runs("c-old", "new"))),
			report(v1alpha1.StageInService, ""),
		},
		"drains for it where the unit is held together": {
			prepared(openAtVerified, engine(func(c *Container) { c.SpecImage, c.SpecHash = "new", "hash-new" }, runs("c-old", "new"))),
			do(ActHold, v1alpha1.StageDraining),
		},
		"patches nothing where all is there already": {
			drained(openAtVerified, engine(func(c *Container) { c.SpecImage, c.SpecHash = "new", "hash-new" }, runs("c-old", "new"))),
			report(v1alpha1.StageVerified, ""),
		},
		"patches nothing where nothing is to change": {
			drained(nothingAsked, openAtVerified, permit(v1alpha1.PermitSwap)), report(v1alpha1.StageVerified, ""),
		},
	})
}

func TestNextProves(t *testing.T) {
	const swap = v1alpha1.StageSwapping
	rewritten := func(p Proof) func(*Container) {
		return func(c *Container) { c.SpecImage, c.SpecHash, c.SpecProof = "mirror/new", "hash-mirror/new", p }
	}
	atTarget := engine(runs("c-old", "new"))
	checkTransitions(t, Next, map[string]transition{
		"waits for kubelet, and looks when the old container's time is over": {
			patched(), waits(swap, v1alpha1.WaitingKubelet).until(120),
		},
		"kills an old container whose time is over": {
			patched(stopOver), do(ActStop, swap).container("c-old"),
		},
		"does not kill it twice": {
			patched(stopOver, engine(stopping)), waits(swap, v1alpha1.WaitingKubelet).until(102),
		},
		"kills none while kubelet is down": {
			patched(stopOver, kubeletDown), waits(swap, v1alpha1.WaitingKubelet).until(102),
		},
		"kills the second after the first": {
			patched(stopOver, engine(stopping), sidecar(func(c *Container) { c.SpecImage, c.SpecHash = "other", "hash-other" })),
			do(ActStop, swap).container("c-side"),
		},
		"does not kill what a person changed long after our patch": {
			prepared(patchedLongAgo, engine(func(c *Container) { c.SpecImage, c.SpecHash = "new", "hash-new" })),
			waits(swap, v1alpha1.WaitingKubelet).until(fresh),
		},
		"waits for the start once the old container is gone": {
			patched(stopOver, engine(exited)), waits(swap, v1alpha1.WaitingKubelet).until(1890),
		},
		"waits where the runtime has no container at all": {
			patched(engine(func(c *Container) { c.Now = Running{} })), waits(swap, v1alpha1.WaitingKubelet).until(1890),
		},
		"waits while the runtime is silent": {
			patched(runtimeDown), waits(swap, v1alpha1.WaitingRuntime),
		},
		"pulls an image that was lost between Drained and the patch": {
			patched(lost, engine(exited)), do(ActPull, swap).image("new"),
		},
		"waits while it comes": {
			patched(pending(v1alpha1.WaitingPull), engine(exited)), waits(swap, v1alpha1.WaitingKubelet).until(1890),
		},
		"waits where it cannot be had any more: kubelet may still get it": {
			patched(imageRefused(v1alpha1.RefusedNotFound), engine(exited)), waits(swap, v1alpha1.WaitingKubelet).until(1890),
		},
		"does not take another image id for the proved one": {
			started(engine(func(c *Container) { c.Now.ImageID = "id-other" })), waits(swap, v1alpha1.WaitingKubelet).until(1890),
		},
		"needs no new id where the image has two names": {
			started(engine(func(c *Container) { c.Before.ImageID = "id-new" })), do(ActOpen, v1alpha1.StageProved),
		},
		"gives kubelet a relist to replace what runs the target already": {
			patched(atTarget, func(u *Update) { u.Pod.Patched.At = at(99) }), waits(swap, v1alpha1.WaitingKubelet).until(101),
		},
		"takes what runs the target already after the relist": {
			patched(atTarget), do(ActOpen, v1alpha1.StageVerified),
		},
		"knows a container of an earlier baseline": {
			patched(engine(runs("c-older", "new"), func(c *Container) { c.Prior = []string{"c-older", "c-old"} }),
				func(u *Update) { u.Pod.Patched.At = at(99) }),
			waits(swap, v1alpha1.WaitingKubelet).until(101),
		},
		"gives no relist to a container that stays as it is": {
			started(sidecar(), baseline, engine(runs("c-new", "new")), func(u *Update) {
				u.Containers[0].Before.ID, u.Containers[0].Prior, u.Pod.Patched.At = "c-old", nil, at(99.5)
			}),
			do(ActOpen, v1alpha1.StageProved),
		},
		"waits for the second container of two": {
			started(sidecar(wants("new-side", Proof{State: Proved, ID: "id-new-side"}), func(c *Container) {
				c.SpecImage, c.SpecHash = "new-side", "hash-new-side"
			})),
			waits(swap, v1alpha1.WaitingKubelet).until(120),
		},
		"waits for a peer that restarts while the unit is held": {
			started(openAtVerified, sidecar(exited)), waits(v1alpha1.StageProved, v1alpha1.WaitingLoad).until(fresh),
		},
		"takes a crashed new container as one that loads": {
			started(engine(exited), stands(v1alpha1.StageProved, 95)), waits(v1alpha1.StageProved, v1alpha1.WaitingLoad).until(1895),
		},
		"proves the image that the API server stored": {
			started(engine(rewritten(Proof{State: Proved, ID: "id-new"}), func(c *Container) { c.Now.Hash = "hash-mirror/new" })),
			do(ActOpen, v1alpha1.StageProved),
		},
		"waits where it is not known whether that one is there": {
			started(engine(rewritten(Proof{}), func(c *Container) { c.Now.Hash = "hash-mirror/new" })),
			waits(swap, v1alpha1.WaitingKubelet).until(1890),
		},
		"fails where that one is not there": {
			patched(engine(rewritten(Proof{State: ProofMissing}))), report(v1alpha1.StageFailed, v1alpha1.FailedImageRewritten).says("mirror/new"),
		},
		"fails where somebody changed it after the patch, though that one is there": {
			started(engine(rewritten(Proof{State: Proved, ID: "id-new"}), func(c *Container) { c.Stored = "new" })),
			report(v1alpha1.StageFailed, v1alpha1.FailedImageRewritten).says("somebody changed"),
		},
		"does not blame somebody for what a webhook stored": {
			started(engine(rewritten(Proof{State: Proved, ID: "id-new"}), func(c *Container) { c.Now.Hash, c.Stored = "hash-mirror/new", "mirror/new" })),
			do(ActOpen, v1alpha1.StageProved),
		},
		"goes on once the image is the one that was asked for": {
			started(isReady, reported(v1alpha1.StageFailed, v1alpha1.FailedImageRewritten), engine(func(c *Container) { c.Stored = "new" })),
			report(v1alpha1.StageVerified, v1alpha1.EndedLateSuccess),
		},
		"fails where that one is of no use here": {
			patched(engine(rewritten(Proof{State: ProofRefused}))), report(v1alpha1.StageFailed, v1alpha1.FailedImageRewritten),
		},
	})
}

func TestNextOpens(t *testing.T) {
	const proven, verified = v1alpha1.StageProved, v1alpha1.StageVerified
	elsewhere := func(u *Update) { u.Pod.Ready = false }
	checkTransitions(t, Next, map[string]transition{
		"opens as soon as kubelet has made the new container": {
			patched(loading, engine(runs("c-new", "new"), made)), do(ActOpen, proven),
		},
		"opens as soon as it runs": {
			started(), do(ActOpen, proven),
		},
		"opens while a peer restarts: ContainersReady is kubelet's": {
			started(sidecar(exited)), do(ActOpen, proven),
		},
		"does not open before all new containers are made": {
			started(sidecar(wants("new", Proof{State: Proved, ID: "id-new"}), func(c *Container) {
				c.SpecImage, c.SpecHash, c.Before = "new", "hash-new", Baseline{ID: "c-side", Image: "old"}
			})),
			waits(v1alpha1.StageSwapping, v1alpha1.WaitingKubelet).until(120),
		},
		"does not open before kubelet has made any": {
			patched(engine(exited)), waits(v1alpha1.StageSwapping, v1alpha1.WaitingKubelet).until(1890),
		},
		"does not open for what was made of another image": {
			patched(loading, engine(runs("c-new", "new"), made, func(c *Container) { c.Now.ImageID = "id-other" })),
			waits(proven, v1alpha1.WaitingLoad).until(fresh),
		},
		"does not open a unit's Pod for a container that does not run": {
			patched(openAtVerified, loading, engine(runs("c-new", "new"), made)), waits(proven, v1alpha1.WaitingLoad).until(fresh),
		},
		"does not open again what has failed": {
			patched(loading, engine(runs("c-new", "new"), made), reported(v1alpha1.StageFailed, v1alpha1.FailedDeadline)),
			waits(v1alpha1.StageFailed, v1alpha1.FailedDeadline),
		},
		"takes its own hold away where another holder stays": {
			started(heldByOther), do(ActOpen, proven),
		},
		"waits for the engine": {
			opened(), waits(proven, v1alpha1.WaitingLoad).until(1895),
		},
		"waits for kubelet to say Ready": {
			opened(isReady, elsewhere), waits(verified, v1alpha1.WaitingReady).until(fresh),
		},
		"waits for another holder as long as it takes": {
			opened(isReady, heldByOther, overdue(verified)), waits(verified, v1alpha1.WaitingHeld).says("alice"),
		},
		"opens where the last holder left and the gate did not follow": {
			opened(isReady, func(u *Update) { u.Pod.GateOpen = false }), do(ActOpen, verified),
		},
		"writes labels that are due": {
			opened(isReady, relabels), do(ActOpen, verified),
		},
		"ends in service": {
			served(), report(v1alpha1.StageInService, ""),
		},
		"is done then": {
			served(reported(v1alpha1.StageInService, "")), Step{Do: ActDone, Stage: v1alpha1.StageInService},
		},
		"takes away a hold that is left after the end": {
			served(reported(v1alpha1.StageInService, ""), patchedBy("ipu/1"), held("ipu/2")), do(ActOpen, v1alpha1.StageInService),
		},
		"waits for Serve where the Pod alone could serve": {
			started(permit(v1alpha1.PermitSwap)), waits(proven, v1alpha1.WaitingPermit),
		},
	})
}

func TestNextOfAUnit(t *testing.T) {
	const proven, verified = v1alpha1.StageProved, v1alpha1.StageVerified
	verifiedBefore := reported(verified, "")
	checkTransitions(t, Next, map[string]transition{
		"waits for permit Drain": {
			prepared(openAtVerified, permit(v1alpha1.PermitPrepare)), waits(v1alpha1.StagePrepared, v1alpha1.WaitingPermit),
		},
		"drains at permit Drain": {
			prepared(openAtVerified, permit(v1alpha1.PermitDrain)), do(ActHold, v1alpha1.StageDraining),
		},
		"waits for permit Swap": {
			drained(openAtVerified, permit(v1alpha1.PermitDrain)), waits(v1alpha1.StageDrained, v1alpha1.WaitingPermit),
		},
		"swaps at permit Swap": {
			drained(openAtVerified, permit(v1alpha1.PermitSwap)), do(ActPatch, v1alpha1.StageSwapping),
		},
		"waits for the engine under the hold": {
			started(openAtVerified, permit(v1alpha1.PermitSwap)), waits(proven, v1alpha1.WaitingLoad).until(fresh),
		},
		"waits for it with permit Serve too": {
			started(openAtVerified), waits(proven, v1alpha1.WaitingLoad).until(fresh),
		},
		"reports Verified": {
			started(openAtVerified, isReady, permit(v1alpha1.PermitSwap)), report(verified, ""),
		},
		"waits for permit Serve as long as it takes": {
			started(openAtVerified, isReady, permit(v1alpha1.PermitSwap), verifiedBefore, overdue(verified)),
			waits(verified, v1alpha1.WaitingPermit),
		},
		"opens at permit Serve": {
			started(openAtVerified, isReady, verifiedBefore), do(ActOpen, verified),
		},
		"does not open at permit Serve what is no longer ready": {
			started(openAtVerified, verifiedBefore), waits(proven, v1alpha1.WaitingLoad).until(fresh),
		},
		"is in service when all is ready": {
			served(openAtVerified, verifiedBefore), report(v1alpha1.StageInService, ""),
		},
		"keeps a Pod of which nothing changes held until Serve": {
			drained(openAtVerified, nothingAsked, permit(v1alpha1.PermitSwap), isReady, verifiedBefore),
			waits(verified, v1alpha1.WaitingPermit),
		},
		"does not verify it before it is ready": {
			drained(openAtVerified, nothingAsked, permit(v1alpha1.PermitSwap), loading), waits(proven, v1alpha1.WaitingLoad).until(fresh),
		},
		"opens it at Serve": {
			drained(openAtVerified, nothingAsked, isReady, verifiedBefore), do(ActOpen, verified),
		},
		"has it in service once it is Ready": {
			served(openAtVerified, nothingAsked, verifiedBefore, func(u *Update) { u.Pod.Ready = false }),
			waits(verified, v1alpha1.WaitingReady).until(1897),
		},
		"keeps a superseded hold while the next image comes": {
			asked(superseding, openAtVerified, held("ipu/2")), do(ActPull, v1alpha1.StagePreparing).image("new"),
		},
		"drains anew under it": {
			drained(superseding, openAtVerified, reported(v1alpha1.StagePrepared, "")), report(v1alpha1.StageDrained, ""),
		},
		"backs out of a drain at once": {
			drained(cancelling, openAtVerified), do(ActOpen, verified),
		},
		"backs out where the engine is down": {
			drained(cancelling, openAtVerified, loading), do(ActOpen, proven),
		},
		"ends the back-out": {
			prepared(cancelling, openAtVerified, loading), report(v1alpha1.StageInService, ""),
		},
	})
}

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
			opened(crashed(2), engine(exited)), waits(proven, v1alpha1.WaitingLoad).until(1895),
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

func TestNextSupersedes(t *testing.T) {
	const preparing, drain, swap = v1alpha1.StagePreparing, v1alpha1.StageDrained, v1alpha1.StageSwapping
	// openSwap: attempt 2 has patched image new, and attempt 3 wants image newer under its hold.
	openSwap := func(changes ...change) Update {
		return patched(append([]change{superseding, engine(wants("newer", Proof{State: Proved, ID: "id-newer"}))}, changes...)...)
	}
	back := engine(wants("old", Proof{State: Proved, ID: "id-old"}))
	downAtNew := engine(runs("c-new", "new"), exited)
	checkTransitions(t, Next, map[string]transition{
		"begins anew while the Pod serves": {
			asked(superseding), do(ActPull, preparing).image("new"),
		},
		"forgets what the attempt before has prepared": {
			prepared(superseding), report(v1alpha1.StagePrepared, ""),
		},
		"serves before it pulls, where the attempt before had begun to drain": {
			acknowledged(superseding, lost), do(ActOpen, v1alpha1.StagePending),
		},
		"serves before it goes on, where the attempt before was drained": {
			drained(superseding), do(ActOpen, v1alpha1.StagePending),
		},
		"prepares under the hold, once images were patched": {
			openSwap(lost), do(ActPull, preparing).image("newer"),
		},
		"reports Prepared under the hold": {
			openSwap(), report(v1alpha1.StagePrepared, ""),
		},
		"needs no second acknowledgement under the hold": {
			openSwap(idle, reported(v1alpha1.StagePrepared, "")), report(drain, ""),
		},
		"takes a new baseline before it patches": {
			openSwap(reported(drain, ""), func(u *Update) { u.Report.Since = at(59) }), report(drain, ""),
		},
		"waits until kubelet has acted on the patch before": {
			openSwap(reported(drain, "")), waits(drain, v1alpha1.WaitingKubelet).until(120),
		},
		"patches once it has": {
			openSwap(reported(drain, ""), engine(runs("c-new", "new"))), do(ActPatch, swap),
		},
		"goes back from an image that does not start": {
			openSwap(back, downAtNew, reported(drain, "")), do(ActPatch, swap),
		},
		"goes back from a failed attempt": {
			openSwap(back, downAtNew, loading), report(v1alpha1.StagePrepared, ""),
		},
		"proves what it went back to": {
			started(attempt(3), patchedBy("ipu/3"), back, engine(func(c *Container) { c.SpecImage, c.SpecHash = "old", "hash-old" }, runs("c-again", "old"))),
			do(ActOpen, v1alpha1.StageProved),
		},
		"sees the patch before through where the image stays": {
			patched(superseding, reported(v1alpha1.StagePrepared, "")), waits(swap, v1alpha1.WaitingKubelet).until(120),
		},
		"proves all containers, since the attempt before may have changed others": {
			started(superseding, reported(drain, ""), sidecar(func(c *Container) { c.SpecImage, c.SpecHash = "new", "hash-new" }, exited)),
			waits(swap, v1alpha1.WaitingKubelet).until(1890),
		},
		"prepares while the Pod serves, where the attempt before had let it in": {
			opened(superseding, lost), do(ActPull, preparing).image("new"),
		},
		"keeps an open swap held where the order was made anew": {
			drained(superseding, held("gone/4"), patchedBy("gone/4"), imageRefused(v1alpha1.RefusedNotFound)),
			report(v1alpha1.StageRefused, v1alpha1.RefusedNotFound).says("stays out of traffic"),
		},
		"keeps it held where the new order has patched under the old one's hold": {
			patched(superseding, held("gone/4"), imageRefused(v1alpha1.RefusedNotFound)),
			report(v1alpha1.StageRefused, v1alpha1.RefusedNotFound).says("stays out of traffic"),
		},
		"gives a hold back that the order before had put on for nothing": {
			drained(superseding, held("gone/4"), patchedBy("older/9"), func(u *Update) { u.Pod.Patched.At = at(59) }),
			do(ActOpen, v1alpha1.StagePending),
		},
		"keeps it held where the times of the hold are lost too": {
			patched(superseding, held("gone/4"), imageRefused(v1alpha1.RefusedNotFound), func(u *Update) { u.Pod.Hold.LoweredAt = at(99) }),
			report(v1alpha1.StageRefused, v1alpha1.RefusedNotFound).says("stays out of traffic"),
		},
	})
}

func TestNextCancels(t *testing.T) {
	const cancelled = v1alpha1.StageCancelled
	takesBack := report(cancelled, v1alpha1.EndedCancelled)
	tooLate := reported(v1alpha1.StageVerified, v1alpha1.EndedCancelTooLate)
	checkTransitions(t, Next, map[string]transition{
		"an update that pulls": {
			asked(cancelling), takesBack,
		},
		"one that waits for Drain": {
			prepared(cancelling), takesBack,
		},
		"one that drains, and has the Pod serve first": {
			acknowledged(cancelling), do(ActOpen, v1alpha1.StageVerified),
		},
		"one that is drained": {
			drained(cancelling), do(ActOpen, v1alpha1.StageVerified),
		},
		"one that is drained, while the runtime is silent": {
			drained(cancelling, runtimeDown), do(ActOpen, v1alpha1.StageProved),
		},
		"one that is drained, while the engine is down": {
			drained(cancelling, loading), do(ActOpen, v1alpha1.StageProved),
		},
		"one of a Pod that has ended": {
			drained(cancelling, podFailed, released), takesBack,
		},
		"one of a Pod that another holder keeps": {
			prepared(cancelling, heldByOther), takesBack,
		},
		"one whose order before last had patched": {
			prepared(cancelling, patchedLongAgo, func(u *Update) { u.Report.Closed = 1 }), takesBack,
		},
		"nothing where nothing is under way": {
			asked(attempt(3), nothingAsked), report(v1alpha1.StageInService, ""),
		},
		"too late once the images are patched": {
			patched(cancelling), waits(v1alpha1.StageSwapping, v1alpha1.WaitingKubelet).until(120),
		},
		"too late: the old container's stop stays bounded": {
			patched(cancelling, stopOver), do(ActStop, v1alpha1.StageSwapping).container("c-old"),
		},
		"too late: the engine is waited for under the hold": {
			started(cancelling), waits(v1alpha1.StageProved, v1alpha1.WaitingLoad).until(fresh),
		},
		"too late: it is verified": {
			started(cancelling, isReady), report(v1alpha1.StageVerified, v1alpha1.EndedCancelTooLate),
		},
		"too late: and opened": {
			started(cancelling, isReady, tooLate), do(ActOpen, v1alpha1.StageVerified),
		},
		"too late: and in service": {
			served(cancelling, tooLate), report(v1alpha1.StageInService, v1alpha1.EndedCancelTooLate),
		},
		"too late: and says so after a wait was reported": {
			served(cancelling, reported(v1alpha1.StageVerified, v1alpha1.WaitingReady)), report(v1alpha1.StageInService, v1alpha1.EndedCancelTooLate),
		},
		"too late where the Pod was let in and loads": {
			opened(cancelling), waits(v1alpha1.StageProved, v1alpha1.WaitingLoad).until(1895),
		},
		"too late where the Pod was let in and is ready": {
			served(cancelling), report(v1alpha1.StageVerified, v1alpha1.EndedCancelTooLate),
		},
		"too late, and it fails at the deadline": {
			started(cancelling, overdue(v1alpha1.StageProved)), report(v1alpha1.StageFailed, v1alpha1.FailedDeadline),
		},
		"too late, and the hold of a failed attempt stays": {
			patched(cancelling, engine(exited)), waits(v1alpha1.StageSwapping, v1alpha1.WaitingKubelet).until(1890),
		},
	})
}

func TestNextRelabels(t *testing.T) {
	labels := func(changes ...change) Update { return asked(append([]change{nothingAsked, relabels}, changes...)...) }
	checkTransitions(t, Next, map[string]transition{
		"writes labels and touches nothing else": {
			labels(), do(ActOpen, v1alpha1.StageVerified),
		},
		"writes them where the Pod is not ready": {
			labels(loading), do(ActOpen, v1alpha1.StageProved),
		},
		"writes them while the runtime is silent": {
			labels(runtimeDown), do(ActOpen, v1alpha1.StageProved),
		},
		"writes them on a Pod that another holder keeps": {
			labels(heldByOther), do(ActOpen, v1alpha1.StageVerified),
		},
		"not on a Pod without our gate": {
			labels(func(u *Update) { u.Pod.HasGate = false }), report(v1alpha1.StageRefused, v1alpha1.RefusedNoGate),
		},
		"kills nothing, however old the last patch is": {
			labels(patchedLongAgo, engine(func(c *Container) { c.SpecHash = "hash-by-hand" })), do(ActOpen, v1alpha1.StageVerified),
		},
		"ends once they are written": {
			asked(nothingAsked), report(v1alpha1.StageInService, ""),
		},
		"ends for a Pod that another holder keeps": {
			asked(nothingAsked, heldByOther), report(v1alpha1.StageInService, ""),
		},
		"waits for permit Serve, out of traffic, with less": {
			drained(nothingAsked, relabels, permit(v1alpha1.PermitSwap)), waits(v1alpha1.StageVerified, v1alpha1.WaitingPermit),
		},
	})
}

func TestNextOfAPodThatIsGone(t *testing.T) {
	gone := report(v1alpha1.StageCancelled, v1alpha1.EndedPodGone)
	checkTransitions(t, Next, map[string]transition{
		"closes an attempt that pulls":     {asked(podGone), gone},
		"closes one that drains":           {acknowledged(podGone), gone},
		"closes one that swaps":            {patched(podGone), gone},
		"closes one that was let in":       {opened(podGone), gone},
		"closes one that failed":           {started(podGone, reported(v1alpha1.StageFailed, v1alpha1.FailedDeadline)), gone},
		"closes one that is not to follow": {asked(podGone, func(u *Update) { u.Order.Foreign = "not yours" }), gone},
		"leaves one that has ended as it is": {
			asked(podGone, reported(v1alpha1.StageInService, "")), Step{Do: ActDone, Stage: v1alpha1.StageInService},
		},
	})
}

func TestFinishOrphan(t *testing.T) {
	// orphan is what is left when the order of a Pod goes.
	orphan := func(u Update, changes ...change) Update {
		u.Order = Order{StopTimeout: defaultStop}
		u.Report, u.Stage, u.Pod.patchedByOrder = Report{}, "", false
		return u.with(nothingAsked).with(changes...)
	}
	waitsForLoad := waits(v1alpha1.StageSwapping, v1alpha1.WaitingLoad)
	checkTransitions(t, FinishOrphan, map[string]transition{
		"leaves a Pod that was not held":         {orphan(prepared()), do(ActDone, "")},
		"leaves a Pod that is gone":              {orphan(drained(podGone)), do(ActDone, "")},
		"opens one that drained":                 {orphan(acknowledged()), do(ActOpen, "")},
		"opens one that was drained":             {orphan(drained()), do(ActOpen, "")},
		"opens one drained after an older patch": {orphan(drained(patchedLongAgo)), do(ActOpen, "")},
		"waits for kubelet to act on a patch":    {orphan(patched()), waitsForLoad.until(120)},
		"bounds the old container's stop":        {orphan(patched(stopOver)), do(ActStop, v1alpha1.StageSwapping).container("c-old")},
		"kills nothing while kubelet is down":    {orphan(patched(stopOver, kubeletDown)), waitsForLoad.until(102)},
		"waits for the engine":                   {orphan(started()), waitsForLoad},
		"waits for a runtime that is silent":     {orphan(started(runtimeDown)), waitsForLoad},
		"waits for the other container":          {orphan(started(isReady, sidecar(exited))), waitsForLoad},
		"opens what runs as the spec says":       {orphan(started(isReady)), do(ActOpen, "")},
		"opens after a failure that came good":   {orphan(started(isReady, reported(v1alpha1.StageFailed, v1alpha1.FailedDeadline))), do(ActOpen, "")},
	})
}

func TestKeepHeld(t *testing.T) {
	// orphan is a unit's Pod whose order is missing.
	orphan := func(u Update) Update {
		u.Order = Order{StopTimeout: defaultStop}
		u.Report, u.Stage, u.Pod.patchedByOrder = Report{}, "", false
		return u.with(nothingAsked)
	}
	checkTransitions(t, KeepHeld, map[string]transition{
		"leaves a Pod that is gone":           {orphan(drained(podGone)), Step{}},
		"keeps one that drains":               {orphan(acknowledged()), Step{}},
		"keeps one that was drained":          {orphan(drained()), Step{}},
		"keeps one that could serve":          {orphan(started(isReady)), Step{}},
		"looks when the stop is over":         {orphan(patched()), Step{}.until(120)},
		"bounds the old container's stop":     {orphan(patched(stopOver)), do(ActStop, v1alpha1.StageSwapping).container("c-old")},
		"kills nothing while kubelet is down": {orphan(patched(stopOver, kubeletDown)), Step{}.until(102)},
	})
}
