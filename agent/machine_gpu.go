package agent

import (
	"cmp"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu/residency"
)

// GPUs is what is known of the memory of the Pod's GPUs. The zero value asks for nothing: the Pod has none, or nobody
// can look at them.
type GPUs struct {
	// Due: they are to be looked at now.
	Due bool
	// LookAt is when they are to be looked at again; zero: not at all.
	LookAt time.Time
	// Watched: the Pod's update is on its way to the swap, so that they are looked at now and then.
	Watched bool
	// Released: the driver is let go of for a while. No update begins then: nobody could tell what became of the memory,
	// and whoever asked for it needs the GPUs idle.
	Released bool
	// AwaitUntil is until when a look is awaited before the next step; zero: none is.
	AwaitUntil time.Time
	// Unseen says why they are not seen, where they are released or a look is awaited.
	Unseen string
	// Judged: images were swapped, so that it takes a verdict to be Verified.
	Judged bool
	// Verdict is that on the worst GPU; empty while it is not decided.
	Verdict v1alpha1.Verdict
	// HeldUntil is when there is a verdict at the latest while memory that should be free is held; zero if none is seen.
	HeldUntil time.Time
	// ExcusedUntil is until when a crash loop is not the image's doing alone: memory of the containers before may be held.
	// Zero where that is known to be free.
	ExcusedUntil time.Time
	// Message says what is held by whom, or what is not known.
	Message string
}

// awaitsLook reports whether the next step rests on a look that has not come yet.
func (g GPUs) awaitsLook(now time.Time) bool { return now.Before(g.AwaitUntil) }

// memoryReleased reports whether a verdict lets the Pod be Verified. What failed for its memory needs one that says
// that all is well.
func (u Update) memoryReleased() bool {
	v := u.GPUs.Verdict
	return !u.GPUs.Judged || residency.Passes(v) && (v != v1alpha1.VerdictUnknown || !u.failedForMemory())
}

// memoryProven reports whether the memory of the containers before is known to be no matter.
func (u Update) memoryProven() bool {
	return !u.GPUs.Judged || residency.Passes(u.GPUs.Verdict) && u.GPUs.Verdict != v1alpha1.VerdictUnknown
}

// unjudged is what a failure to start adds where nobody knows whether the engine had its memory; empty if that is known.
func (u Update) unjudged() string {
	if !u.GPUs.Judged || u.GPUs.Verdict != v1alpha1.VerdictUnknown {
		return ""
	}
	return "; the image may be good: what became of the GPU memory of the containers before could not be judged (" + u.GPUs.Message +
		"), so see who holds memory (kubectl pitstop node) before the image is changed"
}

func (u Update) failedForMemory() bool {
	return u.failed() && (u.Report.Reason == v1alpha1.FailedLeaked || u.Report.Reason == v1alpha1.FailedHeldByOther)
}

// memoryFailure returns the step that a verdict which stops the update leads to.
func (u Update) memoryFailure() (Step, bool) {
	reasons := map[v1alpha1.Verdict]v1alpha1.Reason{
		v1alpha1.VerdictLeaked:      v1alpha1.FailedLeaked,
		v1alpha1.VerdictHeldByOther: v1alpha1.FailedHeldByOther,
		v1alpha1.VerdictMoved:       v1alpha1.FailedMoved,
	}
	reason := reasons[u.GPUs.Verdict]
	if !u.GPUs.Judged || reason == "" {
		return Step{}, false
	}
	return u.fail(reason, u.GPUs.Message), true
}

// plannedRetry returns the step that notes the first start which failed for want of GPU memory.
func (u Update) plannedRetry() (Step, bool) {
	for _, c := range u.Containers {
		if c.Starved && !c.Retried {
			return Step{Do: ActRetry, Stage: v1alpha1.StageProved, Container: c.Name}, true
		}
	}
	return Step{}, false
}

// starts is how often kubelet was planned to start a container that was replaced.
func (c Container) starts() int32 {
	if c.Retried {
		return 2
	}
	return 1
}

// awaitRelease waits for the verdict. It has deadlines of its own, of which the last ends with a verdict.
func (u Update) awaitRelease() Step {
	if u.failed() {
		return u.fail(u.Report.Reason, u.Report.Message)
	}
	return Step{
		Stage: v1alpha1.StageProved, Reason: v1alpha1.WaitingRelease,
		Message: cmp.Or(u.GPUs.Message, "what became of the memory on the Pod's GPUs is being looked at"),
	}
}

// awaitLook waits for a look at the GPUs that comes, or is given up.
func (u Update) awaitLook(now time.Time, at v1alpha1.Stage) Step {
	return u.waitOrRefuse(now, at, v1alpha1.WaitingUnread, u.GPUs.Unseen).by(u.GPUs.AwaitUntil)
}

// awaitDriver waits until the agent takes the driver again.
func (u Update) awaitDriver(now time.Time, at v1alpha1.Stage) Step {
	return u.waitOrRefuse(now, at, v1alpha1.WaitingDriver, u.GPUs.Unseen)
}

// withGPUs says of a wait what the GPUs have to do with it: when they are to be looked at again, and whether it is for
// their memory that the engine does not come up.
func (u Update) withGPUs(s Step, now time.Time) Step {
	if s.Do != ActNone {
		return s
	}
	starts := s.Stage == v1alpha1.StageProved && (s.Reason == v1alpha1.WaitingLoad || s.Reason == v1alpha1.WaitingRestart)
	if starts && !u.GPUs.HeldUntil.IsZero() {
		s.Reason, s.Message = v1alpha1.WaitingRelease, u.GPUs.Message+"; "+s.Message
	}
	if starts && now.Before(u.GPUs.ExcusedUntil) {
		s = s.by(u.GPUs.ExcusedUntil)
	}
	return s.by(u.GPUs.LookAt)
}
