package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
)

// TestPropertyFindsFaults breaks the machine in one way at a time. The rules of the property must
// find each, or they prove nothing.
func TestPropertyFindsFaults(t *testing.T) {
	const enough = 1500 // histories
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			other := ""
			for seed := range enough {
				_, err := rapid.Custom(drawHistory).Example(seed).play(fault.brain)
				if err != nil && strings.Contains(err.Error(), fault.rule) {
					t.Logf("found in history %d: %v", seed, err)
					return
				}
				if err != nil {
					other = err.Error()
				}
			}
			t.Errorf("not found in %d histories; another rule said: %s", enough, other)
		})
	}
}

// TestAHistoryIsTheSameWhenItIsPlayedAgain: else a fault would be found now earlier, now later, and once not at all.
func TestAHistoryIsTheSameWhenItIsPlayedAgain(t *testing.T) {
	for seed := range 100 {
		h := rapid.Custom(drawHistory).Example(seed)
		first, _ := h.play(honest())
		again, _ := h.play(honest())
		if diff := cmp.Diff(first.log, again.log); diff != "" {
			t.Fatalf("history %d (-first +again):\n%s", seed, diff)
		}
	}
}

// A fault is a machine with a fault in it, and a part of what the rule says that finds it.
type fault struct {
	brain
	rule string
}

// sees is a machine that takes one thing for another.
func sees(rule string, change func(*Update)) fault {
	distort := func(next func(Update, time.Time) Step) func(Update, time.Time) Step {
		return func(u Update, now time.Time) Step { return next(u.with(change), now) }
	}
	return fault{brain{distort(Next), distort(FinishOrphan), distort(KeepHeld)}, rule}
}

// does is a machine that does one thing for another.
func does(rule string, change func(Update, *Step)) fault {
	distort := func(next func(Update, time.Time) Step) func(Update, time.Time) Step {
		return func(u Update, now time.Time) Step {
			s := next(u, now)
			change(u, &s)
			return s
		}
	}
	return fault{brain{distort(Next), distort(FinishOrphan), distort(KeepHeld)}, rule}
}

func faults() map[string]fault {
	const refused, swap = v1alpha1.StageRefused, v1alpha1.StageSwapping
	return map[string]fault{
		"goes beyond its permit": sees("beyond its permit", func(u *Update) { u.Order.Permit = v1alpha1.PermitServe }),
		"drains before its image is there": does("is not proved", func(_ Update, s *Step) {
			if s.Do == ActPull && s.Stage == v1alpha1.StagePreparing {
				*s = do(ActHold, v1alpha1.StageDraining)
			}
		}),
		"does not prove its image again": sees("is not proved", func(u *Update) {
			for i := range u.Containers {
				if c := &u.Containers[i]; u.reached(v1alpha1.StagePrepared) && c.WantProof.State == ProofMissing {
					c.WantProof.State = Proved
				}
			}
		}),
		"does not wait for kubelet's answer": sees("in traffic", func(u *Update) { u.Pod.NotReadyAcknowledged = true }),
		"forgets the propagation delay":      sees("propagation delay", func(u *Update) { u.Order.Propagation = 0 }),
		"cuts requests":                      sees("while requests run", func(u *Update) { u.Drain.Over = true }),
		"does not wait for the router": sees("before the router has answered", func(u *Update) {
			u.Drain.Over = u.Drain.Over || u.Order.DrainMode == v1alpha1.DrainRouter
		}),
		"asks the router for another attempt": sees("while the router is asked", func(u *Update) { u.Pod.Announced = u.announces() }),
		"cuts a delay short":                  sees("while requests run", func(u *Update) { u.Order.DrainFor = 0 }),
		"reports no baseline": {brain{next: func(u Update, now time.Time) Step {
			s := Next(u, now)
			if s.Do == ActReport && s.Stage == v1alpha1.StageDrained {
				u.Report.Stage, u.Report.Since = s.Stage, now
				s = Next(u, now)
			}
			return s
		}, finish: FinishOrphan, keep: KeepHeld}, "before this hold's baseline"},
		"patches twice": does("patches twice", func(u Update, s *Step) {
			if u.Pod.patchedByOrder && u.Pod.Hold.Placed() && s.Reason == v1alpha1.WaitingKubelet {
				*s = do(ActPatch, swap)
			}
		}),
		"does not wait for the patch before": sees("patch before", func(u *Update) {
			for i := range u.Containers {
				if c := &u.Containers[i]; !u.swapped() {
					c.Now.Hash = c.SpecHash
				}
			}
		}),
		"opens before the new container is there": does("which is not proved", func(u Update, s *Step) {
			if u.Pod.Hold.Placed() && s.Reason == v1alpha1.WaitingKubelet {
				*s = do(ActOpen, v1alpha1.StageProved)
			}
		}),
		"takes the old container for the new one": sees("which is not proved", func(u *Update) {
			for i := range u.Containers {
				c := &u.Containers[i]
				c.Now.Hash, c.Now.ImageID, c.Before.ID, c.Prior = c.SpecHash, c.WantProof.ID, "", nil
			}
		}),
		"opens a unit's Pod before its engine is up": sees("which is not ready", func(u *Update) { u.Order.OpenAt = v1alpha1.OpenAtProved }),
		"forgets an open swap":                       sees("opens for container", func(u *Update) { u.Pod.Patched.Token = "" }),
		"ends before the Pod is Ready":               sees("is InService, and is not", func(u *Update) { u.Pod.Ready = u.Pod.GateOpen }),
		"ends without a report": does("never ends", func(_ Update, s *Step) {
			if s.Do == ActReport && s.Stage == v1alpha1.StageInService {
				*s = do(ActDone, s.Stage)
			}
		}),
		"ends twice": does("goes on from", func(u Update, s *Step) {
			if s.Do == ActDone && u.Report.Stage == refused {
				*s = report(v1alpha1.StageCancelled, "")
			}
		}),
		"refuses after its patch": does("after its patch", func(_ Update, s *Step) {
			if s.Do == ActReport && s.Stage == v1alpha1.StageFailed {
				s.Stage = refused
			}
		}),
		"keeps the hold of a refused attempt": does("a hold is left", func(u Update, s *Step) {
			if s.Do == ActOpen && u.Report.Stage == refused {
				*s = do(ActDone, refused)
			}
		}),
		"keeps the hold where the order is gone": {brain{next: Next, finish: func(Update, time.Time) Step { return do(ActDone, "") }, keep: KeepHeld}, "has no order"},
		"opens at once where the order is gone":  {brain{next: Next, finish: func(Update, time.Time) Step { return do(ActOpen, "") }, keep: KeepHeld}, "opens for container"},
		"gives up a drain before it says so": does("for nothing", func(u Update, s *Step) {
			if s.Reason == v1alpha1.RefusedDeadline && u.Pod.Hold.Placed() && !u.swapOpen() {
				*s = do(ActOpen, v1alpha1.StagePending)
			}
		}),
		"holds for a failure before it says so": does("which is not ready", func(u Update, s *Step) {
			if s.Reason == v1alpha1.FailedDeadline && s.Do == ActReport && u.Pod.patchedByOrder && !u.Pod.Hold.Placed() {
				*s = do(ActHold, v1alpha1.StageFailed)
			}
		}),
		"verifies without a verdict": sees("is \"\"", func(u *Update) { u.GPUs.Judged = false }),
		"fails for what is not known": sees("for memory", func(u *Update) {
			if u.GPUs.Verdict == v1alpha1.VerdictUnknown {
				u.GPUs.Verdict = v1alpha1.VerdictLeaked
			}
		}),
		"fails before the release deadline": sees("after the end of the old container", func(u *Update) {
			if !u.GPUs.HeldUntil.IsZero() {
				u.GPUs.Verdict = v1alpha1.VerdictHeldByOther
			}
		}),
		"starts on a sick GPU": sees("sick GPU", func(u *Update) {
			if u.Node.NotNow == v1alpha1.WaitingGPU {
				u.Node.NotNow = ""
			}
		}),
		"starts on a released driver": sees("while the driver is released", func(u *Update) { u.GPUs.Released = false }),
		"excuses every first crash": sees("planned 2 restarts", func(u *Update) {
			for i := range u.Containers {
				u.Containers[i].Starved = u.Containers[i].Starved || u.Containers[i].Crashes == 1
			}
		}),
		"lets a failed Pod in": does("is Failed, and not held", func(_ Update, s *Step) {
			if s.Do == ActHold && s.Stage == v1alpha1.StageFailed {
				s.Do = ActNone
			}
		}),
		"comes good from what is no good": does("goes from Failed", func(u Update, s *Step) {
			if u.failed() && s.Do == ActNone {
				*s = report(v1alpha1.StageProved, "")
			}
		}),
		"waits without a reason": does("without a reason", func(_ Update, s *Step) {
			if s.Do == ActNone {
				s.Reason = ""
			}
		}),
		"waits without a timer": does("without an end", func(_ Update, s *Step) { s.Until = time.Time{} }),
		"waits until yesterday": does("a time that is over", func(_ Update, s *Step) {
			if !s.Until.IsZero() {
				s.Until = begin()
			}
		}),
		"goes round and round": does("round and round", func(u Update, s *Step) {
			if s.Reason == v1alpha1.WaitingLoad && u.Pod.GateOpen {
				*s = do(ActOpen, v1alpha1.StageProved)
			}
		}),
		"kills at once": does("too early", func(u Update, s *Step) {
			for _, c := range u.Containers {
				if c.old() && s.Reason == v1alpha1.WaitingKubelet {
					*s = do(ActStop, swap).container(c.Now.ID)
				}
			}
		}),
		"kills while kubelet is down": sees("too early", func(u *Update) { u.Node.KubeletUp = true }),
		"kills a new container": does("which is a new one", func(u Update, s *Step) {
			for _, c := range u.Containers {
				if c.Now.Up && u.Pod.patchedByOrder && s.Reason == v1alpha1.WaitingLoad {
					*s = do(ActStop, swap).container(c.Now.ID)
				}
			}
		}),
	}
}
