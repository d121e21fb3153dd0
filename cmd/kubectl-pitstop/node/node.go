// Package node shows a node for somebody who looks after its GPUs: these, who holds their memory, how they are, and the
// Pods that were given some, with the restarts of their containers. It is pure: See makes the view of what was read
// before, Text writes it for people, and its JSON form is part of the plugin's contract (docs/plugin.md).
package node

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
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
	// those of others.
	Planned int32 `json:"planned"`
	Crashed int32 `json:"crashed"`
	Peer    int32 `json:"peer"`
}

// vendors are what the names of resources begin with that are GPUs, or parts of some.
func vendors() []string { return []string{"nvidia.com/gpu", "nvidia.com/mig-"} }

// See makes the view.
func See(o Objects) View {
	v := View{
		Node: o.Node.Name, Now: o.Now.UTC(), Offered: amounts(o.Node.Status.Allocatable), Health: ofNode(o.Node),
		ReleaseUntil: o.Node.Annotations[v1alpha1.AnnotationGPURelease], AgentProblem: o.Problem, Pods: []Pod{},
	}
	if o.Agent != nil {
		v.Checks, v.GPUs = o.Agent.Checks, &o.Agent.GPUs
	}
	orders := map[types.UID]*v1alpha1.InPlaceUpdate{}
	for _, u := range o.Orders {
		orders[u.Spec.PodUID] = u
	}
	for _, p := range o.Pods {
		if p.Spec.NodeName != o.Node.Name || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if asks := asked(p); len(asks) > 0 {
			v.Pods = append(v.Pods, seePod(p, asks, orders[p.UID]))
		}
	}
	slices.SortFunc(v.Pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	return v
}

func seePod(p *corev1.Pod, asks []Amount, order *v1alpha1.InPlaceUpdate) Pod {
	out := Pod{Namespace: p.Namespace, Name: p.Name, Asks: asks, Ready: readiness.Ready(p)}
	for _, h := range readiness.Holds(p) {
		out.Holders = append(out.Holders, h.Holder)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.GPUHealthy {
			out.Health = healthOf(c.Status, c.Reason, c.Message, c.LastTransitionTime.Time)
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
		out.Restarts.Crashed += c.Crashes
		out.Restarts.Peer += c.Peer
	}
	return out
}

func ofNode(n *corev1.Node) Health {
	for _, c := range n.Status.Conditions {
		if c.Type == v1alpha1.GPUHealthy {
			h := healthOf(c.Status, c.Reason, c.Message, c.LastTransitionTime.Time)
			if at := c.LastHeartbeatTime.UTC(); !at.IsZero() {
				h.Heard = &at
			}
			return h
		}
	}
	return Health{}
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
		if slices.ContainsFunc(vendors(), func(v string) bool { return strings.HasPrefix(string(name), v) }) && !q.IsZero() {
			out = append(out, Amount{string(name), q.Value()})
		}
	}
	slices.SortFunc(out, func(a, b Amount) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}

// HasGPUs reports whether anything says that the node has some.
func (v View) HasGPUs() bool {
	return len(v.Offered)+len(v.Pods) > 0 || v.Health.Status != "" || v.GPUs != nil && len(v.GPUs.Devices) > 0
}
