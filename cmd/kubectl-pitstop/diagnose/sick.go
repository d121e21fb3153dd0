package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// mostSick is how many Pods with a sick GPU are told of one by one.
const mostSick = 3

// A Sick is a Pod with a GPU that its agent calls unhealthy.
type Sick struct {
	// Pod is empty where only the words of the coordinator are known, which are then in Message.
	Pod    string             `json:"pod,omitempty"`
	Node   string             `json:"node,omitempty"`
	Reason v1alpha1.GPUReason `json:"reason,omitempty"`
	// Message names the GPUs.
	Message string `json:"message,omitempty"`
	// Why and Way explain the reason; Way has the commands for this node and GPU.
	Why string `json:"why,omitempty"`
	Way string `json:"way,omitempty"`
	// Traffic says that the Pod is still in traffic, and what takes it out; empty if it is not, or is held.
	Traffic string `json:"traffic,omitempty"`
}

// sickOf is what the condition of a Pod says, and false if that is not that a GPU of it is sick.
func sickOf(pod *corev1.Pod) (Sick, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type != v1alpha1.GPUHealthy || c.Status != corev1.ConditionFalse || pod.DeletionTimestamp != nil {
			continue
		}
		s := Sick{Pod: pod.Name, Node: pod.Spec.NodeName, Reason: v1alpha1.GPUReason(c.Reason), Message: c.Message}
		text, known := ExplainGPU(s.Reason)
		if !known {
			text = unknown(c.Reason)
		}
		s.Why, s.Way = text.Why, Place{s.Node, FirstGPUs(c.Message)}.In(text.Way)
		s.Traffic = Traffic(pod, s.Reason)
		return s, true
	}
	return Sick{}, false
}

// where names the Pod and its node.
func (s Sick) where() string { return "Pod " + s.Pod + on(s.Node) }

func (s Sick) text() string {
	if s.Pod == "" {
		return s.Message
	}
	return s.where() + ": " + join(string(s.Reason), s.Message)
}

// sickFor returns the Pods with a sick GPU that matter to a Pod: itself, and where it is held for the GPU of one of its
// unit, those of its unit.
func sickFor(f Facts) []Sick {
	var all []Sick
	if s, sick := sickOf(f.Pod); sick {
		all = append(all, s)
	}
	if _, held := f.Pod.Annotations[v1alpha1.HoldGPUHealth]; !held {
		return all
	}
	mine := ""
	if f.Group != nil && !slices.Contains(f.Group.Spec.GPUHolds, "") {
		mine = unitOf(f.Pod)
	}
	owner := metav1.GetControllerOfNoCopy(f.Pod)
	for _, p := range f.Mates {
		if c := metav1.GetControllerOfNoCopy(p); owner == nil || c == nil || c.UID != owner.UID || p.UID == f.Pod.UID {
			continue
		}
		if s, sick := sickOf(p); sick && (mine == "" || mine == unitOf(p)) {
			all = append(all, s)
		}
	}
	if len(all) == 0 && f.Group != nil {
		return faults(f.Group, mine)
	}
	return all
}

// unitOf is the role instance that a Pod belongs to, as `<role>-<n>`.
func unitOf(p *corev1.Pod) string {
	return p.Labels[v1alpha1.LabelRole] + "-" + p.Labels[v1alpha1.LabelInstance]
}

// faults are what the coordinator says of the GPUs of a unit; that of the group as a whole has no name.
func faults(sg *v1alpha1.ServingGroup, unit string) []Sick {
	var all []Sick
	for _, s := range sg.Status.Instances {
		if s.GPUFault != "" && (unit == "" || unit == v1alpha1.UnitName(s.Role, ordinal(s.Ordinal))) {
			all = append(all, Sick{
				Message: s.GPUFault, Why: "a GPU of a Pod of the unit is sick, as its agent says",
				Way: "`kubectl pitstop node NODE`, with the node that is named, says what the GPU needs",
			})
		}
	}
	return all
}

// healed is what ends the hold gpu-health.
func healed(f Facts, sick []Sick) string {
	if f.Group != nil && len(sick) == 0 {
		return "no GPU of the unit is known to be sick any more: the coordinator lets go of it at its next look, within seconds"
	}
	var whose []string
	for _, s := range sick {
		if s.Pod != "" {
			whose = append(whose, s.where())
		}
	}
	if len(whose) == 0 {
		return "it goes when the GPU is healthy again"
	}
	return "it goes when the GPU of " + few(whose, " and ") + " is healthy again"
}

// few joins texts, and counts those that are too many.
func few(texts []string, separator string) string {
	if n := len(texts); n > mostSick {
		texts = append(slices.Clone(texts[:mostSick]), fmt.Sprintf("%d more", n-mostSick))
	}
	return strings.Join(texts, separator)
}

// gateless says of a Pod without the readiness gate, on which the agent writes no condition, what its node's says.
func gateless(f Facts) string {
	if f.Node == nil {
		return ""
	}
	for _, c := range f.Node.Status.Conditions {
		if c.Type == v1alpha1.GPUHealthy && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("GPUs of its node are sick (%s): whether one of them is this Pod's says `kubectl pitstop node %s`, and nothing of Pitstop takes it out of traffic",
				join(c.Reason, c.Message), f.Node.Name)
		}
	}
	return ""
}
