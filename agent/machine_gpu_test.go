package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

// gpus: the Pod has GPUs, and this is what became of their memory. They are looked at again at second 100.5.
func gpus(v v1alpha1.Verdict, message string) change {
	return func(u *Update) {
		u.GPUs = GPUs{Judged: true, Verdict: v, Message: message, LookAt: at(100.5)}
	}
}

// memoryHeld: memory of the old container is seen to be held, and the release deadline is at this second.
func memoryHeld(until float64) change {
	return func(u *Update) {
		gpus("", "process 7 holds 70000 MiB")(u)
		u.GPUs.HeldUntil = at(until)
	}
}

// lookAwaited: a look at the GPUs is awaited until second 101.
func lookAwaited(u *Update) {
	u.GPUs.AwaitUntil, u.GPUs.LookAt, u.GPUs.Unseen = at(101), at(100.5), "cannot be read"
}

// driverReleased: the driver is let go of. The GPUs are looked at again at second 105.
func driverReleased(u *Update) {
	u.GPUs.Released, u.GPUs.LookAt, u.GPUs.Unseen = true, at(105), "released until noon"
}

// unread: nothing is known of the memory, and a crash loop is excused until this second.
func unread(until float64) change {
	return func(u *Update) {
		gpus(v1alpha1.VerdictUnknown, "the probe is silent")(u)
		u.GPUs.ExcusedUntil = at(until)
	}
}

func crashing(u *Update) { engine(exited, func(c *Container) { c.Crashes = 3 })(u) }

func starved(c *Container) { c.Starved = true }

func TestNextOfGPUs(t *testing.T) {
	const proven, verified, failed = v1alpha1.StageProved, v1alpha1.StageVerified, v1alpha1.StageFailed
	undecided := gpus("", "")
	unit := func(changes ...change) Update {
		return started(openAtVerified, isReady, permit(v1alpha1.PermitSwap)).with(changes...)
	}
	leaked := reported(failed, v1alpha1.FailedLeaked)
	checkTransitions(t, Next, map[string]transition{
		"waits for a look before the Pod is held, so that a sick GPU is known": {
			prepared(lookAwaited), waits(v1alpha1.StagePrepared, v1alpha1.WaitingUnread).until(100.5).says("cannot be read"),
		},
		"does not wait for one that does not come": {
			prepared(func(u *Update) { u.GPUs.AwaitUntil = at(100) }), do(ActHold, v1alpha1.StageDraining),
		},
		"starts no update on a sick GPU": {
			prepared(func(u *Update) { u.Node.NotNow, u.Node.NotNowUntil = v1alpha1.WaitingGPU, at(102) }),
			waits(v1alpha1.StagePrepared, v1alpha1.WaitingGPU).until(102),
		},
		"waits for the look that makes the baseline": {
			acknowledged(idle, lookAwaited), waits(v1alpha1.StageDraining, v1alpha1.WaitingUnread).until(100.5).says("cannot be read"),
		},
		"reports Drained without a baseline of the GPUs where none comes": {
			acknowledged(idle, func(u *Update) { u.GPUs.AwaitUntil = at(100) }), report(v1alpha1.StageDrained, ""),
		},
		"waits for the first look of an agent that finds the Pod drained": {
			drained(lookAwaited), waits(v1alpha1.StageDrained, v1alpha1.WaitingUnread).until(100.5).says("cannot be read"),
		},
		"however long it is drained by then: it has a deadline of its own": {
			drained(lookAwaited, overdue(v1alpha1.StageDrained)), waits(v1alpha1.StageDrained, v1alpha1.WaitingUnread).until(100.5),
		},
		"waits for the permit first": {
			drained(lookAwaited, permit(v1alpha1.PermitDrain)), waits(v1alpha1.StageDrained, v1alpha1.WaitingPermit).until(100.5),
		},
		"swaps a drained Pod where no look comes": {
			drained(func(u *Update) { u.GPUs.AwaitUntil = at(100) }), do(ActPatch, v1alpha1.StageSwapping),
		},
		"an attempt after an open patch does not wait for one": {
			drained(superseding, patchedBy("ipu/2"), reported(v1alpha1.StageDrained, ""), lookAwaited), do(ActPatch, v1alpha1.StageSwapping),
		},
		"opens early before there is a verdict": {
			started(undecided), do(ActOpen, proven),
		},
		"a Pod that serves already is not in service before there is one": {
			served(undecided), waits(proven, v1alpha1.WaitingRelease).until(100.5),
		},
		"released": {served(gpus(v1alpha1.VerdictReleased, "")), report(v1alpha1.StageInService, "")},
		"reloaded": {served(gpus(v1alpha1.VerdictReloaded, "")), report(v1alpha1.StageInService, "")},
		"retained": {served(gpus(v1alpha1.VerdictRetained, "")), report(v1alpha1.StageInService, "")},
		"unknown":  {served(gpus(v1alpha1.VerdictUnknown, "no answer")), report(v1alpha1.StageInService, "")},
		"a unit's Pod is not verified before there is a verdict": {
			unit(undecided), waits(proven, v1alpha1.WaitingRelease).until(100.5),
		},
		"however long that takes: it has deadlines of its own": {
			unit(undecided, overdue(proven)), waits(proven, v1alpha1.WaitingRelease).until(100.5),
		},
		"a unit's Pod is verified with one that passes": {
			unit(gpus(v1alpha1.VerdictReloaded, "")), report(verified, ""),
		},
		"the engine that loads is waited for, and the GPUs are looked at meanwhile": {
			started(openAtVerified, undecided), waits(proven, v1alpha1.WaitingLoad).until(100.5),
		},
		"what is held is said while the engine does not come up": {
			started(openAtVerified, memoryHeld(200)), waits(proven, v1alpha1.WaitingRelease).until(100.5).says("process 7 holds 70000 MiB; the new containers run and are not ready yet"),
		},
		"leaked: fails, with the holder's name": {
			unit(gpus(v1alpha1.VerdictLeaked, "process 7 holds it")), report(failed, v1alpha1.FailedLeaked).says("process 7 holds it"),
		},
		"held by other: fails": {
			unit(gpus(v1alpha1.VerdictHeldByOther, "process 9 holds it")), report(failed, v1alpha1.FailedHeldByOther).says("process 9 holds it"),
		},
		"moved: fails": {
			unit(gpus(v1alpha1.VerdictMoved, "GPU-3")), report(failed, v1alpha1.FailedMoved),
		},
		"fails before it opens": {
			started(gpus(v1alpha1.VerdictLeaked, "")), report(failed, v1alpha1.FailedLeaked),
		},
		"fails after it has opened": {
			served(gpus(v1alpha1.VerdictLeaked, "")), report(failed, v1alpha1.FailedLeaked),
		},
		"and puts the hold back": {
			served(gpus(v1alpha1.VerdictLeaked, ""), leaked), do(ActHold, failed).reason(v1alpha1.FailedLeaked),
		},
		"then stays": {
			started(gpus(v1alpha1.VerdictLeaked, ""), leaked), waits(failed, v1alpha1.FailedLeaked).until(100.5),
		},
		"stays after a restart of the agent, with nothing decided yet": {
			unit(undecided, leaked), waits(failed, v1alpha1.FailedLeaked).until(100.5),
		},
		"stays where nothing is known any more": {
			unit(gpus(v1alpha1.VerdictUnknown, ""), leaked), waits(failed, v1alpha1.FailedLeaked).until(100.5),
		},
		"comes good once the memory is free and the engine up": {
			unit(gpus(v1alpha1.VerdictReloaded, ""), leaked), report(verified, v1alpha1.EndedLateSuccess),
		},
		"does not come good on other GPUs": {
			unit(gpus(v1alpha1.VerdictMoved, ""), reported(failed, v1alpha1.FailedMoved)), waits(failed, v1alpha1.FailedMoved).until(100.5),
		},
		"a failure by deadline becomes that of the memory": {
			started(gpus(v1alpha1.VerdictLeaked, ""), reported(failed, v1alpha1.FailedDeadline)), report(failed, v1alpha1.FailedLeaked),
		},
		"notes a first start that failed for want of memory": {
			started(memoryHeld(200), engine(starved)), do(ActRetry, proven).of("engine"),
		},
		"once": {
			started(openAtVerified, memoryHeld(200), engine(starved, func(c *Container) { c.Retried = true })),
			waits(proven, v1alpha1.WaitingRelease).until(100.5),
		},
		"does not call it a crash loop while the memory is held": {
			started(openAtVerified, memoryHeld(100.1), engine(exited, func(c *Container) { c.Crashes = 3 })),
			waits(proven, v1alpha1.WaitingRelease).until(100.5),
		},
		"does so at the release deadline": {
			started(openAtVerified, memoryHeld(100), engine(exited, func(c *Container) { c.Crashes = 3 })),
			report(failed, v1alpha1.FailedCrashLooping),
		},
	})
}

func (s Step) reason(r v1alpha1.Reason) Step { s.Reason = r; return s }
func (s Step) of(container string) Step      { s.Container = container; return s }
