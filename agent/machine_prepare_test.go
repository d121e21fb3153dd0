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
