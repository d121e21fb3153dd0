package agent

import (
	"strings"
	"testing"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// TestAnEngineThatLacksMemoryNobodySeesIsNoCrashLoop plays the history that chance finds too rarely: no look succeeds, and
// the memory of the old engine is held for longer than the new one needs to crash three times.
func TestAnEngineThatLacksMemoryNobodySeesIsNoCrashLoop(t *testing.T) {
	h := history{
		pods: []podPlan{{
			containers: 1, devices: true, slow: time.Millisecond, final: []string{"v3"},
			memory: memoryPlan{gpus: 1, frees: 100 * time.Second, blind: 1},
			first:  orderPlan{images: []string{"v2"}, permit: v1alpha1.PermitServe, openAt: v1alpha1.OpenAtProved, stop: 30, deadline: 1800},
		}},
		actions: []action{{ticks: 2000, kind: "permit"}},
	}
	w, err := h.play(honest())
	log := strings.Join(w.log, "\n")
	if err != nil || strings.Contains(log, string(v1alpha1.FailedCrashLooping)) || !strings.Contains(log, string(v1alpha1.WaitingRestart)) {
		t.Errorf("%v\n%s", err, log)
	}
	rash := sees("", func(u *Update) { u.GPUs.ExcusedUntil = time.Time{} })
	if _, err := h.play(rash.brain); err == nil || !strings.Contains(err.Error(), "is crash looping") {
		t.Errorf("blamed at once: %v", err)
	}
}

func TestNextWhileTheDriverIsReleased(t *testing.T) {
	const prepare, draining, drain = v1alpha1.StagePrepared, v1alpha1.StageDraining, v1alpha1.StageDrained
	checkTransitions(t, Next, map[string]transition{
		"the image is brought meanwhile": {
			asked(driverReleased), do(ActPull, v1alpha1.StagePreparing).image("new"),
		},
		"the old engine serves on": {
			prepared(driverReleased), waits(prepare, v1alpha1.WaitingDriver).until(105).says("released until noon"),
		},
		"a mere drain does not wait for it": {
			prepared(nothingAsked, permit(v1alpha1.PermitDrain)), do(ActHold, draining),
		},
		"nor does a drain that is taken back": {
			lowered(cancelling, driverReleased), do(ActOpen, v1alpha1.StageVerified),
		},
		"a Pod that is alone in its unit is given back": {
			acknowledged(driverReleased), do(ActOpen, prepare),
		},
		"also when it is drained": {
			drained(driverReleased), do(ActOpen, prepare),
		},
		"then it waits in service": {
			drained(released, driverReleased), do(ActReport, prepare),
		},
		"one of several is the coordinator's to give back: it is not drained": {
			acknowledged(openAtVerified, idle, driverReleased), waits(draining, v1alpha1.WaitingDriver).until(105),
		},
		"nor patched": {
			drained(openAtVerified, driverReleased), waits(drain, v1alpha1.WaitingDriver).until(105),
		},
		"without the permit to be patched it waits for that": {
			drained(openAtVerified, driverReleased, permit(v1alpha1.PermitDrain)), waits(drain, v1alpha1.WaitingPermit).until(105),
		},
		"no longer than its deadline": {
			prepared(driverReleased, overdue(prepare)), report(v1alpha1.StageRefused, v1alpha1.RefusedDeadline).says("released until noon"),
		},
		"what follows a patch that was no good does not wait": {
			drained(superseding, patchedBy("ipu/2"), reported(drain, ""), driverReleased, func(u *Update) {
				u.Pod.Patched.At = at(65)
			}), do(ActPatch, v1alpha1.StageSwapping),
		},
		"a swap goes on to its end": {
			started(openAtVerified, unread(99), driverReleased), waits(v1alpha1.StageProved, v1alpha1.WaitingLoad).until(105),
		},
	})
}

func TestNextBlamesNoImageForWhatNobodyCouldSee(t *testing.T) {
	const proven, failed = v1alpha1.StageProved, v1alpha1.StageFailed
	looped := reported(failed, v1alpha1.FailedCrashLooping)
	free := gpus(v1alpha1.VerdictReleased, "")
	checkTransitions(t, Next, map[string]transition{
		"no crash loop before memory would have been given back": {
			started(openAtVerified, crashing, unread(100.2)), waits(proven, v1alpha1.WaitingRestart).until(100.2).says("crashed 3 times"),
		},
		"then it is one, which may not be the image's": {
			started(openAtVerified, crashing, unread(100)),
			report(failed, v1alpha1.FailedCrashLooping).says("the image may be good: what became of the GPU memory of the containers before could not be judged (the probe is silent)"),
		},
		"with free memory it is the image's at once": {
			started(openAtVerified, crashing, free), report(failed, v1alpha1.FailedCrashLooping).says("update to a good image"),
		},
		"an engine that does not come up in time": {
			started(openAtVerified, unread(100), overdue(proven)), report(failed, v1alpha1.FailedDeadline).says("the image may be good"),
		},
		"one that comes up after all is good": {
			started(openAtVerified, isReady, unread(100), looped), report(v1alpha1.StageVerified, v1alpha1.EndedLateSuccess),
		},
		"it stays what it was while it crashes on": {
			started(openAtVerified, crashing, unread(100), looped), waits(failed, v1alpha1.FailedCrashLooping).until(100.5).says("as reported"),
		},
		"memory that is seen to be held after all is named": {
			started(openAtVerified, crashing, gpus(v1alpha1.VerdictLeaked, "process 7"), looped), report(failed, v1alpha1.FailedLeaked).says("process 7"),
		},
		"a crash loop on free memory stays one": {
			started(openAtVerified, isReady, free, looped), waits(failed, v1alpha1.FailedCrashLooping).until(100.5).says("as reported"),
		},
	})
}
