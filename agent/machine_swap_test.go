package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

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
