package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/pins"
)

// CoordinatorLease is the name of the leader's Lease, in LeaseNamespace.
const CoordinatorLease = "pitstop-coordinator"

// ServingFacts are the objects as they were read at Now.
type ServingFacts struct {
	Serving *v1alpha1.ModelServing
	// Groups may hold those of others: ownership by UID decides.
	Groups []*v1alpha1.ServingGroup
	// Pods are those of the groups; nil: they could not be read.
	Pods []*corev1.Pod
	// Lease is that of the leading coordinator; nil with LeaseUnknown false means that there is none.
	Lease        *coordinationv1.Lease
	LeaseUnknown bool
	// Pins tell which revisions make the same Pods; nil: only their names tell.
	Pins pins.Pins
	Now  time.Time
}

// A ServingDiagnosis says where a ModelServing stands. Summary, Note, Why and Way are sentences
// without a full stop.
type ServingDiagnosis struct {
	Namespace    string `json:"namespace"`
	ModelServing string `json:"modelServing"`
	Summary      string `json:"summary"`
	// Note is what else one should know before all the rest.
	Note string `json:"note,omitempty"`
	// Target is the revision being rolled to.
	Target string `json:"target,omitempty"`
	// Conditions are those that say something: what blocks, what is in progress, what is lacking.
	Conditions []Condition `json:"conditions"`
	// Waits are the units that wait, each with what for: those that block first.
	Waits []Wait `json:"waits"`
	// Queue are the outdated units that have not been started; absent if there is none.
	Queue       *Queue      `json:"queue,omitempty"`
	Coordinator Agent       `json:"coordinator"`
	Now         metav1.Time `json:"now"`
}

// A Condition is a condition of the ModelServing, explained.
type Condition struct {
	Type    string                   `json:"type"`
	Status  metav1.ConditionStatus   `json:"status"`
	Reason  v1alpha1.ConditionReason `json:"reason"`
	Since   metav1.Time              `json:"since"`
	Message string                   `json:"message,omitempty"`
	Why     string                   `json:"why,omitempty"`
	Way     string                   `json:"way,omitempty"`
}

// A Queue are units that are outdated and have not been started.
type Queue struct {
	// Next are to be updated, in no particular order; Why says what they wait for, and Way what ends
	// that.
	Next []string `json:"next"`
	Why  string   `json:"why,omitempty"`
	Way  string   `json:"way,omitempty"`
	// Protected keep their revision, because their ordinal is below the partition.
	Protected []string `json:"protected,omitempty"`
}

// Serving judges the facts.
func Serving(f ServingFacts) ServingDiagnosis {
	ms := f.Serving
	f.Groups = own(f)
	d := ServingDiagnosis{
		Namespace: ms.Namespace, ModelServing: ms.Name, Target: ms.Status.UpdateRevision,
		Summary: summary(ms), Conditions: []Condition{}, Waits: waits(f),
		Coordinator: Agent{State: AgentUnknown}, Now: metav1.NewTime(f.Now),
	}
	if !f.LeaseUnknown {
		d.Coordinator = AgentOf(f.Lease, f.Now)
	}
	switch {
	case d.Coordinator.State == AgentDead:
		d.Note = "no coordinator is alive, so nothing below moves on until one is: `kubectl -n " + LeaseNamespace + " get pods`"
	case ms.Status.ObservedGeneration != ms.Generation:
		d.Note = "the coordinator has not yet taken up the latest change of the spec; what follows is about the one before"
	}
	for _, c := range ms.Status.Conditions {
		if telling(c) {
			e := explained(ms, c)
			if e.Reason == v1alpha1.BlockedGPU {
				e.Way = firstSick(f).In(e.Way)
			}
			d.Conditions = append(d.Conditions, e)
		}
	}
	slices.SortFunc(d.Conditions, func(a, b Condition) int { return strings.Compare(a.Type, b.Type) })
	d.Queue = queue(f, d)
	return d
}

// own are the groups that the ModelServing controls, by ordinal.
func own(f ServingFacts) []*v1alpha1.ServingGroup {
	var groups []*v1alpha1.ServingGroup
	for _, sg := range f.Groups {
		if metav1.IsControlledBy(sg, f.Serving) {
			groups = append(groups, sg)
		}
	}
	slices.SortFunc(groups, func(a, b *v1alpha1.ServingGroup) int { return int(ordinal(a.Spec.Ordinal) - ordinal(b.Spec.Ordinal)) })
	return groups
}

func summary(ms *v1alpha1.ModelServing) string {
	s := ms.Status
	if ms.DeletionTimestamp != nil {
		return "is being deleted"
	}
	if s.ObservedGeneration == 0 {
		return "has not been taken up by a coordinator yet"
	}
	text := fmt.Sprintf("%d of %d groups are available", s.AvailableReplicas, replicas(ms))
	switch {
	case s.UpdateRevision == "":
	case s.UpdateRevision == s.CurrentRevision && s.UpdatedReplicas == s.Replicas:
		text += ", all at " + s.UpdateRevision
	default:
		text += fmt.Sprintf("; %d of %d are at the target %s and in no update", s.UpdatedReplicas, s.Replicas, s.UpdateRevision)
	}
	if ms.Spec.Paused {
		text += "; paused"
	}
	return text
}

func replicas(ms *v1alpha1.ModelServing) int32 {
	if ms.Spec.Replicas == nil {
		return 1
	}
	return *ms.Spec.Replicas
}

// telling reports whether a condition is worth a line: it says what is not as it should be, or not yet.
func telling(c metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.ConditionProgressing:
		return v1alpha1.ConditionReason(c.Reason) != v1alpha1.ProgressingComplete
	case v1alpha1.ConditionBlocked:
		return c.Status != metav1.ConditionFalse
	}
	return c.Status != metav1.ConditionTrue
}

// explained says what a condition means, and what would end it.
func explained(ms *v1alpha1.ModelServing, c metav1.Condition) Condition {
	e := Condition{
		Type: c.Type, Status: c.Status, Reason: v1alpha1.ConditionReason(c.Reason), Since: c.LastTransitionTime, Message: c.Message,
	}
	text, ok := ExplainCondition(e.Reason)
	if !ok {
		text = unknown(c.Reason)
	}
	e.Why, e.Way = text.Why, named(ms, text.Way)
	return e
}

// named puts the ModelServing's name where the handbook has NAME.
func named(ms *v1alpha1.ModelServing, way string) string {
	return strings.ReplaceAll(way, "NAME`", ms.Name+" -n "+ms.Namespace+"`")
}

func unknown(reason string) Text {
	return Text{"this plugin does not know the reason " + reason, "use the kubectl-pitstop of the coordinator's version"}
}

// blocked returns the condition Blocked if it is True.
func blocked(conditions []metav1.Condition) *metav1.Condition {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionBlocked)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

func ordinal(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
