package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

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
