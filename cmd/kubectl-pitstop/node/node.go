// Package node shows a node for somebody who looks after its GPUs: these, who holds their memory, how they are, and the
// Pods that were given some, with the restarts of their containers. It is pure: See makes the view of what was read
// before, Text writes it for people, and its JSON form is part of the plugin's contract (docs/plugin.md).
package node

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
	"pitstop.dev/readiness"
)

// Objects are what a view is made of, as read at Now. Pods and Orders may be of other nodes.
type Objects struct {
	Node   *corev1.Node
	Pods   []*corev1.Pod
	Orders []*v1alpha1.InPlaceUpdate
	// Agent is what the node's agent says; nil: it could not be asked, and Problem says why.
	Agent   *states.States
	Problem string
	Now     time.Time
}

// A View is a node with its GPUs.
type View struct {
	Node string    `json:"node"`
	Now  time.Time `json:"now"`
	// Offered counts the GPUs, or parts of them, that the node offers to Pods, by resource.
	Offered []Amount `json:"offered"`
	Health  Health   `json:"health"`
	// AgentHealth is what the agent says of all GPUs now. The condition follows, its message within a minute.
	AgentHealth *Health `json:"agentHealth,omitempty"`
	// PluginProblem says that the node offers none of its GPUs to Pods.
	PluginProblem string `json:"pluginProblem,omitempty"`
	// ReleaseUntil is what the annotation asks for; empty: nobody does.
	ReleaseUntil string `json:"releaseUntil,omitempty"`
	// AgentProblem says why the agent could not be asked. Then Checks, Driver and GPUs are missing.
	AgentProblem string         `json:"agentProblem,omitempty"`
	Checks       []states.Check `json:"checks,omitempty"`
	// GPUs are as the agent has them.
	GPUs *states.GPUs `json:"gpus,omitempty"`
	Pods []Pod        `json:"pods"`
}

// An Amount is a number of devices of one resource.
type Amount struct {
	Resource string `json:"resource"`
	Count    int64  `json:"count"`
}

// Health is a condition GPUHealthy. Status is empty where there is none.
type Health struct {
	Status  corev1.ConditionStatus `json:"status,omitempty"`
	Reason  v1alpha1.GPUReason     `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	Since   *time.Time             `json:"since,omitempty"`
	// Heard is when the agent last wrote it; of a Node only.
	Heard *time.Time `json:"heard,omitempty"`
	// Why and Way explain the reason.
	Why string `json:"why,omitempty"`
	Way string `json:"way,omitempty"`
}

// A Pod is one that asks for GPUs.
type Pod struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Asks      []Amount `json:"asks"`
	Ready     bool     `json:"ready"`
	Health    Health   `json:"health"`
	// Gate: it has the readiness gate, so that it can be taken out of traffic.
	Gate bool `json:"gate"`
	// Notes are what else there is to know of one with a sick GPU.
	Notes []string `json:"notes,omitempty"`
	// Holders keep it out of traffic.
	Holders []string `json:"holders,omitempty"`
	// Stage is that of its last update in place; empty: there is none.
	Stage    v1alpha1.Stage `json:"stage,omitempty"`
	Restarts Restarts       `json:"restarts"`
}

// Restarts are those of a Pod's containers.
type Restarts struct {
	// Total is what kubelet counts.
	Total int32 `json:"total"`
	// Planned, Crashed and Peer are of the last update: what it asked for, those of patched containers beyond that, and
	// those of others. Where it has failed Crashed counts on, elsewhere it ends with the update.
	Planned int32 `json:"planned"`
	Crashed int32 `json:"crashed"`
	Peer    int32 `json:"peer"`
}

// vendors are what the names of resources begin with that are GPUs, or parts of some.
func vendors() []string { return []string{"nvidia.com/gpu", "nvidia.com/mig-"} }

func isGPU(name corev1.ResourceName) bool {
	return slices.ContainsFunc(vendors(), func(v string) bool { return strings.HasPrefix(string(name), v) })
}

// See makes the view.
func See(o Objects) View {
	v := View{
		Node: o.Node.Name, Now: o.Now.UTC(), Offered: amounts(o.Node.Status.Allocatable), Health: ofNode(o),
		ReleaseUntil: o.Node.Annotations[v1alpha1.AnnotationGPURelease], AgentProblem: o.Problem, Pods: []Pod{},
	}
	if o.Agent != nil {
		v.Checks, v.GPUs = o.Agent.Checks, &o.Agent.GPUs
	}
	v.AgentHealth = saysNow(o)
	orders := map[types.UID]*v1alpha1.InPlaceUpdate{}
	for _, u := range o.Orders {
		orders[u.Spec.PodUID] = u
	}
	for _, p := range o.Pods {
		if p.Spec.NodeName != o.Node.Name || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if len(asked(p)) > 0 {
			v.Pods = append(v.Pods, seePod(o, p, orders[p.UID]))
		}
	}
	slices.SortFunc(v.Pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	if len(v.Offered) == 0 && (len(v.Pods) > 0 || offeredOnce(o.Node)) {
		v.PluginProblem = "offers no GPU to Pods, though it did: see its device plugin; Pods that run keep their GPUs, and none is started on one"
	}
	return v
}

// offeredOnce reports whether a device plugin has told kubelet of GPUs: kubelet keeps the name of a resource whose plugin
// is gone. Where GPUs come by resource claims there is none.
func offeredOnce(n *corev1.Node) bool {
	for name := range n.Status.Capacity {
		if isGPU(name) {
			return true
		}
	}
	return false
}

func seePod(o Objects, p *corev1.Pod, order *v1alpha1.InPlaceUpdate) Pod {
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, Asks: asked(p), Ready: readiness.Ready(p), Gate: readiness.HasGate(p),
		Health: ofPod(o, p),
	}
	for _, h := range readiness.Holds(p) {
		out.Holders = append(out.Holders, h.Holder)
	}
	if out.Health.Status == corev1.ConditionFalse {
		if text := diagnose.Traffic(p, out.Health.Reason); text != "" {
			out.Notes = append(out.Notes, text)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		out.Restarts.Total += c.RestartCount
	}
	if order == nil {
		return out
	}
	out.Stage = order.Status.Stage
	for _, c := range order.Status.Containers {
		out.Restarts.Planned += c.Planned
		out.Restarts.Crashed += crashed(p, order.Status.Stage, c)
		out.Restarts.Peer += c.Peer
	}
	return out
}

// crashed counts the crashes of one container in an update. The agent counts as long as the update goes on; one that has
// failed waits for a person, who wants to see that it goes on crashing.
func crashed(p *corev1.Pod, stage v1alpha1.Stage, c v1alpha1.ContainerReport) int32 {
	if stage != v1alpha1.StageFailed || c.Before == nil || c.Planned == 0 {
		return c.Crashes
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == c.Name {
			return max(c.Crashes, s.RestartCount-c.Before.RestartCount-c.Planned)
		}
	}
	return c.Crashes
}

// ofPod is the condition of a Pod, or, as the agent writes none on a Pod without the readiness gate, what it says of the
// GPUs that the Pod was given.
func ofPod(o Objects, p *corev1.Pod) Health {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.GPUHealthy {
			h := healthOf(c.Status, c.Reason, c.Message, c.LastTransitionTime.Time)
			return h.at(diagnose.Place{Node: o.Node.Name, GPU: diagnose.FirstGPUs(c.Message)})
		}
	}
	mine := verdicts(o, func(d states.Device) bool { return slices.Contains(d.Pods, p.Namespace+"/"+p.Name) })
	if len(mine) == 0 {
		return Health{}
	}
	h := summed(o, mine)
	if h.Status != corev1.ConditionFalse && !o.Agent.GPUs.PodsKnown { // another GPU of it may be missing
		return Health{}
	}
	return h
}

// verdicts are those of the GPUs that the agent tells of, and of which keep is true.
func verdicts(o Objects, keep func(states.Device) bool) []health.Verdict {
	var all []health.Verdict
	if o.Agent == nil {
		return nil
	}
	for _, d := range o.Agent.GPUs.Devices {
		if keep(d) {
			all = append(all, d.Verdict)
		}
	}
	return all
}

// summed says of some GPUs what a condition would say of them.
func summed(o Objects, some []health.Verdict) Health {
	sum := health.Sum(some, nil)
	h := healthOf(sum.Status, string(sum.Reason), sum.Message, time.Time{})
	return h.at(diagnose.Place{Node: o.Node.Name, GPU: indexesOf(some, h)})
}

// indexesOf are those of the GPUs that a reason is about, with commas; empty if there are none.
func indexesOf(some []health.Verdict, h Health) string {
	var all []string
	for _, v := range some {
		if v.Status == h.Status && v.Reason == h.Reason {
			all = append(all, strconv.Itoa(v.Index))
		}
	}
	return strings.Join(all, ",")
}

// saysNow is what the agent says of all GPUs; nil if it knows of none.
func saysNow(o Objects) *Health {
	all := verdicts(o, func(states.Device) bool { return true })
	if len(all) == 0 {
		return nil
	}
	h := summed(o, all)
	switch {
	case h.Status == corev1.ConditionTrue:
		h.Message = strings.TrimSuffix(fmt.Sprintf("%d GPUs; %s", len(all), h.Message), "; ")
	case h.Status == corev1.ConditionUnknown && o.Agent.GPUs.State == gpu.Released:
		h.Message = "the driver is released " + o.Agent.GPUs.Message
	}
	return &h
}

func ofNode(o Objects) Health {
	for _, c := range o.Node.Status.Conditions {
		if c.Type != v1alpha1.GPUHealthy {
			continue
		}
		h := healthOf(c.Status, c.Reason, c.Message, c.LastTransitionTime.Time)
		if at := c.LastHeartbeatTime.UTC(); !at.IsZero() {
			h.Heard = &at
		}
		indexes := indexesOf(verdicts(o, func(states.Device) bool { return true }), h)
		return h.at(diagnose.Place{Node: o.Node.Name, GPU: cmp.Or(indexes, diagnose.FirstGPUs(c.Message))})
	}
	return Health{}
}

// at has the commands name the place.
func (h Health) at(p diagnose.Place) Health {
	h.Way = p.In(h.Way)
	return h
}

func healthOf(status corev1.ConditionStatus, reason, message string, since time.Time) Health {
	h := Health{Status: status, Reason: v1alpha1.GPUReason(reason), Message: message}
	if !since.IsZero() {
		at := since.UTC()
		h.Since = &at
	}
	if text, ok := diagnose.ExplainGPU(h.Reason); ok && status != corev1.ConditionTrue {
		h.Why, h.Way = text.Why, text.Way
	}
	return h
}

// asked are the GPUs that the containers of a Pod ask for together.
func asked(p *corev1.Pod) []Amount {
	total := corev1.ResourceList{}
	for _, c := range p.Spec.Containers {
		for name, q := range c.Resources.Limits {
			sum := total[name]
			sum.Add(q)
			total[name] = sum
		}
	}
	return amounts(total)
}

func amounts(list corev1.ResourceList) []Amount {
	out := []Amount{}
	for name, q := range list {
		if isGPU(name) && !q.IsZero() {
			out = append(out, Amount{string(name), q.Value()})
		}
	}
	slices.SortFunc(out, func(a, b Amount) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}

// Unreported reports whether a Pod asks for GPUs and has no condition that says how they are.
func Unreported(p *corev1.Pod) bool {
	return len(asked(p)) > 0 && !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.GPUHealthy })
}

// HasGPUs reports whether anything says that the node has some.
func (v View) HasGPUs() bool {
	return len(v.Offered)+len(v.Pods) > 0 || v.Health.Status != "" || v.GPUs != nil && len(v.GPUs.Devices) > 0
}
