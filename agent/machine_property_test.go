package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// A history is all that is left to chance: the Pods of a node, and what people, the coordinator
// and the surroundings do while the agent works.
type history struct {
	seed    uint64
	crash   int
	pods    []podPlan
	actions []action
}

type podPlan struct {
	containers            int
	unit, devices, undead bool
	mute                  bool
	slow                  time.Duration
	memory                memoryPlan
	first                 orderPlan
	final                 []string // the images of its last order, which is given in peace
}

// An action comes after so many ticks: steps of the agent, or events.
type action struct {
	ticks int
	kind  string
	pod   int
	order orderPlan
	image string
	lasts time.Duration
}

type orderPlan struct {
	images    []string // by container; empty: it stays
	permit    v1alpha1.Permit
	openAt    v1alpha1.OpenAt
	drain     *v1alpha1.Drain
	propagate int32
	stop      int32
	deadline  int32
}

func drawHistory(t *rapid.T) history {
	h := history{
		seed:  rapid.Uint64().Draw(t, "seed"),
		crash: rapid.SampledFrom([]int{0, 0, 20, 4}).Draw(t, "a crash per effects"),
		pods:  rapid.SliceOfN(rapid.Custom(drawPod), 1, 4).Draw(t, "pods"),
	}
	draw := rapid.Custom(func(t *rapid.T) action { return drawAction(t, h.pods) })
	h.actions = rapid.SliceOfN(draw, 0, 40).Draw(t, "actions")
	return h
}

func drawPod(t *rapid.T) podPlan {
	p := podPlan{
		containers: rapid.IntRange(1, 2).Draw(t, "containers"),
		unit:       rapid.Bool().Draw(t, "of a unit"),
		devices:    rapid.Bool().Draw(t, "with devices"),
		undead:     rapid.IntRange(0, 9).Draw(t, "undead") == 0,
		mute:       rapid.IntRange(0, 3).Draw(t, "engine without metrics") == 0,
		slow:       rapid.SampledFrom([]time.Duration{time.Second, time.Millisecond, 5 * time.Minute}).Draw(t, "stops within"),
	}
	p.first = drawOrder(t, p)
	p.final = rapid.SliceOfN(rapid.SampledFrom(slices.DeleteFunc(allImages(), func(i string) bool { return i == "crash2" })), p.containers, p.containers).Draw(t, "final")
	p.memory = memoryPlan{
		gpus:    rapid.IntRange(0, 2).Draw(t, "GPUs"),
		frees:   rapid.SampledFrom([]time.Duration{time.Millisecond, 20 * time.Second, 3 * time.Minute, 24 * time.Hour}).Draw(t, "memory is free after"),
		modest:  rapid.Bool().Draw(t, "room for two"),
		imports: rapid.IntRange(0, 3).Draw(t, "imported by another Pod") == 0,
		blind:   rapid.SampledFrom([]int{0, 0, 10, 2, 1}).Draw(t, "a look that fails in"),
	}
	return p
}

func allImages() []string {
	return []string{"v2", "v1", "v3", "v2alias", "crash1", "crash2", "crashes", "arm", "missing", "secret"}
}

func drawAction(t *rapid.T, pods []podPlan) action {
	kinds := []string{
		"order", "order", "order", "order", "order", "order", "order", "order", "permit", "permit", "permit", "permit",
		"cancel", "cancel", "cancel", "delete order", "delete order", "delete order", "delete order", "delete pod", "hold", "release",
		"crash", "runtime", "kubelet", "journal", "lose journal", "registry", "router", "late answer", "collect", "collect", "bury", "bury", "crash container", "edit gate", "probe", "sick", "let go", "let go and crash",
	}
	a := action{
		ticks: rapid.SampledFrom([]int{5, 1, 2, 3, 8, 11, 15, 20, 30, 60}).Draw(t, "ticks"),
		kind:  rapid.SampledFrom(kinds).Draw(t, "kind"),
		pod:   rapid.IntRange(0, len(pods)-1).Draw(t, "pod"),
	}
	switch a.kind {
	case "order", "cancel":
		a.order = drawOrder(t, pods[a.pod])
	case "collect":
		a.image = rapid.SampledFrom(allImages()).Draw(t, "image")
	case "runtime", "kubelet", "journal", "registry", "router", "probe", "sick", "let go", "let go and crash":
		a.lasts = rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, 3 * time.Minute}).Draw(t, "lasts")
	}
	return a
}

func drawOrder(t *rapid.T, p podPlan) orderPlan {
	o := orderPlan{
		permit: v1alpha1.PermitServe, openAt: v1alpha1.OpenAtProved,
		propagate: rapid.Int32Range(0, 3).Draw(t, "propagation"),
		stop:      rapid.SampledFrom([]int32{2, 30}).Draw(t, "stop timeout"),
		deadline:  rapid.SampledFrom([]int32{1800, 120, 20, 5}).Draw(t, "deadline"),
		images:    rapid.SliceOfN(rapid.SampledFrom(append(allImages(), "v1", "v2", "v3", "v2", "v3", "crash1", "", "")), p.containers, p.containers).Draw(t, "images"),
		drain: rapid.SampledFrom([]*v1alpha1.Drain{
			nil,
			{Mode: v1alpha1.DrainEngineMetrics},
			{Mode: v1alpha1.DrainEngineMetrics, TimeoutSeconds: new(int32(5))},
			{Mode: v1alpha1.DrainDelay, TimeoutSeconds: new(int32(2))},
			{Mode: v1alpha1.DrainRouter},
			{Mode: v1alpha1.DrainRouter, TimeoutSeconds: new(int32(10))},
		}).Draw(t, "drain"),
	}
	if p.unit {
		o.openAt = rapid.SampledFrom([]v1alpha1.OpenAt{v1alpha1.OpenAtVerified, v1alpha1.OpenAtProved}).Draw(t, "open at")
		o.permit = rapid.SampledFrom(permits()).Draw(t, "permit")
	}
	return o
}

func permits() []v1alpha1.Permit {
	return []v1alpha1.Permit{v1alpha1.PermitPrepare, v1alpha1.PermitDrain, v1alpha1.PermitSwap, v1alpha1.PermitServe}
}

// order writes an order for the Pod: the next attempt, or a new object.
func (w *world) order(p *simPod, o orderPlan) {
	if p.gone() {
		return
	}
	next := &v1alpha1.InPlaceUpdate{ObjectMeta: metav1.ObjectMeta{
		Name: p.name, Namespace: "default", UID: types.UID(w.id("ipu")),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.name, UID: p.pod.UID}},
	}}
	if p.ipu != nil {
		next = p.ipu.DeepCopy()
	}
	attempt := next.Spec.Attempt + 1
	next.Spec = v1alpha1.InPlaceUpdateSpec{
		PodUID: p.pod.UID, NodeName: "node", Attempt: attempt, Permit: o.permit, OpenAt: o.openAt, Drain: o.drain,
		PropagationSeconds: &o.propagate, StopTimeoutSeconds: &o.stop, ProgressDeadlineSeconds: &o.deadline,
		Revision: "rev-" + string(next.UID) + "-" + strconv.FormatInt(attempt, 10),
	}
	if p.unit {
		next.Spec.ServingGroupUID = "sg"
	}
	for i, image := range o.images {
		if image != "" {
			next.Spec.Containers = append(next.Spec.Containers, v1alpha1.ContainerImage{Name: p.pod.Spec.Containers[i].Name, Image: image})
		}
	}
	p.ipu = next
	w.note(p, "ORDER %d %v %s %s", attempt, o.images, o.permit, o.openAt)
	w.agent.wake(p)
}

// cancel takes back: by hand at any time, the coordinator only before permit Swap.
func (w *world) cancel(p *simPod, o orderPlan) {
	if p.ipu == nil || p.unit && p.ipu.Spec.Permit.Allows(v1alpha1.PermitSwap) {
		return
	}
	o.images, o.permit = nil, v1alpha1.PermitServe
	w.order(p, o)
}

func (w *world) permit(p *simPod) {
	if p.ipu == nil {
		return
	}
	i := slices.Index(permits(), p.ipu.Spec.Permit)
	p.ipu = p.ipu.DeepCopy()
	p.ipu.Spec.Permit = permits()[min(i+1, len(permits())-1)]
	w.note(p, "PERMIT %s", p.ipu.Spec.Permit)
	w.agent.wake(p)
}

func (w *world) operatorHold(p *simPod, held bool) { //nolint:revive // the two halves of one action
	if p.gone() {
		return
	}
	pod := p.pod.DeepCopy()
	if held {
		pod.Annotations[v1alpha1.HoldPrefix+"alice"] = "why"
	} else {
		delete(pod.Annotations, v1alpha1.HoldPrefix+"alice")
	}
	w.store(p, pod)
}

// editGate is a person who writes into the gate's message, where the agent keeps the hold's times.
func (w *world) editGate(p *simPod) {
	if p.gone() || !sameOrder(p.pod.Annotations[v1alpha1.HoldInPlace], v1alpha1.PatchMarkOf(p.pod).Token) {
		return // between two orders the times are all there is
	}
	pod := p.pod.DeepCopy()
	if c := conditionOf(pod, v1alpha1.InService); c.Message != "" {
		c.Message = "out for lunch"
	}
	w.store(p, pod)
}

func (w *world) do(a action) {
	p := w.pods[a.pod]
	if a.kind != "order" && a.kind != "permit" {
		w.note(p, "ACTION %s %s %s", a.kind, a.image, a.lasts)
	}
	switch a.kind {
	case "order":
		w.order(p, a.order)
	case "permit":
		w.permit(p)
	case "cancel":
		w.cancel(p, a.order)
	case "delete order":
		p.ipu = nil
		w.agent.wake(p)
	case "delete pod":
		w.deletePod(p)
	case "hold", "release":
		w.operatorHold(p, a.kind == "hold")
	case "crash":
		w.agent.restart()
	case "runtime":
		w.runtimeFails(a.lasts)
	case "kubelet":
		w.kubeletRestarts(a.lasts)
	case "journal":
		w.journalFails(a.lasts)
	case "lose journal":
		clear(w.agent.records)
		w.forgetful()
	case "probe":
		w.probeFails(a.lasts)
	case "sick":
		w.gpusSicken(a.lasts)
	case "let go":
		w.driverReleased(a.lasts)
	case "let go and crash":
		w.driverReleased(a.lasts)
		w.after(w.jitter(a.lasts), func() { w.agent.restart(); w.permit(p) })
	case "registry":
		w.registryFails(a.lasts)
	case "router":
		w.routerFails(a.lasts)
	case "late answer":
		w.lateAnswer(p)
	case "collect":
		w.collect(a.image)
	case "bury":
		w.bury(p)
	case "edit gate":
		w.after(w.jitter(100*time.Millisecond), func() { w.editGate(p) })
	case "crash container":
		if !p.gone() {
			w.exit(p, p.newest(p.pod.Spec.Containers[0].Name).ID)
		}
	}
}

// tick takes the world one step on, and reports false if nothing more comes.
func (w *world) tick() bool { return w.err == nil && (w.agent.work() || w.advance()) }

// calm ends what would keep an update from its end.
func (w *world) calm() {
	w.agent.crash = 0
	for _, p := range w.pods {
		p.undead = false
		w.heal(p)
		w.operatorHold(p, false)
		for p.ipu != nil && p.ipu.Spec.Permit != v1alpha1.PermitServe {
			w.permit(p)
		}
	}
}

// settle plays on until every Pod's update is over.
func (w *world) settle() {
	for range 20_000 {
		if !slices.ContainsFunc(w.pods, func(p *simPod) bool { return !w.over(p) }) || !w.tick() {
			break
		}
	}
	for _, p := range w.pods {
		if !w.over(p) {
			w.broken(p, "stalls at %s %s", w.agent.last[p.name].Stage, w.agent.last[p.name].Reason)
		}
		p.rules.ended(w, p)
	}
}

// over reports whether nothing more is to come of the Pod's order. Without one, a unit's Pod is
// held until its order comes anew, and one with an image that never runs is held for good; so is
// one whose order ended after an attempt with such an image.
func (w *world) over(p *simPod) bool {
	if p.ipu == nil && p.unit && !w.agent.dirty[p.name] {
		return true
	}
	last := w.agent.last[p.name]
	ended := p.ipu != nil && p.ipu.Status.Attempt == p.ipu.Spec.Attempt && p.ipu.Status.Stage.Ended()
	orphan := !p.gone() && (ended || p.ipu == nil && last.Reason == v1alpha1.WaitingLoad) && slices.ContainsFunc(p.pod.Spec.Containers, func(c corev1.Container) bool {
		return registry(c.Image).crashes < 0
	})
	return w.agent.settled(p) || orphan && !w.agent.dirty[p.name]
}

// play plays the history with the brain, and returns the world and the first rule that it broke.
func (h history) play(b brain) (*world, error) {
	w := newWorld(h.seed, b)
	w.agent.crash = h.crash
	for i, plan := range h.pods {
		w.addPod(&simPod{
			name: fmt.Sprintf("p%d", i), unit: plan.unit, devices: plan.devices, undead: plan.undead, mute: plan.mute, slow: plan.slow, memory: plan.memory,
		}, plan.containers)
	}
	for i, p := range w.pods {
		w.order(p, h.pods[i].first)
	}
	for _, a := range h.actions {
		for range a.ticks {
			if !w.tick() {
				break
			}
		}
		w.do(a)
	}
	w.calm()
	w.settle()
	for i, p := range w.pods {
		w.order(p, orderPlan{images: h.pods[i].final, permit: v1alpha1.PermitServe, openAt: v1alpha1.OpenAtProved, propagate: 1, stop: 5, deadline: 1200})
	}
	w.settle()
	for i, p := range w.pods {
		h.pods[i].check(w, p)
	}
	return w, w.err
}

// check compares the end of the last order with what its images deserve, whatever came before.
func (plan podPlan) check(w *world, p *simPod) {
	if p.gone() || w.err != nil {
		return
	}
	want := v1alpha1.StageInService
	for _, image := range plan.final {
		switch kind := registry(image); {
		case kind.err != nil, kind.foreign:
			want = v1alpha1.StageRefused
		case kind.crashes < 0 && want != v1alpha1.StageRefused:
			want = v1alpha1.StageFailed
		}
	}
	if got := p.ipu.Status.Stage; got != want {
		w.broken(p, "images %v end as %s %s: %s", plan.final, got, p.ipu.Status.Reason, p.ipu.Status.Message)
	}
	if want == v1alpha1.StageInService && !readiness.Ready(p.pod) {
		w.broken(p, "is not Ready at the end")
	}
}

func TestPropertyOfTheMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if w, err := rapid.Custom(drawHistory).Draw(t, "history").play(honest()); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(w.log, "\n"))
		}
	})
}

// TestTheDriverIsReleasedWhileTheAgentRestarts: of a Pod that is drained already the new process waits for a look.
func TestTheDriverIsReleasedWhileTheAgentRestarts(t *testing.T) {
	order := orderPlan{images: []string{"v2"}, permit: v1alpha1.PermitDrain, openAt: v1alpha1.OpenAtVerified, stop: 2, deadline: 1800}
	for ticks := range 20 {
		h := history{
			seed: uint64(ticks), pods: []podPlan{{containers: 1, unit: true, devices: true, slow: time.Second, memory: memoryPlan{gpus: 1, frees: time.Second}, first: order, final: []string{"v3"}}},
			actions: []action{{ticks: 40, kind: "let go", lasts: 3 * time.Minute}, {ticks: 20, kind: "crash"}, {ticks: ticks, kind: "permit"}, {ticks: 20, kind: "crash"}},
		}
		if w, err := h.play(honest()); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(w.log, "\n"))
		}
	}
}
