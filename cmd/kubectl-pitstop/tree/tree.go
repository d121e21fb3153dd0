// Package tree shows a ModelServing as it stands: its groups, their role instances, and the
// Pods of these, with what is under way and what is not as it should be. It is pure: Grow makes
// the tree of objects that were read before, Text writes it for people, and its JSON form is
// part of the plugin's contract (docs/api.md).
package tree

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/pins"
)

// Objects are what a tree is made of, as read at Now. Groups, Pods and Orders may hold objects of
// other ModelServings: ownership by UID decides which belong to this one.
type Objects struct {
	Serving *v1alpha1.ModelServing
	Groups  []*v1alpha1.ServingGroup
	Pods    []*corev1.Pod
	Orders  []*v1alpha1.InPlaceUpdate
	// Pins tell which revisions make the same Pods; nil: only their names tell.
	Pins pins.Pins
	Now  time.Time
}

// A Mark says whether something is as it should be.
type Mark string

// The marks. That of a parent is the worst of its own and its children's.
const (
	// Fine: as it should be.
	Fine Mark = ""
	// UnderWay: in an update, or being created or removed.
	UnderWay Mark = "UnderWay"
	// Wrong: not as it should be, and nothing that is under way explains it.
	Wrong Mark = "Wrong"
)

// A Tree is a ModelServing with everything that belongs to it.
type Tree struct {
	Namespace    string      `json:"namespace"`
	ModelServing string      `json:"modelServing"`
	Now          metav1.Time `json:"now"`
	Mark         Mark        `json:"mark,omitempty"`
	Paused       bool        `json:"paused"`
	// Observed: the status, and with it target, current and conditions, is about the spec as it is.
	Observed bool `json:"observed"`
	// Target is the revision being rolled to, Current the one that all units had when the last
	// rollout was complete.
	Target     string             `json:"target,omitempty"`
	Current    string             `json:"current,omitempty"`
	Replicas   Replicas           `json:"replicas"`
	Conditions []metav1.Condition `json:"conditions"`
	// Updating are the units that are out of service for an update, or about to be.
	Updating []string `json:"updating"`
	Groups   []Group  `json:"groups"`
	// Foreign are Pods with the labels of this ModelServing that belong to none of its groups.
	Foreign []string `json:"foreign,omitempty"`
}

// Replicas count ServingGroups.
type Replicas struct {
	Declared  int32 `json:"declared"`
	Live      int32 `json:"live"`
	Ready     int32 `json:"ready"`
	Available int32 `json:"available"`
	Updated   int32 `json:"updated"`
}

// A Unit is what a group and a role instance have in common.
type Unit struct {
	Name string `json:"name"`
	Mark Mark   `json:"mark,omitempty"`
	// Revision is the pin: what the unit's Pods are created at.
	Revision string `json:"revision"`
	// Outdated: the target makes other Pods of the unit than the pin.
	Outdated bool `json:"outdated"`
	// ReadyPods are Ready, of ExpectedPods that the unit is to have.
	ReadyPods    int32 `json:"readyPods"`
	ExpectedPods int32 `json:"expectedPods"`
	// State says in a few words what is under way or wrong; empty if nothing is.
	State string `json:"state,omitempty"`
	// Message is what the controller says about it.
	Message string  `json:"message,omitempty"`
	Update  *Update `json:"update,omitempty"`
}

// A Group is a ServingGroup.
type Group struct {
	Unit      `json:",inline"`
	Ordinal   int32      `json:"ordinal"`
	Deleting  bool       `json:"deleting,omitempty"`
	Instances []Instance `json:"instances"`
}

// An Instance is a role instance. Its unit's name is `<role>-<ordinal>`.
type Instance struct {
	Unit    `json:",inline"`
	Role    string                 `json:"role"`
	Ordinal int32                  `json:"ordinal"`
	Phase   v1alpha1.InstancePhase `json:"phase,omitempty"`
	Pods    []Pod                  `json:"pods"`
}

// An Update is an open update of a unit.
type Update struct {
	Attempt int64               `json:"attempt"`
	Method  v1alpha1.UnitMethod `json:"method"`
	Target  string              `json:"target,omitempty"`
	Permit  v1alpha1.Permit     `json:"permit"`
	// Stage is empty while the attempt has not been taken up.
	Stage  v1alpha1.UnitStage  `json:"stage,omitempty"`
	Since  *metav1.Time        `json:"since,omitempty"`
	Reason v1alpha1.UnitReason `json:"reason,omitempty"`
}

// A Pod is a Pod that a role instance has, or lacks.
type Pod struct {
	Name     string `json:"name"`
	Mark     Mark   `json:"mark,omitempty"`
	Index    int32  `json:"index"`
	Missing  bool   `json:"missing,omitempty"`
	Revision string `json:"revision,omitempty"`
	Node     string `json:"node,omitempty"`
	Ready    bool   `json:"ready"`
	Deleting bool   `json:"deleting,omitempty"`
	// State says in a few words why the Pod is not in service; empty if it is.
	State string `json:"state,omitempty"`
	// Stage is that of the Pod's own order to the agent, if it has one.
	Stage v1alpha1.Stage `json:"stage,omitempty"`
	// Holds are the holders that keep the Pod out of traffic.
	Holds []string `json:"holds,omitempty"`
}

// Grow makes the tree.
func Grow(o Objects) Tree {
	ms := o.Serving
	t := Tree{
		Namespace: ms.Namespace, ModelServing: ms.Name, Now: metav1.NewTime(o.Now),
		Paused:   ms.Spec.Paused,
		Observed: ms.Status.ObservedGeneration == ms.Generation,
		Target:   ms.Status.UpdateRevision, Current: ms.Status.CurrentRevision,
		Replicas: Replicas{
			Declared: declared(ms), Live: ms.Status.Replicas, Ready: ms.Status.ReadyReplicas,
			Available: ms.Status.AvailableReplicas, Updated: ms.Status.UpdatedReplicas,
		},
		Conditions: slices.Concat([]metav1.Condition{}, ms.Status.Conditions),
		Updating:   slices.Concat([]string{}, ms.Status.Updating),
		Groups:     []Group{},
	}
	slices.Sort(t.Updating)
	slices.SortFunc(t.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	g := newGrower(o)
	for _, sg := range o.Groups {
		if !metav1.IsControlledBy(sg, ms) {
			continue
		}
		group := g.group(sg)
		t.Mark = worse(t.Mark, group.Mark)
		t.Groups = append(t.Groups, group)
	}
	slices.SortFunc(t.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.Name, b.Name))
	})
	for _, c := range t.Conditions {
		if c.Type == v1alpha1.ConditionBlocked && c.Status == metav1.ConditionTrue {
			t.Mark = Wrong
		}
	}
	t.Foreign = g.foreign(t.Groups)
	return t
}

func declared(ms *v1alpha1.ModelServing) int32 {
	if ms.Spec.Replicas == nil {
		return 1
	}
	return *ms.Spec.Replicas
}

func worse(a, b Mark) Mark {
	switch {
	case a == Wrong || b == Wrong:
		return Wrong
	case a == UnderWay || b == UnderWay:
		return UnderWay
	}
	return Fine
}
