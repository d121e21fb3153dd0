package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

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
			waits(proven, v1alpha1.WaitingKubelet).until(fresh),
		},
		"does not open a unit's Pod for a container that does not run": {
			patched(openAtVerified, loading, engine(runs("c-new", "new"), made)), waits(proven, v1alpha1.WaitingKubelet).until(fresh).says("not started yet"),
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
