package diagnose

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/readiness"
)

// LeaseNamespace is the namespace of the agents' Leases.
const LeaseNamespace = "pitstop-system"

// An AgentState says whether the agent of a node is alive.
type AgentState string

// The states of an agent.
const (
	// AgentAlive has renewed its Lease within v1alpha1.AgentLeaseDuration.
	AgentAlive AgentState = "Alive"
	// AgentDead has not, or there is no Lease.
	AgentDead AgentState = "Dead"
	// AgentUnknown could not be found out.
	AgentUnknown AgentState = "Unknown"
)

// An Agent is what is known of the agent on the Pod's node.
type Agent struct {
	State   AgentState   `json:"state"`
	Renewed *metav1.Time `json:"renewed,omitempty"`
}

// AgentOf judges the Lease of a node's agent at a time; nil means that there is none.
func AgentOf(lease *coordinationv1.Lease, now time.Time) Agent {
	if lease == nil || lease.Spec.RenewTime == nil {
		return Agent{State: AgentDead}
	}
	renewed := lease.Spec.RenewTime.Time
	a := Agent{State: AgentAlive, Renewed: &metav1.Time{Time: renewed}}
	if now.Sub(renewed) > v1alpha1.AgentLeaseDuration {
		a.State = AgentDead
	}
	return a
}

func agentOf(f Facts) Agent {
	if f.LeaseUnknown || f.Pod.Spec.NodeName == "" {
		return Agent{State: AgentUnknown}
	}
	return AgentOf(f.Lease, f.Now)
}

// idle diagnoses a Pod that no update moves: why it is in traffic or not.
func (d *Diagnosis) idle(f Facts) {
	pod := f.Pod
	ready := condition(pod, corev1.PodReady)
	switch {
	case pod.DeletionTimestamp != nil:
		d.Summary = "is being deleted"
	case pod.Spec.NodeName == "":
		d.Summary, d.Way = "is not scheduled to a node yet", "see `kubectl describe pod "+pod.Name+"` for what the scheduler waits for"
	case !readiness.HasGate(pod):
		d.Summary = fmt.Sprintf("is not Pitstop's: it has no readiness gate %s", v1alpha1.InService)
		d.Way = "to update it in place, add the gate to its template and recreate it once"
	case len(d.Holds) > 0:
		d.Summary = "is kept out of traffic by " + d.holders()
		d.Way = d.Holds[0].Way
	case ready == corev1.ConditionTrue:
		d.Summary = "is in service"
		if d.sick() {
			d.Summary += ", on a sick GPU"
		}
	case condition(pod, v1alpha1.InService) != corev1.ConditionTrue:
		d.unopened(pod)
	default:
		d.notReady(pod)
	}
}

// unopened explains a gate that is not open though no hold stands.
func (d *Diagnosis) unopened(pod *corev1.Pod) {
	d.Summary = "is out of traffic: nobody holds it, and its gate is not open (" + d.Gate + ")"
	switch d.Agent.State {
	case AgentAlive:
		d.Way = "the agent opens the gate within seconds; if it does not, read the log of the agent on node " + pod.Spec.NodeName
	case AgentDead:
		d.Reason = v1alpha1.WaitingAgent
		text, _ := Explain(d.Reason)
		d.Why, d.Way = text.Why, text.Way
	case AgentUnknown:
		d.Way = fmt.Sprintf("the agent on node %s opens it; whether it is alive says the Lease %s/%s, which you may not read", pod.Spec.NodeName, LeaseNamespace, v1alpha1.AgentLeaseName(pod.Spec.NodeName))
	}
}

// notReady explains a Pod that Pitstop lets serve and kubelet does not call Ready.
func (d *Diagnosis) notReady(pod *corev1.Pod) {
	var waits []string
	for _, c := range pod.Status.ContainerStatuses {
		switch {
		case c.Ready:
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			waits = append(waits, fmt.Sprintf("container %q waits (%s)", c.Name, c.State.Waiting.Reason))
		default:
			waits = append(waits, fmt.Sprintf("container %q is not ready", c.Name))
		}
	}
	for _, g := range pod.Spec.ReadinessGates {
		if condition(pod, g.ConditionType) != corev1.ConditionTrue {
			waits = append(waits, fmt.Sprintf("readiness gate %q is not True", g.ConditionType))
		}
	}
	d.Summary = "is not Ready, and not by Pitstop's doing: its gate is open"
	if len(waits) > 0 {
		d.Summary += "; " + strings.Join(waits, ", ")
	}
	d.Way = "see `kubectl describe pod " + pod.Name + "`"
}

func (d *Diagnosis) holders() string {
	var names []string
	for _, h := range d.Holds {
		names = append(names, fmt.Sprintf("%q", h.Holder))
	}
	return strings.Join(names, " and ")
}

// gate says how the Pod's readiness gate stands, in words.
func gateState(pod *corev1.Pod) string {
	if !readiness.HasGate(pod) {
		return "none"
	}
	switch g := readiness.GateOf(pod); {
	case !g.Present:
		return "not set yet"
	case g.Open:
		return "open"
	}
	return "closed"
}

func condition(pod *corev1.Pod, of corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == of {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func holds(f Facts, sick []Sick) []Hold {
	var all []Hold
	for _, h := range order.Holds(f.Pod) {
		one := Hold{Hold: h, Way: way(f, h)}
		if v1alpha1.HoldPrefix+h.Holder == v1alpha1.HoldGPUHealth {
			one.Way = healed(f, sick)
		}
		all = append(all, one)
	}
	return all
}

func way(f Facts, h order.Hold) string {
	switch v1alpha1.HoldPrefix + h.Holder {
	case v1alpha1.HoldInPlace:
		switch {
		case f.Update == nil:
			return "the order is gone: the agent finishes what it had begun, then lets go"
		case f.Update.Status.Stage == v1alpha1.StageFailed && f.Update.Status.Attempt == f.Update.Spec.Attempt:
			return "it goes when a new update has come to a good end"
		}
		return "it goes when the update ends"
	case v1alpha1.HoldUnit:
		return "it goes when the Pod's unit may serve"
	case v1alpha1.HoldDevice:
		return "it goes when the lost GPU is back"
	}
	if h.Holder == order.Operator {
		return "`kubectl pitstop release " + f.Pod.Name + "`"
	}
	return "`kubectl pitstop release " + f.Pod.Name + " --holder " + h.Holder + "`"
}
