package pods_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// scene returns a group that serves: prefill-0 with a worker, and decode-0, at revision a on a node
// without an agent; changed as it is asked for.
func scene(changes ...func(*pods.Snapshot)) pods.Snapshot {
	s := pods.Snapshot{
		Now:       begin().Add(time.Hour),
		Revisions: revisions(),
		Settings:  pods.Settings{Recovery: v1alpha1.RecoverRole, RestartGrace: 20 * time.Second, Deadline: 5 * time.Minute},
		Group:     pods.Group{Name: "g", UID: "group", Generation: 4, Finalizer: true, Spec: v1alpha1.ServingGroupSpec{Revision: "a"}},
		Services:  []pods.Service{{Name: "g-prefill-0-0", UID: "service"}},
		Agents:    map[string]time.Time{},
	}
	for _, role := range []string{"prefill", "decode"} {
		s.Group.Spec.Instances = append(s.Group.Spec.Instances, v1alpha1.RoleInstance{Role: role, Ordinal: new(int32(0))})
		s.Group.Status.Instances = append(s.Group.Status.Instances, v1alpha1.InstanceStatus{Role: role, Ordinal: new(int32(0)), Phase: v1alpha1.InstanceRunning})
	}
	s.Pods = []pods.Pod{running("g-prefill-0-0", "p1"), running("g-prefill-0-1", "p1"), running("g-decode-0-0", "d1")}
	s.Pods[2].Leader = true
	for _, change := range changes {
		change(&s)
	}
	return s
}

func running(name, digest string) pods.Pod {
	p := pods.Pod{
		Name: name, UID: "uid-x", Digest: digest, Revision: "a", Node: "n", Created: begin(),
		Ready: true, ContainersReady: true, ReadySince: begin().Add(time.Minute),
	}
	if _, err := fmt.Sscanf(name, "g-prefill-%d-%d", &p.Instance, &p.Index); err == nil {
		p.Role = "prefill"
	} else if _, err := fmt.Sscanf(name, "g-decode-%d-%d", &p.Instance, &p.Index); err == nil {
		p.Role = "decode"
	}
	return p
}

type change = func(*pods.Snapshot)

func empty(s *pods.Snapshot) { s.Pods, s.Services, s.Group.Status.Instances = nil, nil, nil }

func agent(s *pods.Snapshot) { s.Agents["n"] = s.Now.Add(30 * time.Second) }

func olderAgent(s *pods.Snapshot) { s.Behind = map[string]bool{"n": true} }

func deadAgent(s *pods.Snapshot) { s.Agents["n"] = s.Now }

func deleting(s *pods.Snapshot) { s.Group.Deleting = true }

func recovery(p v1alpha1.RecoveryPolicy) change {
	return func(s *pods.Snapshot) { s.Settings.Recovery = p }
}

func pod(name string, alter func(*pods.Pod)) change {
	return func(s *pods.Snapshot) {
		for n := range s.Pods {
			if s.Pods[n].Name == name || name == "" {
				alter(&s.Pods[n])
			}
		}
	}
}

func without(name string) change {
	return func(s *pods.Snapshot) {
		var kept []pods.Pod
		for _, p := range s.Pods {
			if p.Name != name {
				kept = append(kept, p)
			}
		}
		s.Pods = kept
	}
}

func update(unit string, m v1alpha1.UnitMethod, target string, p v1alpha1.Permit) change {
	return func(s *pods.Snapshot) {
		s.Group.Spec.Updates = append(s.Group.Spec.Updates, v1alpha1.UnitUpdate{Unit: unit, Attempt: 3, Method: m, Target: target, Previous: "a", Permit: p})
	}
}

func pinned(revision string) change {
	return func(s *pods.Snapshot) { s.Group.Spec.Revision = revision }
}

// at says what was reported of the update of the whole group.
func at(stage v1alpha1.UnitStage, ago time.Duration) change {
	return func(s *pods.Snapshot) {
		s.Group.Status.Updates = []v1alpha1.UnitUpdateStatus{{Attempt: 3, Stage: stage, Since: metav1.NewTime(s.Now.Add(-ago))}}
	}
}

func phase(unit string, p v1alpha1.InstancePhase) change {
	return func(s *pods.Snapshot) {
		for n, i := range s.Group.Status.Instances {
			if v1alpha1.UnitName(i.Role, *i.Ordinal) == unit {
				s.Group.Status.Instances[n].Phase = p
			}
		}
	}
}

func order(name string, alter func(*pods.Order)) change {
	return func(s *pods.Snapshot) {
		o := pods.Order{Name: name, UID: "order", PodUID: "uid-x", Ours: true, Attempt: 1, Key: "3", Permit: v1alpha1.PermitDrain}
		alter(&o)
		s.Orders = append(s.Orders, o)
	}
}

func reports(stage v1alpha1.Stage) func(*pods.Order) {
	return func(o *pods.Order) { o.ReportedAttempt, o.Stage = o.Attempt, stage }
}

// ordersAll gives every Pod an order that was reported at the stage.
func ordersAll(stage v1alpha1.Stage) change {
	return func(s *pods.Snapshot) {
		for _, p := range s.Pods {
			order(p.Name, reports(stage))(s)
		}
	}
}

func ended(p *pods.Pod)  { p.Ended, p.Ready, p.ContainersReady = true, false, false }
func down(p *pods.Pod)   { p.Ready, p.ContainersReady = false, false }
func going(p *pods.Pod)  { p.Deleting, p.DeletedAt = true, begin().Add(time.Hour) }
func held(p *pods.Pod)   { p.HeldUnit, p.Ready = true, false }
func unborn(p *pods.Pod) { p.GateAbsent, p.Ready = true, false }
func atB(p *pods.Pod) {
	if p.Role == "prefill" {
		p.Digest = "p2"
	}
	p.Revision = "b"
}

// told is what a plan does, in words, and what it says.
type told struct {
	Do      []string
	Stage   v1alpha1.UnitStage
	Blocked v1alpha1.ConditionReason
	Events  []string
	Recheck time.Duration
}

func tell(plan pods.Plan) told {
	var t told
	for _, a := range plan.Actions {
		words := string(a.Kind) + " " + a.Name
		switch a.Kind {
		case pods.CreatePod:
			words += " at " + a.Pod.Revision
			if a.Pod.Held {
				words += " held"
			}
			if a.Pod.HeldGPU {
				words += " held for a GPU"
			}
		case pods.CreateOrder, pods.UpdateOrder:
			words += fmt.Sprintf(" %d for %s: %s", a.Order.Attempt, a.Order.Key, a.Order.Permit)
		case pods.CreatePin, pods.DeletePin, pods.CreateService, pods.DeleteService, pods.DeletePod, pods.DeleteOrder, pods.ClearHold, pods.OpenGate,
			pods.PlaceGPUHold, pods.ClearGPUHold,
			pods.SetLeader, pods.UnsetLeader, pods.RestoreLabels, pods.RestoreFinalizer, pods.RemoveFinalizer:
		}
		t.Do = append(t.Do, words)
	}
	for _, u := range plan.Status.Updates {
		t.Stage = u.Stage
	}
	if plan.Blocked.True {
		t.Blocked = plan.Blocked.Reason
	}
	for _, n := range plan.Notices {
		t.Events = append(t.Events, n.Reason)
	}
	t.Recheck = plan.Recheck
	return t
}

// A row is one rule.
type row struct {
	given pods.Snapshot
	want  told
}

func play(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(r.want, tell(pods.Decide(r.given))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
