package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

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
			started(openAtVerified, sidecar(exited)), waits(v1alpha1.StageProved, v1alpha1.WaitingRestart).until(fresh),
		},
		"says of a new container that has ended that it does not run": {
			started(engine(exited), stands(v1alpha1.StageProved, 95)), waits(v1alpha1.StageProved, v1alpha1.WaitingRestart).until(1895).says("container engine has ended"),
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
