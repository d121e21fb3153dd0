package servinggroup_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

func drainGroup(w *world) {
	u := v1alpha1.UnitUpdate{Attempt: 1, Method: v1alpha1.UnitRecreate, Target: "r2", Previous: "r1", Permit: v1alpha1.PermitDrain}
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.LastAttempt, s.Updates = 1, []v1alpha1.UnitUpdate{u} })
}

func TestDrainsByTheAgent(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.live()
	drainGroup(w)
	w.reconcile()
	if got := w.stage(""); got != v1alpha1.UnitDraining {
		t.Fatalf("stage %q before any agent has answered", got)
	}
	orders := w.orders()
	if len(orders) != 3 {
		t.Fatalf("%d orders", len(orders))
	}
	for _, o := range orders {
		p := w.pod(o.Name)
		if o.Spec.PodUID != p.UID || o.Spec.NodeName != node || o.Spec.ServingGroupUID != "sg" || len(o.Spec.Containers) != 0 ||
			o.Spec.Permit != v1alpha1.PermitDrain || o.Spec.OpenAt != v1alpha1.OpenAtVerified || o.Spec.Drain == nil || o.OwnerReferences[0].UID != p.UID ||
			o.Annotations[v1alpha1.UnitAttempt] != "1" || o.Labels[v1alpha1.LabelModelServing] != "llm" {
			t.Errorf("order: %+v", o)
		}
	}
	w.live()
	if got := w.stage(""); got != v1alpha1.UnitDrained {
		t.Fatalf("stage %q after the agent has answered: %+v", got, w.group().Status)
	}
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Revision, s.Updates[0].Permit = "r2", v1alpha1.PermitSwap })
	w.live()
	if got := w.stage(""); got != v1alpha1.UnitVerified || len(w.orders()) != 0 {
		t.Fatalf("stage %q, %d orders: %+v", got, len(w.orders()), w.group().Status)
	}
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Updates[0].Permit = v1alpha1.PermitServe })
	w.live()
	if got := w.stage(""); got != v1alpha1.UnitInService {
		t.Fatalf("stage %q: %+v", got, w.group().Status)
	}
	if strings.Contains(strings.Join(w.trace, "\n"), "open Pod") {
		t.Error("the coordinator opened a gate though there is an agent")
	}
	if len(w.events) != 0 {
		t.Errorf("events: %q", w.events)
	}
}

func TestBacksOut(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.live()
	born := uids(w)
	drainGroup(w)
	w.live()
	if p := w.pod("llm-0-decode-0-0"); readiness.GateOf(&p).Open {
		t.Fatal("the Pod was not drained")
	}
	w.order(func(s *v1alpha1.ServingGroupSpec) {
		s.LastAttempt, s.Updates[0].Attempt, s.Updates[0].Target, s.Updates[0].Permit = 2, 2, "r1", v1alpha1.PermitServe
	})
	w.live()
	if got := w.stage(""); got != v1alpha1.UnitInService {
		t.Fatalf("stage %q: %+v", got, w.group().Status)
	}
	for _, o := range w.orders() {
		if o.Spec.Attempt != 2 || o.Spec.Permit != v1alpha1.PermitServe || o.Annotations[v1alpha1.UnitAttempt] != "2" {
			t.Errorf("order: %+v", o.Spec)
		}
	}
	if got := uids(w); got != born {
		t.Errorf("Pods were replaced: %s, before %s", got, born)
	}
}

func uids(w *world) string {
	var out []string
	for _, p := range w.pods() {
		out = append(out, p.Name+"="+string(p.UID))
	}
	return strings.Join(out, " ")
}

func TestSkipsTheDrainWhereTheAgentIsDead(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.live()
	w.clock.SetTime(w.clock.Now().Add(v1alpha1.AgentLeaseDuration + time.Second))
	drainGroup(w)
	w.reconcile()
	if got := w.stage(""); got != v1alpha1.UnitDrained || len(w.orders()) != 0 {
		t.Fatalf("stage %q, %d orders", got, len(w.orders()))
	}
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], v1alpha1.EventDrainSkipped) {
		t.Errorf("events: %q", w.events)
	}
}

func TestReplacesAnOrderMadeByHand(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.live()
	p := w.pod("llm-0-decode-0-0")
	hand := &v1alpha1.InPlaceUpdate{Spec: v1alpha1.InPlaceUpdateSpec{PodUID: p.UID, NodeName: node, Attempt: 7, Permit: v1alpha1.PermitServe}}
	hand.Name, hand.Namespace = p.Name, space
	w.must(w.api.Create(t.Context(), hand))
	drainGroup(w)
	for range 5 { // one pass finds it, the next one makes the order
		w.live()
	}
	if got := w.stage(""); got != v1alpha1.UnitDrained {
		t.Fatalf("stage %q: %+v", got, w.group().Status)
	}
	var o v1alpha1.InPlaceUpdate
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(hand), &o))
	if o.Spec.ServingGroupUID != "sg" || o.UID == hand.UID {
		t.Errorf("order: %+v", o)
	}
}

func TestGivesALostOrderAnew(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.live()
	drainGroup(w)
	w.live()
	for _, o := range w.orders() {
		w.must(w.api.Delete(t.Context(), &o))
	}
	w.order(func(s *v1alpha1.ServingGroupSpec) {
		s.LastAttempt, s.Updates[0].Attempt, s.Updates[0].Target, s.Updates[0].Permit = 2, 2, "r1", v1alpha1.PermitServe
	})
	w.live()
	if got := w.stage(""); got != v1alpha1.UnitInService || len(w.orders()) != 3 {
		t.Fatalf("stage %q, %d orders: %+v", got, len(w.orders()), w.group().Status)
	}
	for _, p := range w.pods() {
		if _, held := p.Annotations[v1alpha1.HoldInPlace]; held || !readiness.Ready(&p) {
			t.Errorf("%s: held %t", p.Name, held)
		}
	}
}

func TestRecoversAnInstance(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.live()
	born := w.pod("llm-0-prefill-0-0").UID
	decode := w.pod("llm-0-decode-0-0").UID
	lost := w.pod("llm-0-prefill-0-1")
	w.must(w.api.Delete(t.Context(), &lost))
	w.live()
	if w.pod("llm-0-prefill-0-0").UID == born || w.pod("llm-0-decode-0-0").UID != decode {
		t.Error("not the instance, and nothing but it, was created anew")
	}
	checkServes(w, "r1")
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], v1alpha1.EventRecovering) {
		t.Errorf("events: %q", w.events)
	}
	if n := strings.Count(strings.Join(w.trace, ", "), "delete Pod llm-0-prefill-0-0"); n != 1 {
		t.Errorf("the entry Pod was deleted %d times: %s", n, strings.Join(w.trace, ", "))
	}
}

func TestRecoversARestart(t *testing.T) {
	for name, tt := range map[string]struct {
		after    time.Duration
		count    int32
		recovers bool
	}{
		"within the grace period":          {time.Second, 1, false},
		"after it":                         {time.Minute, 1, true},
		"a probe that fails is no restart": {time.Minute, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := declare(t, "r1")
			ms, ok := objects[0].(*v1alpha1.ModelServing)
			if !ok {
				t.Fatal("no ModelServing")
			}
			ms.Spec.Template.RestartGracePeriodSeconds = 30
			w := newWorld(t, objects...)
			w.settle()
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			p := w.pod("llm-0-decode-0-0")
			set(&p, corev1.ContainersReady, corev1.ConditionFalse, w.clock.Now())
			set(&p, corev1.PodReady, corev1.ConditionFalse, w.clock.Now())
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", RestartCount: tt.count, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}}
			w.must(w.api.Status().Update(t.Context(), &p))
			w.clock.SetTime(w.clock.Now().Add(tt.after))
			w.reconcile()
			if got := w.pod(p.Name).DeletionTimestamp != nil; got != tt.recovers {
				t.Errorf("recovers: %t, want %t", got, tt.recovers)
			}
		})
	}
}
