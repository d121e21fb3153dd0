package world

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/agent"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// Namespace is where ModelServings are, System where the agents' Leases are.
const (
	Namespace = "serving"
	System    = "pitstop-system"
)

// A World is what a history happens in.
type World struct {
	*Loop
	Server *cluster.Server
	// Tell, if it is set, is told what happens without a write, and why.
	Tell func(who, what string)
	// Meddle, if it is set, may change the step that the agent of a node is about to take.
	Meddle func(w *World, node string, l *agent.Look)

	ctx     context.Context //nolint:containedctx // a history is one call
	nodes   []*node
	engines map[types.UID]*engine
	// images and containers count those that there were; pushed are images that came after they were asked for.
	images     int
	containers int
	requests   int // what the user asked for
	pushed     map[string]bool
	// pullSecrets: all Pods have one. gpus: they fall sick at times. No draw decides either, so that other histories stay
	// as they were.
	pullSecrets, gpus bool
	sweep             bool
	calm              bool
}

// node is a machine with a kubelet, and perhaps an agent.
type node struct {
	name     string
	up       bool
	hasAgent bool // the DaemonSet reaches it
	agentUp  bool
	agent    *agentOn
	images   map[string]bool // that it has
	gpuSick  bool
	// driverless: its agent has let go of the GPU driver.
	driverless bool
}

// live reports whether the node's agent works.
func (n *node) live() bool { return n.up && n.hasAgent && n.agentUp }

// New returns a world with nodes, some of them with agents.
func New(ctx context.Context, l *Loop, s *cluster.Server) *World {
	w := &World{Loop: l, Server: s, ctx: ctx, engines: map[types.UID]*engine{}, pushed: map[string]bool{}}
	w.pullSecrets = l.seed%7 == 1 || l.seed%7 == 4
	w.gpus = w.pullSecrets
	agents := pick(l, 0.0, 0.5, 1.0, 1.0, 1.0)
	for i := range 2 + l.IntN(2) {
		n := &node{name: fmt.Sprintf("node-%d", i), up: true, agentUp: true, hasAgent: l.Chance(agents), images: map[string]bool{}}
		n.agent = newAgent(n.name, l)
		w.nodes = append(w.nodes, n)
		object := &corev1.Node{}
		object.Name = n.name
		w.must(w.as("setup").Create(ctx, object))
		w.renew(n)
	}
	s.Watch(w.follow)
	return w
}

// Agents returns the names of the nodes whose agent works.
func (w *World) Agents() map[string]bool {
	out := map[string]bool{}
	for _, n := range w.nodes {
		out[n.name] = n.live()
	}
	return out
}

// Calm ends all trouble: nodes and agents are back and stay, and nothing is refused.
func (w *World) Calm() {
	w.calm = true
	for _, n := range w.nodes {
		w.nodeUp(n)
		w.agentUp(n)
		w.healGPUs(n)
	}
	w.Server.Admit = nil
}

// follow has those act who see the write.
func (w *World) follow(c cluster.Write) {
	switch c.Kind {
	case cluster.Pod:
		w.followPod(c)
	case cluster.InPlaceUpdate:
		if c.Verb != cluster.UpdateStatus {
			w.wakeAgent(c.Key)
		}
	}
	if (c.Verb == cluster.Remove || c.Verb == cluster.Create) && !w.sweep {
		w.sweep = true
		w.After(w.Between(100*time.Millisecond, 4*time.Second), w.collect)
	}
}

func (w *World) followPod(c cluster.Write) {
	if isPin(c.Object()) {
		w.followPin(c)
		return
	}
	switch c.Verb {
	case cluster.Create:
		w.After(w.Between(10*time.Millisecond, time.Second), func() { w.schedule(c.New) })
	case cluster.Mark:
		w.terminate(c.New)
	case cluster.Update, cluster.UpdateStatus:
		if gateOf(c.Old) != gateOf(c.New) {
			w.reportSoon(c.New.GetUID())
		}
		if c.Verb == cluster.Update && imageOf(c.Old) != imageOf(c.New) {
			w.followSoon(c.New.GetUID())
		}
		w.wakeAgent(c.Key)
	case cluster.Remove:
		delete(w.engines, c.Old.GetUID())
	}
}

func (w *World) reportSoon(uid types.UID) {
	w.After(w.Between(10*time.Millisecond, time.Second), func() {
		if e := w.engines[uid]; e != nil {
			w.report(e)
		}
	})
}

func (w *World) followSoon(uid types.UID) {
	w.After(w.Between(10*time.Millisecond, time.Second), func() {
		if e := w.engines[uid]; e != nil {
			w.follows(e)
		}
	})
}

func imageOf(o client.Object) string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return ""
	}
	return pod.Spec.Containers[0].Image
}

func gateOf(o client.Object) corev1.ConditionStatus {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1alpha1.InService {
			return c.Status
		}
	}
	return ""
}

// collect is the garbage collector.
func (w *World) collect() {
	w.sweep = false
	for _, o := range w.Server.Orphans() {
		w.must(w.Server.Collect(o))
	}
}

func (w *World) as(who string) *cluster.Client { return w.Server.Direct(who) }

func (w *World) tell(who, format string, args ...any) {
	if w.Tell != nil {
		w.Tell(who, fmt.Sprintf(format, args...))
	}
}

// must ends the history where the world itself breaks a rule of the server.
func (w *World) must(err error) {
	if err != nil && !apierrors.IsConflict(err) {
		panic(fmt.Sprintf("the world cannot write: %v", err))
	}
}

func (w *World) pod(key types.NamespacedName, uid types.UID) *corev1.Pod {
	pod, ok := w.Server.Stored(cluster.Pod, key).(*corev1.Pod)
	if !ok || uid != "" && pod.UID != uid {
		return nil
	}
	return pod.DeepCopy()
}

// pods returns the Pods of a node, or all if it is nil; no pin Pods.
func (w *World) pods(n *node) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range w.Server.All(cluster.Pod) {
		if pod, ok := o.(*corev1.Pod); ok && !isPin(pod) && (n == nil || pod.Spec.NodeName == n.name) {
			out = append(out, pod)
		}
	}
	return out
}

func (w *World) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}
