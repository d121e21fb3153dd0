package pods_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// TestPropertyFindsFaults breaks the decisions in one way at a time. The rules of the property must
// find each, or they prove nothing.
func TestPropertyFindsFaults(t *testing.T) {
	const enough = 1500 // histories
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			other := ""
			for seed := range enough {
				_, err := rapid.Custom(drawHistory).Example(seed).play(fault.decide)
				if err != nil && strings.Contains(err.Error(), fault.rule) {
					t.Logf("found in history %d: %.120s", seed, err)
					return
				}
				if err != nil {
					other = err.Error()
				}
			}
			t.Errorf("not found in %d histories; another rule said: %.200s", enough, other)
		})
	}
}

// A fault is a Decide with a fault in it, and a part of what the rule says that finds it.
type fault struct {
	decide func(pods.Snapshot) pods.Plan
	rule   string
}

// sees takes one thing for another.
func sees(rule string, change func(*pods.Snapshot)) fault {
	return fault{func(s pods.Snapshot) pods.Plan {
		kept := s.Group.Status.DeepCopy()
		change(&s)
		plan := pods.Decide(s)
		s.Group.Status = *kept
		return plan
	}, rule}
}

// seesPods takes every Pod for another.
func seesPods(rule string, change func(*pods.Pod)) fault {
	return sees(rule, func(s *pods.Snapshot) {
		for n := range s.Pods {
			change(&s.Pods[n])
		}
	})
}

// does one thing for another.
func does(rule string, change func(pods.Snapshot, *pods.Plan)) fault {
	return fault{func(s pods.Snapshot) pods.Plan {
		plan := pods.Decide(s)
		change(s, &plan)
		return plan
	}, rule}
}

// acts takes one action for another; false: it does not take it at all.
func acts(rule string, change func(pods.Snapshot, *pods.Action) bool) fault {
	return does(rule, func(s pods.Snapshot, plan *pods.Plan) {
		var out []pods.Action
		for _, a := range plan.Actions {
			if change(s, &a) {
				out = append(out, a)
			}
		}
		plan.Actions = out
	})
}

func faults() map[string]fault {
	return map[string]fault{
		"makes Pods that serve at once": acts("is born held", func(_ pods.Snapshot, a *pods.Action) bool { a.Pod.Held = false; return true }),
		"makes Pods at the group's revision": acts("another revision than its pin", func(s pods.Snapshot, a *pods.Action) bool {
			if a.Kind == pods.CreatePod {
				a.Pod.Revision = s.Group.Spec.Revision
			}
			return true
		}),
		"makes new Pods beside old ones": sees("revision before", func(s *pods.Snapshot) {
			s.Pods = slices.DeleteFunc(s.Pods, func(p pods.Pod) bool { return p.Deleting })
		}),
		"makes Pods under old orders":     sees("under an old order", func(s *pods.Snapshot) { s.Orders = nil }),
		"forgets Services":                acts("before its Service", func(_ pods.Snapshot, a *pods.Action) bool { return a.Kind != pods.CreateService }),
		"swaps at permit Drain":           sees("before Swap", swapAtDrain),
		"deletes without a drain":         sees("undrained", func(s *pods.Snapshot) { s.Agents = nil }),
		"takes Draining for Drained":      sees("undrained", drainsAtOnce),
		"says Drained too early":          sees("Drained, and", drainsAtOnce),
		"says Verified too early":         seesPods("Verified, and", func(p *pods.Pod) { p.ContainersReady = true }),
		"says InService too early":        seesPods("InService, and", func(p *pods.Pod) { p.Ready = true }),
		"does not see that Pods go":       seesPods("twice", func(p *pods.Pod) { p.Deleting = false }),
		"deletes twice":                   does("twice", func(_ pods.Snapshot, p *pods.Plan) { p.Actions = append(p.Actions, p.Actions...) }),
		"recovers where nothing is to":    sees("where nothing recovers", func(s *pods.Snapshot) { s.Settings.Recovery = v1alpha1.RecoverRole }),
		"recovers before it says so":      sees("is not Recreating", recoversAtOnce),
		"forgets that it recovers":        does("", func(_ pods.Snapshot, p *pods.Plan) { forgetRecovery(p) }),
		"takes old Pods for new ones":     sees("is not", clearedTooEarly),
		"forgets that old Pods are gone":  sees("for nothing in an update", clearedForgotten),
		"keeps holds":                     acts("stalls", func(_ pods.Snapshot, a *pods.Action) bool { return a.Kind != pods.ClearHold && a.Kind != pods.OpenGate }),
		"clears holds too early":          does("before Serve", clearHeld),
		"opens gates that an agent opens": sees("another's to open", func(s *pods.Snapshot) { s.Agents = nil }),
		"leaves Pods drained":             acts("stalls", func(_ pods.Snapshot, a *pods.Action) bool { return a.Order.Permit != v1alpha1.PermitServe }),
		"changes an attempt": acts("an attempt is changed", func(_ pods.Snapshot, a *pods.Action) bool {
			if a.Kind == pods.UpdateOrder && a.Order.Attempt > 1 {
				a.Order.Attempt--
			}
			return true
		}),
		"drains what serves": does("for nothing", func(s pods.Snapshot, plan *pods.Plan) {
			if len(plan.Actions) == 0 && len(s.Pods) > 0 && len(s.Orders) == 0 {
				p := s.Pods[0]
				plan.Actions = []pods.Action{{Kind: pods.CreateOrder, Name: p.Name, Order: pods.NewOrder{PodUID: p.UID, Attempt: 1, Permit: v1alpha1.PermitDrain}}}
			}
		}),
		"deletes the orders of live Pods": does("of a live Pod", func(s pods.Snapshot, plan *pods.Plan) {
			for _, o := range s.Orders {
				plan.Actions = append(plan.Actions, pods.Action{Kind: pods.DeleteOrder, Name: o.Name, UID: o.UID})
			}
		}),
		"waits without a reason": does("without a reason", func(_ pods.Snapshot, plan *pods.Plan) {
			for n := range plan.Status.Instances {
				plan.Status.Instances[n].Message = ""
			}
		}),
		"waits without a timer": does("stalls", func(_ pods.Snapshot, plan *pods.Plan) { plan.Recheck = 0 }),
		"reports an old attempt": does("no open attempt", func(_ pods.Snapshot, plan *pods.Plan) {
			for n := range plan.Status.Updates {
				plan.Status.Updates[n].Attempt--
			}
		}),
		"keeps no leader": acts("stalls", func(_ pods.Snapshot, a *pods.Action) bool { a.Pod.Leader = false; return a.Kind != pods.SetLeader }),
		"lets the group go too early": sees("with Pods", func(s *pods.Snapshot) {
			s.Pods = slices.DeleteFunc(s.Pods, func(p pods.Pod) bool { return p.Deleting })
		}),
		"says ready in an update": does("as ready in an update", func(_ pods.Snapshot, plan *pods.Plan) { sayReady(plan) }),
		"makes Pods that are to be swapped": sees("to be deleted", func(s *pods.Snapshot) {
			for n := range s.Group.Spec.Updates {
				s.Group.Spec.Updates[n].Permit = v1alpha1.PermitSwap
			}
		}),
	}
}

func swapAtDrain(s *pods.Snapshot) {
	for n := range s.Group.Spec.Updates {
		u := &s.Group.Spec.Updates[n]
		if u.Permit == v1alpha1.PermitDrain && u.Method == v1alpha1.UnitRecreate && u.Unit == "" {
			u.Permit, s.Group.Spec.Revision = v1alpha1.PermitSwap, u.Target
		}
	}
}

func clearHeld(s pods.Snapshot, plan *pods.Plan) {
	for _, p := range s.Pods {
		if p.HeldUnit && p.ContainersReady && len(plan.Actions) == 0 {
			plan.Actions = append(plan.Actions, pods.Action{Kind: pods.ClearHold, Name: p.Name, UID: p.UID})
		}
	}
}

func drainsAtOnce(s *pods.Snapshot) {
	for n := range s.Orders {
		if s.Orders[n].Stage == v1alpha1.StageDraining {
			s.Orders[n].Stage = v1alpha1.StageDrained
		}
	}
}

// recoversAtOnce takes for Recreating what has only just lost a Pod.
func recoversAtOnce(s *pods.Snapshot) {
	plan := pods.Decide(*s)
	s.Group.Status.Instances = plan.Status.Instances
}

func forgetRecovery(plan *pods.Plan) {
	for n := range plan.Status.Instances {
		if plan.Status.Instances[n].Phase == v1alpha1.InstanceRecreating {
			plan.Status.Instances[n].Phase = v1alpha1.InstanceCreating
		}
	}
}

func sayReady(plan *pods.Plan) {
	for n := range plan.Status.Instances {
		plan.Status.Instances[n].Ready = true
	}
}

// TestRecheckIsNeverPast: a timer that is over would have been judged in the pass that set it.
func TestRecheckIsNeverPast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, err := drawHistory(t).play(func(s pods.Snapshot) pods.Plan {
			plan := pods.Decide(s)
			if plan.Recheck < 0 || plan.Recheck > 24*time.Hour {
				t.Fatalf("to be looked at again in %s", plan.Recheck)
			}
			return plan
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
