package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

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
