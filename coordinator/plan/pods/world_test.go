package pods_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

func begin() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// roles of three revisions: decode is the same in a and b, c has no workers.
func revisions() map[string]pods.Revision {
	return map[string]pods.Revision{
		"a": {"prefill": {Digest: "p1", Workers: 1}, "decode": {Digest: "d1"}},
		"b": {"prefill": {Digest: "p2", Workers: 1}, "decode": {Digest: "d1"}},
		"c": {"prefill": {Digest: "p3"}, "decode": {Digest: "d2", Workers: 2}},
	}
}

// A gate is the readiness gate of a Pod: absent, or as the agent or the coordinator wrote it.
type gate int

const (
	absent gate = iota
	closed
	open
)

// A body is a Pod of the world.
type body struct {
	pods.Pod
	gate gate
	// condemned: its unit was reported as drained, and may be swapped.
	condemned bool
	// doomed: a person asked for another one in its place.
	doomed bool
}

// A world is all that a ServingGroup meets: an API server, kubelets, agents, and the ModelServing
// controller.
type world struct {
	decide   func(pods.Snapshot) pods.Plan
	rnd      *rand.Rand
	now      time.Time
	serial   int
	group    pods.Group
	settings pods.Settings
	pods     map[string]*body
	orders   map[string]*pods.Order
	services map[string]pods.Service
	agents   map[string]bool
	gone     bool
	deleted  map[types.UID]bool
	broken   string
	trace    []string
}

func newWorld(h history, decide func(pods.Snapshot) pods.Plan) *world {
	w := &world{
		decide: decide, rnd: rand.New(rand.NewPCG(h.seed, 1)), now: begin(),
		settings: pods.Settings{Recovery: h.policy, RestartGrace: 20 * time.Second, Deadline: 5 * time.Minute},
		pods:     make(map[string]*body), orders: make(map[string]*pods.Order), services: make(map[string]pods.Service),
		agents: make(map[string]bool), deleted: make(map[types.UID]bool),
	}
	for n := range h.agents {
		w.agents[nodeOf(n)] = true
	}
	w.group = pods.Group{Name: "llm-0", UID: "group", Generation: 1, Finalizer: true, Spec: v1alpha1.ServingGroupSpec{Revision: "a"}}
	for _, unit := range []string{"prefill-0", "prefill-1", "decode-0"} {
		role, n, _ := v1alpha1.ParseUnit(unit)
		w.group.Spec.Instances = append(w.group.Spec.Instances, v1alpha1.RoleInstance{Role: role, Ordinal: &n})
	}
	return w
}

const nodes = 3

func nodeOf(n int) string { return fmt.Sprintf("node-%d", n%nodes) }

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, w.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (w *world) snapshot() pods.Snapshot {
	s := pods.Snapshot{Now: w.now, Group: w.group, Settings: w.settings, Revisions: revisions(), Agents: make(map[string]time.Time)}
	s.Group.Spec = *w.group.Spec.DeepCopy()
	s.Group.Status = *w.group.Status.DeepCopy()
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[name]
		p.Ready = p.ContainersReady && p.gate == open && !p.Ended
		p.GateAbsent = p.gate == absent
		p.Idle = p.gate == absent || !p.ContainersReady
		s.Pods = append(s.Pods, p.Pod)
	}
	for _, name := range slices.Sorted(maps.Keys(w.orders)) {
		s.Orders = append(s.Orders, *w.orders[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.services)) {
		s.Services = append(s.Services, w.services[name])
	}
	for node, up := range w.agents {
		s.Agents[node] = w.now.Add(-time.Second)
		if up {
			s.Agents[node] = w.now.Add(v1alpha1.AgentLeaseDuration)
		}
	}
	return s
}

// pass has the controller decide and act. It may die on the way: then nothing is reported.
func (w *world) pass(crash int) pods.Plan {
	s := w.snapshot()
	plan := w.decide(s)
	acted := 0
	for _, a := range plan.Actions {
		if crash > 0 && acted == crash-1 {
			w.say("the coordinator dies")
			return plan
		}
		w.say("%s %s", a.Kind, a.Name)
		w.judge(a)
		w.apply(a)
		acted++
	}
	if w.gone {
		return plan
	}
	w.judgeReport(s, plan)
	w.group.Status = *plan.Status.DeepCopy()
	return plan
}

func (w *world) uid() types.UID {
	w.serial++
	return types.UID(fmt.Sprintf("uid-%d", w.serial))
}

func (w *world) apply(a pods.Action) {
	p, o := w.pods[a.Name], w.orders[a.Name]
	switch a.Kind {
	case pods.CreatePod:
		w.pods[a.Name] = &body{Pod: pods.Pod{
			Name: a.Name, UID: w.uid(), Role: a.Pod.Role, Instance: a.Pod.Instance, Index: a.Pod.Index,
			Revision: a.Pod.Revision, Digest: a.Pod.Digest, Created: w.now, HeldUnit: a.Pod.Held, Leader: a.Pod.Leader,
		}}
	case pods.DeletePod:
		p.Deleting, p.DeletedAt = true, w.now.Add(30*time.Second)
	case pods.CreateOrder:
		w.orders[a.Name] = &pods.Order{Name: a.Name, UID: w.uid(), Ours: true, PodUID: a.Order.PodUID, Attempt: a.Order.Attempt, Key: a.Order.Key, Permit: a.Order.Permit}
	case pods.UpdateOrder:
		o.Attempt, o.Key, o.Permit = a.Order.Attempt, a.Order.Key, a.Order.Permit
	case pods.DeleteOrder:
		delete(w.orders, a.Name)
	case pods.CreateService:
		w.services[a.Name] = pods.Service{Name: a.Name, UID: w.uid()}
	case pods.DeleteService:
		delete(w.services, a.Name)
	case pods.ClearHold:
		p.HeldUnit = false
	case pods.OpenGate:
		p.HeldUnit, p.gate = false, open
	case pods.SetLeader, pods.UnsetLeader:
		p.Leader = a.Kind == pods.SetLeader
	case pods.RestoreLabels:
		p.Mislabelled = false
	case pods.CreatePin, pods.DeletePin, pods.PlaceGPUHold, pods.ClearGPUHold:
		w.fail("%s, and nothing is updated in place, and no GPU is sick", a.Kind)
	case pods.RestoreFinalizer:
		w.group.Finalizer = true
	case pods.RemoveFinalizer:
		w.gone = true
	}
}

// kubelet starts and stops a Pod, and reports whether there was anything to do.
func (w *world) kubelet(name string) bool {
	p := w.pods[name]
	switch {
	case p == nil:
		return false
	case p.Deleting:
		delete(w.pods, name)
	case p.Ended:
		return false
	case p.Node == "":
		p.Node = nodeOf(w.rnd.IntN(nodes))
	case !p.ContainersReady:
		p.ContainersReady, p.Restarted, p.ReadySince = true, time.Time{}, w.now
	default:
		return false
	}
	w.say("kubelet: %s", name)
	return true
}

// agent does what the agent of the Pod's node does, and reports whether there was anything to do.
func (w *world) agent(name string, refuses bool) bool {
	p, o := w.pods[name], w.orders[name]
	if p == nil || p.Deleting || p.Node == "" || !w.agents[p.Node] {
		return false
	}
	before, reported := *p, pods.Order{}
	if o != nil {
		reported = *o
	}
	switch {
	case o == nil || o.PodUID != p.UID:
	case o.ReportedAttempt == o.Attempt && o.Stage.Ended():
		p.HeldInPlace = false
	case o.Permit == v1alpha1.PermitServe:
		p.HeldInPlace = false
		o.ReportedAttempt, o.Stage = o.Attempt, v1alpha1.StageInService
	case refuses:
		p.HeldInPlace = false
		o.ReportedAttempt, o.Stage = o.Attempt, v1alpha1.StageRefused
	case !p.HeldInPlace || o.ReportedAttempt != o.Attempt:
		p.HeldInPlace = true
		o.ReportedAttempt, o.Stage = o.Attempt, v1alpha1.StageDraining
	default:
		o.Stage = v1alpha1.StageDrained
	}
	p.gate = open
	if p.HeldInPlace || p.HeldUnit || p.HeldOther {
		p.gate = closed
	}
	if reflect.DeepEqual(before, *p) && (o == nil || reported == *o) {
		return false
	}
	w.say("agent: %s", name)
	return true
}

// names are those of all Pods that are or may be.
func (w *world) names() []string { return slices.Sorted(maps.Keys(w.pods)) }
