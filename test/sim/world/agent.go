package world

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/agent"
	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
	"pitstop.dev/test/sim/cluster"
)

// maxSteps bounds the steps of one turn, as in the agent's shell.
const maxSteps = 12

// chanceCrash is the share of the agents' steps after which the process dies and is started again.
const chanceCrash = 0.004

// agentOn is one node's agent: what its process remembers, and its journal.
type agentOn struct {
	process *agent.Process
	records map[types.UID]journal.Record
	woken   map[types.NamespacedName]bool
	timers  map[types.NamespacedName]time.Time
}

func newAgent(node string, l *Loop) *agentOn {
	return &agentOn{
		process: agent.NewProcess(node, l), records: map[types.UID]journal.Record{},
		woken: map[types.NamespacedName]bool{}, timers: map[types.NamespacedName]time.Time{},
	}
}

// wakeAgent has the agents that the Pod, or its order, concerns look at it.
func (w *World) wakeAgent(key types.NamespacedName) {
	on := map[string]bool{}
	if pod, ok := w.Server.Stored(cluster.Pod, key).(*corev1.Pod); ok {
		on[pod.Spec.NodeName] = true
	}
	if order, ok := w.Server.Stored(cluster.InPlaceUpdate, key).(*v1alpha1.InPlaceUpdate); ok {
		on[order.Spec.NodeName] = true
	}
	for _, n := range w.nodes {
		if on[n.name] {
			w.wakeOn(n, key)
		}
	}
}

func (w *World) wakeOn(n *node, key types.NamespacedName) {
	if !n.live() || n.agent.woken[key] {
		return
	}
	n.agent.woken[key] = true
	w.After(w.Between(5*time.Millisecond, time.Second), func() {
		delete(n.agent.woken, key)
		w.look(n, key)
	})
}

// wakeAt has the agent look again at a time, or earlier.
func (w *World) wakeAt(n *node, key types.NamespacedName, at time.Time) {
	if due, ok := n.agent.timers[key]; at.IsZero() || ok && due.After(w.Now()) && !due.After(at) {
		return
	}
	n.agent.timers[key] = at
	w.After(at.Sub(w.Now()), func() {
		if n.agent.timers[key].Equal(at) {
			delete(n.agent.timers, key)
			w.look(n, key)
		}
	})
}

// restartAgent is a crash of the process, and the next one.
func (w *World) restartAgent(n *node) {
	n.agent.process.Restart()
	if w.Chance(0.1) {
		clear(n.agent.records) // the journal was lost with it
	}
	w.wakeAll(n)
}

// look takes one Pod as far as it goes now.
func (w *World) look(n *node, key types.NamespacedName) {
	for range maxSteps {
		if !n.live() {
			return
		}
		l := n.agent.process.Look(w.reading(n, key))
		if w.Meddle != nil {
			w.Meddle(w, n.name, l)
		}
		if !w.take(n, l) {
			w.wait(n, l)
			return
		}
		if !w.calm && w.Chance(chanceCrash) {
			w.tell("agent/"+n.name, "crashes after %s", l.Step.Do)
			w.restartAgent(n)
			return
		}
	}
	w.wakeOn(n, key)
}

func (w *World) reading(n *node, key types.NamespacedName) agent.Reading {
	r := agent.Reading{
		Key: key, Image: n.image, Hash: func(_, image string) string { return hash(image) },
		Node: agent.Node{RuntimeUp: true, KubeletUp: true, JournalOpen: true},
	}
	if n.driverless {
		r.Node.NotNow, r.Node.NotNowMessage = v1alpha1.WaitingDriver, "the GPU driver is released"
	}
	if n.gpuSick {
		r.Node.NotNow, r.Node.NotNowMessage = v1alpha1.WaitingGPU, "a GPU is sick"
	}
	if r.Pod = w.pod(key, ""); r.Pod != nil {
		r.Record = n.agent.records[r.Pod.UID]
		if e := w.engines[r.Pod.UID]; e != nil {
			r.Runtime, r.Idle = cri.Pod{Containers: e.made}, !w.Now().Before(e.idle)
		}
	}
	r.Order, _ = w.Server.Stored(cluster.InPlaceUpdate, key).(*v1alpha1.InPlaceUpdate)
	return r
}

// wait reports a wait that lasts, and makes the gate agree with the holds.
func (w *World) wait(n *node, l *agent.Look) {
	until, status := l.Waits()
	if status != nil {
		w.writeReport(n, l, *status)
	}
	w.wakeAt(n, l.Key(), until)
	pod := w.pod(l.Key(), "")
	if pod == nil || pod.Spec.NodeName != n.name {
		return
	}
	if data, needed := readiness.Sync(pod, w.Now()); needed {
		w.patch(n, pod, data)
	}
	if e := w.engines[pod.UID]; e != nil && e.idle.After(w.Now()) && l.Step.Reason == v1alpha1.WaitingDrain {
		w.wakeAt(n, l.Key(), e.idle)
	}
}

// take carries out one step. moved reports whether there may be another one now.
func (w *World) take(n *node, l *agent.Look) (moved bool) {
	switch l.Step.Do {
	case agent.ActNone:
		return false
	case agent.ActDone:
		l.Ends()
		w.end(n, l.Key())
		return false
	case agent.ActReport:
		w.writeReport(n, l, l.Reports())
	case agent.ActPull:
		w.pull(n, l)
	case agent.ActHold, agent.ActAnnounce, agent.ActAcknowledge, agent.ActOpen:
		w.writePod(n, l)
	case agent.ActPatch:
		w.patchImages(n, l)
	case agent.ActStop:
		l.Stops()
		if e, pod := w.engineOf(w.uidOf(l.Key())); pod != nil && e.running() && e.made[0].ID == l.Step.ContainerID {
			w.stop(e, l.Step.ContainerID, w.Between(10*time.Millisecond, time.Second))
		}
	case agent.ActRetry:
		panic("the agent wants what is not simulated: " + string(l.Step.Do))
	default:
		panic("the agent wants what is not known: " + string(l.Step.Do))
	}
	return true
}

func (w *World) uidOf(key types.NamespacedName) types.UID {
	if pod, ok := w.Server.Stored(cluster.Pod, key).(*corev1.Pod); ok {
		return pod.UID
	}
	return ""
}

// writePod takes a step by a patch of the Pod's status. A Pod that goes out of traffic has requests left.
func (w *World) writePod(n *node, l *agent.Look) {
	data, err := l.Writes()
	w.must(err)
	pod := w.pod(l.Key(), "")
	if e := w.engines[pod.UID]; e != nil && l.Step.Do == agent.ActHold && readiness.GateOf(pod).Open {
		e.idle = w.Now().Add(w.Between(0, l.Update.Order.DrainFor*5/4))
	}
	w.patch(n, pod, data)
}

func (w *World) patch(n *node, pod *corev1.Pod, data []byte) {
	err := w.as("agent/"+n.name).Status().Patch(w.ctx, pod, client.RawPatch(types.StrategicMergePatchType, data))
	w.must(err)
}

func (w *World) patchImages(n *node, l *agent.Look) {
	pod := w.pod(l.Key(), "")
	images, mark := l.Patches()
	for i := range pod.Spec.Containers {
		if image, ok := images[pod.Spec.Containers[i].Name]; ok {
			pod.Spec.Containers[i].Image = image
		}
	}
	pod.Annotations = maps.Clone(pod.Annotations)
	pod.Annotations[v1alpha1.PatchedAt] = mark
	w.must(w.as("agent/"+n.name).Update(w.ctx, pod))
}

// writeReport writes the report on an order; at Drained the journal keeps the baseline.
func (w *World) writeReport(n *node, l *agent.Look, status v1alpha1.InPlaceUpdateStatus) {
	order, ok := w.Server.Stored(cluster.InPlaceUpdate, l.Key()).(*v1alpha1.InPlaceUpdate)
	if !ok || order.Token() != l.Token() {
		return
	}
	if uid := order.Spec.PodUID; status.Stage == v1alpha1.StageDrained && l.Step.Do == agent.ActReport {
		n.agent.records[uid] = withBaseline(n.agent.records[uid], status.Containers)
	}
	o := order.DeepCopy()
	o.Status = status
	w.must(w.as("agent/"+n.name).Status().Update(w.ctx, o))
}

// withBaseline keeps the ids of all baselines since the Pod was last in service, as the journal does.
func withBaseline(old journal.Record, reports []v1alpha1.ContainerReport) journal.Record {
	r := journal.Record{}
	if old.Open() {
		r.PriorIDs = slices.Clone(old.PriorIDs)
	}
	for _, c := range reports {
		r.PriorIDs = append(r.PriorIDs, c.Before.ContainerID)
	}
	return r
}

func (w *World) end(n *node, key types.NamespacedName) {
	uid := w.uidOf(key)
	if r, ok := n.agent.records[uid]; ok {
		r.Ended = w.Now()
		n.agent.records[uid] = r
	}
}
