package pods_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// A history is all that is left to chance.
type history struct {
	seed   uint64
	policy v1alpha1.RecoveryPolicy
	agents int // so many nodes have one at first
	events []happening
}

// A happening is one thing that happens between two passes.
type happening struct {
	kind  string
	n     int
	crash int // the pass after it dies before so many actions; 0: it does not
}

func kinds() []string {
	return []string{
		"kubelet", "kubelet", "kubelet", "kubelet", "agent", "agent", "agent", "serving", "serving", "time",
		"fails", "vanishes", "deleted", "restarts", "agent goes", "agent comes", "refuses",
		"update group", "update unit", "recreate group", "recreate unit", "remove unit", "declare unit", "remove group", "order lost", "drifts",
	}
}

func drawHistory(t *rapid.T) history {
	return history{
		seed:   rapid.Uint64().Draw(t, "seed"),
		policy: rapid.SampledFrom([]v1alpha1.RecoveryPolicy{v1alpha1.RecoverRole, v1alpha1.RecoverServingGroup, v1alpha1.RecoverNone}).Draw(t, "recovery"),
		agents: rapid.IntRange(0, nodes).Draw(t, "agents"),
		events: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) happening {
			return happening{
				kind:  rapid.SampledFrom(kinds()).Draw(t, "kind"),
				n:     rapid.IntRange(0, 59).Draw(t, "n"),
				crash: max(0, rapid.IntRange(-12, 4).Draw(t, "crash")),
			}
		}), 0, 120).Draw(t, "events"),
	}
}

// play plays the history, lets the world come to rest, and returns what broke.
func (h history) play(decide func(pods.Snapshot) pods.Plan) (*world, error) {
	w := newWorld(h, decide)
	w.runAll() // a group that serves, more often than not
	for _, e := range h.events {
		w.happen(e)
		if !w.gone {
			w.pass(e.crash)
		}
		if w.broken != "" || w.gone {
			break
		}
	}
	if w.broken == "" && !w.gone {
		w.rest()
	}
	if w.broken != "" {
		return w, errors.New(w.broken)
	}
	return w, nil
}

func (w *world) runAll() {
	for range 8 {
		w.pass(0)
		for _, name := range w.names() {
			w.kubelet(name)
			w.agent(name, false)
		}
	}
}

func (w *world) happen(e happening) {
	names := w.names()
	name := ""
	if len(names) > 0 {
		name = names[e.n%len(names)]
	}
	units := []string{"prefill-0", "prefill-1", "decode-0", "decode-1"}
	unit := units[e.n%len(units)]
	revision := []string{"a", "b", "c"}[e.n/4%3]
	switch e.kind {
	case "kubelet":
		w.kubelet(name)
	case "agent":
		w.agent(name, false)
	case "refuses":
		w.agent(name, true)
	case "serving":
		w.serve()
	case "time":
		w.now = w.now.Add(time.Duration(e.n*e.n) * time.Second)
	case "agent goes", "agent comes":
		w.agents[nodeOf(e.n)] = e.kind == "agent comes"
		w.say("%s: %s", nodeOf(e.n), e.kind)
	case "update group":
		w.target("", revision, v1alpha1.UnitRecreate)
	case "update unit":
		w.target(unit, revision, v1alpha1.UnitRecreate)
	case "recreate group":
		w.recreate("")
	case "recreate unit":
		w.recreate(unit)
	case "remove unit":
		if w.update(unit) == nil {
			w.target(unit, "", v1alpha1.UnitRemove)
		}
	case "remove group":
		if e.n < 5 {
			w.group.Spec.Updates = nil
			w.target("", "", v1alpha1.UnitRemove)
		}
	case "declare unit":
		w.declare(unit)
	case "order lost":
		delete(w.orders, name)
	default:
		w.hurt(e.kind, name)
	}
}

// hurt is what happens to Pods.
func (w *world) hurt(kind, name string) {
	p := w.pods[name]
	if p == nil || p.Deleting {
		return
	}
	w.say("%s %s", name, kind)
	switch kind {
	case "fails":
		p.Ended, p.ContainersReady = true, false
	case "vanishes":
		delete(w.pods, name)
	case "deleted":
		p.Deleting, p.DeletedAt = true, w.now
		w.deleted[p.UID] = true
	case "restarts":
		if p.Node != "" && !p.Ended {
			p.ContainersReady, p.Restarted = false, w.now
		}
	case "drifts":
		p.Digest, p.Revision = "forged", "forged"
	}
}

// rest lets nothing more go wrong. Time passes only where the controller says that it waits for it.
func (w *world) rest() {
	for node := range w.agents { // a gate that an agent closed is an agent's to open
		w.agents[node] = w.agents[node] || w.closedOn(node)
	}
	for range 2000 {
		plan := w.pass(0)
		if w.broken != "" || w.gone {
			return
		}
		moved := w.sweep(2) || w.sweep(1) || w.serve() || len(plan.Actions) > 0
		switch {
		case w.atRest() && !w.unseen(plan):
			return
		case moved || w.unseen(plan):
		case plan.Recheck > 0:
			w.now = w.now.Add(plan.Recheck)
		default:
			w.fail("stalls: %+v", w.group.Status)
			return
		}
	}
	w.fail("never ends: %+v", w.group.Status)
}

// sweep lets one in so many of the kubelets and agents do something, and reports whether any did.
func (w *world) sweep(one int) (moved bool) {
	for _, name := range w.names() {
		if w.rnd.IntN(one) == 0 {
			moved = w.kubelet(name) || moved
		}
		if w.rnd.IntN(one) == 0 {
			moved = w.agent(name, false) || moved
		}
	}
	return moved
}

// unseen reports whether the next plan is another one because of what this one reported.
func (w *world) unseen(plan pods.Plan) bool {
	next := w.decide(w.snapshot())
	return len(next.Actions) > 0 || next.Decisive(plan.Status)
}

func (w *world) closedOn(node string) bool {
	for _, p := range w.pods {
		if p.Node == node && p.gate == closed {
			return true
		}
	}
	return false
}

// atRest reports whether everything is as it is declared.
func (w *world) atRest() bool {
	if w.group.Deleting || len(w.group.Spec.Updates) > 0 {
		return false
	}
	for _, p := range w.pods {
		if w.outdated(p) || p.HeldUnit || p.HeldInPlace || p.Deleting || p.Ended || p.gate != open {
			return false
		}
	}
	leaders := 0
	for _, p := range w.pods {
		if p.Leader {
			leaders++
		}
	}
	for _, i := range w.group.Status.Instances {
		if !i.Ready || i.Phase != v1alpha1.InstanceRunning || !w.declared(v1alpha1.UnitName(i.Role, *i.Ordinal)) {
			return false
		}
	}
	return len(w.group.Status.Instances) == len(w.group.Spec.Instances) && (leaders == 1 || len(w.pods) == 0)
}

func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		w, err := h.play(pods.Decide)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, strings.Join(w.trace, "\n"), fmt.Sprintf("%+v", w.group.Spec))
		}
	})
}
