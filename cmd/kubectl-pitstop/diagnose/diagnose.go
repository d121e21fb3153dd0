// Package diagnose says in words where a Pod stands: why it waits, for what, since when, what
// would free it and when it ends by itself. It is pure: everything it judges was read before,
// and what could not be read counts as unknown.
package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/readiness"
)

// Facts are the objects as they were read at Now.
type Facts struct {
	Pod    *corev1.Pod
	Update *v1alpha1.InPlaceUpdate // nil: there is none
	// Lease is the lease of the agent on the Pod's node; nil with LeaseUnknown false means that
	// there is none.
	Lease        *coordinationv1.Lease
	LeaseUnknown bool
	// Group is the ServingGroup of the Pod, and Mates are Pods of it; nil: there is none, or it could not be read.
	Group *v1alpha1.ServingGroup
	Mates []*corev1.Pod
	// Node is that of a Pod that asks for GPUs and has no condition of its own; nil: that is not so, or it could not be read.
	Node *corev1.Node
	Now  time.Time
}

// A Diagnosis is the answer. Summary, Why and Way are sentences without a full stop.
type Diagnosis struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node,omitempty"`

	// Summary says in one sentence where the Pod stands.
	Summary string `json:"summary"`
	// Reason, Why and Way say what stands between the Pod and service, or why its last update
	// ended; empty if there is nothing to say.
	Reason v1alpha1.Reason `json:"reason,omitempty"`
	Why    string          `json:"why,omitempty"`
	Way    string          `json:"way,omitempty"`
	// Message are the agent's own words about the reason.
	Message string `json:"message,omitempty"`
	// Note is what else one should know.
	Note string `json:"note,omitempty"`

	Attempt int64             `json:"attempt,omitempty"`
	Stage   v1alpha1.Stage    `json:"stage,omitempty"`
	Since   *metav1.Time      `json:"since,omitempty"`
	Next    *Deadline         `json:"next,omitempty"`
	Gate    string            `json:"gate"`
	Holds   []Hold            `json:"holds,omitempty"`
	Agent   Agent             `json:"agent"`
	Now     metav1.Time       `json:"now"`
	Unit    string            `json:"unit,omitempty"`
	Timings *v1alpha1.Timings `json:"timings,omitempty"`
	// GPUs are what the Pod's GPUs held before the swap, and what became of it, while the update is open.
	GPUs []v1alpha1.GPUReport `json:"gpus,omitempty"`
	// Sick are the Pods with a sick GPU that this is about: the Pod itself, and, where it is held for one, others of its unit.
	Sick []Sick `json:"sick,omitempty"`
}

// A Deadline is the next moment at which something happens without anyone's doing.
type Deadline struct {
	At metav1.Time `json:"at"`
	// Then says what happens.
	Then string `json:"then"`
}

// A Hold is one reason for which the Pod is out of traffic, and who can end it.
type Hold struct {
	order.Hold `json:",inline"`
	Way        string `json:"way"`
}

// Diagnose judges the facts.
func Diagnose(f Facts) Diagnosis {
	d := Diagnosis{
		Namespace: f.Pod.Namespace,
		Pod:       f.Pod.Name,
		Node:      f.Pod.Spec.NodeName,
		Gate:      gateState(f.Pod),
		Sick:      sickFor(f),
		Note:      gateless(f),
		Agent:     agentOf(f),
		Now:       metav1.NewTime(f.Now),
		Unit:      order.Unit(f.Pod, f.Update),
	}
	d.Holds = holds(f, d.Sick)
	if u := f.Update; u != nil && u.Spec.PodUID == f.Pod.UID {
		d.update(f, u)
	} else {
		d.idle(f)
		if u != nil {
			d.Note = fmt.Sprintf("the InPlaceUpdate of this name is about a former Pod (UID %s) and is ignored", u.Spec.PodUID)
		}
	}
	return d
}

// update diagnoses a Pod with an order.
func (d *Diagnosis) update(f Facts, u *v1alpha1.InPlaceUpdate) {
	d.Attempt = u.Spec.Attempt
	seen := u.Status.Attempt == u.Spec.Attempt
	if seen {
		d.Stage, d.Reason, d.Message, d.Timings = u.Status.Stage, u.Status.Reason, u.Status.Message, u.Status.Timings
		if !u.Status.Stage.Ended() {
			d.GPUs = u.Status.GPUs
		}
		if u.Status.StageSince != nil {
			d.Since = &metav1.Time{Time: u.Status.StageSince.Time}
		}
	}
	switch {
	case seen && u.Status.Stage == v1alpha1.StageInService, seen && u.Status.Stage == v1alpha1.StageCancelled:
		d.idle(f)
		if u.Status.Reason == "" {
			return
		}
	case f.Pod.DeletionTimestamp != nil:
		d.Summary = "is being deleted; its update is not carried on"
		d.Reason, d.Message = "", ""
		return
	case d.Agent.State == AgentDead && (!seen || !u.Status.Stage.Ended()):
		d.Reason = v1alpha1.WaitingAgent
		d.Summary = fmt.Sprintf("attempt %d stands still at %s: node %s has no live agent", d.Attempt, stageOr(d.Stage, v1alpha1.StagePending), d.Node)
	case !seen:
		d.Summary = fmt.Sprintf("attempt %d has not been taken up by the agent yet", d.Attempt)
		d.Why = "the agent takes up an order as soon as it sees it"
		d.Way = "the agent's next look, within seconds; if it lasts, read the log of the agent on node " + d.Node
		return
	case u.Status.Stage == v1alpha1.StageRefused:
		d.idle(f)
		d.Reason = u.Status.Reason
		if f.Pod.Annotations[v1alpha1.HoldInPlace] != "" {
			d.Summary += fmt.Sprintf("; attempt %d was refused, and an attempt before it has patched the Pod: its images are waited for", d.Attempt)
		} else {
			d.Summary += fmt.Sprintf("; attempt %d was refused and touched nothing", d.Attempt)
		}
	case u.Status.Stage == v1alpha1.StageFailed:
		d.Summary = fmt.Sprintf("attempt %d failed after the patch; the Pod is kept out of traffic", d.Attempt)
	case early(u.Status.Stage) && order.Patched(f.Pod, u):
		d.patched(f.Pod, u)
	case d.Reason == "" && early(d.Stage) && d.Stage != v1alpha1.StageDrained && readiness.GateOf(f.Pod).Token == u.Token():
		d.lowered(f, u)
	case d.Reason == "" && d.Stage == v1alpha1.StagePrepared && u.Spec.Permit.Allows(v1alpha1.PermitDrain) && d.sick():
		// The agent does not report a wait before it has lasted.
		d.Reason = v1alpha1.WaitingGPU
		fallthrough
	default:
		d.Summary = fmt.Sprintf("attempt %d is at %s", d.Attempt, u.Status.Stage)
		d.Next = deadline(f.Pod, u)
	}
	d.explain()
}

// sick reports whether a GPU of the Pod itself is.
func (d *Diagnosis) sick() bool {
	return slices.ContainsFunc(d.Sick, func(s Sick) bool { return s.Pod == d.Pod })
}

// stuck is the UUID of the GPU whose memory was not given back; empty if there is none.
func (d *Diagnosis) stuck() string {
	for _, g := range d.GPUs {
		if g.Verdict == v1alpha1.VerdictLeaked || g.Verdict == v1alpha1.VerdictHeldByOther {
			return g.UUID
		}
	}
	return ""
}

// lowered diagnoses an update that has closed the gate and has not reported that yet.
func (d *Diagnosis) lowered(f Facts, u *v1alpha1.InPlaceUpdate) {
	d.Summary = fmt.Sprintf("attempt %d has taken the Pod out of traffic", d.Attempt)
	answered := readiness.GateOf(f.Pod).AcknowledgedAt
	switch {
	case answered.IsZero():
		d.Reason = v1alpha1.WaitingAcknowledge
	case f.Now.Before(answered.Add(u.Spec.Propagation())):
		d.Reason = v1alpha1.WaitingPropagation
	default:
		d.Reason = v1alpha1.WaitingDrain
	}
	d.Next = drainDeadline(f.Pod, u, d.Reason)
}

// patched diagnoses an update that is further than its report: the agent does not report each
// stage, and the Pod itself says that its images are patched.
func (d *Diagnosis) patched(pod *corev1.Pod, u *v1alpha1.InPlaceUpdate) {
	d.Summary = fmt.Sprintf("attempt %d has patched the Pod's images", d.Attempt)
	d.Reason, d.Message = v1alpha1.WaitingKubelet, ""
	held := pod.Annotations[v1alpha1.HoldInPlace] != ""
	switch {
	case held:
	case len(readiness.Holds(pod)) > 0:
		d.Reason = v1alpha1.WaitingHeld
		return
	case crashes(pod) != "":
		d.Reason, d.Message = v1alpha1.WaitingRestart, crashes(pod)
	case readiness.ContainersReady(pod):
		d.Reason = v1alpha1.WaitingReady
	case readiness.GateOf(pod).Open: // opened as soon as the new containers were proved
		d.Reason = v1alpha1.WaitingLoad
	}
	if mark := v1alpha1.PatchMarkOf(pod); mark.Token != "" {
		d.Next = &Deadline{At: metav1.NewTime(mark.At.Add(u.Spec.ProgressDeadline())), Then: failure}
	}
}

// crashes says which container kubelet waits to start again after a crash; empty if none.
func crashes(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" {
			return fmt.Sprintf("container %s crashed, %d restarts so far: see kubectl logs --previous", c.Name, c.RestartCount)
		}
	}
	return ""
}

func (d *Diagnosis) explain() {
	if d.Reason == "" {
		return
	}
	text, ok := Explain(d.Reason)
	if !ok {
		text = Text{"this plugin does not know the reason " + string(d.Reason), "use the kubectl-pitstop of the agent's version"}
	}
	d.Why, d.Way = text.Why, Place{d.Node, d.stuck()}.In(text.Way)
	byHand := d.Reason == v1alpha1.RefusedForeign || d.Reason == v1alpha1.RefusedNotOwned
	if d.Unit != "" && KindOf(d.Reason) == Refused && !byHand {
		d.Way = refusedWay(d.Reason)
	}
}

// deadline returns when the wait that u is in ends by itself, or nil if it may last for ever or the message says when.
func deadline(pod *corev1.Pod, u *v1alpha1.InPlaceUpdate) *Deadline {
	reason, stage := u.Status.Reason, u.Status.Stage
	if reason == v1alpha1.WaitingDrain || reason == v1alpha1.WaitingPropagation {
		return drainDeadline(pod, u, reason)
	}
	then := failure
	if early(stage) {
		then = "the attempt is refused (DeadlineBeforeSwap) and the Pod serves as before"
	}
	endless := reason == v1alpha1.WaitingPermit || reason == v1alpha1.WaitingHeld || reason == v1alpha1.WaitingRelease ||
		reason == v1alpha1.WaitingUnread || reason == v1alpha1.WaitingRuntime && !early(stage)
	if endless || u.Status.StageSince == nil {
		return nil
	}
	since := cmp.Or(u.Status.ProgressSince, u.Status.StageSince)
	return &Deadline{At: metav1.NewTime(since.Add(u.Spec.ProgressDeadline())), Then: then}
}

// failure is what a deadline after the patch brings.
const failure = "the update fails (DeadlineExceeded) and the Pod stays out of traffic"

// early reports whether a stage is before the patch.
func early(s v1alpha1.Stage) bool {
	return slices.Contains([]v1alpha1.Stage{
		v1alpha1.StagePending, v1alpha1.StagePreparing, v1alpha1.StagePrepared, v1alpha1.StageDraining, v1alpha1.StageDrained,
	}, s)
}

// drainDeadline counts from kubelet's answer to the lowered gate, which the gate keeps.
func drainDeadline(pod *corev1.Pod, u *v1alpha1.InPlaceUpdate, reason v1alpha1.Reason) *Deadline {
	gate := readiness.GateOf(pod)
	if gate.Token != u.Token() || gate.AcknowledgedAt.IsZero() {
		return nil
	}
	end := gate.AcknowledgedAt.Add(u.Spec.Propagation())
	if reason == v1alpha1.WaitingPropagation || u.Spec.Drain == nil {
		return &Deadline{At: metav1.NewTime(end), Then: "the drain begins"}
	}
	return &Deadline{At: metav1.NewTime(end.Add(u.Spec.Drain.Timeout())), Then: "the drain ends and requests that still run are cut"}
}

func stageOr(s, fallback v1alpha1.Stage) v1alpha1.Stage {
	if s == "" {
		return fallback
	}
	return s
}
