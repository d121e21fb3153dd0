package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnitMethod says what an update of a unit does.
// +kubebuilder:validation:Enum=InPlace;Recreate;Remove
type UnitMethod string

// The methods of a unit's update.
const (
	// UnitInPlace proves the target's images, drains the unit's Pods, and has their containers restarted
	// with the new images.
	UnitInPlace UnitMethod = "InPlace"
	// UnitRecreate drains the unit's Pods, deletes them, and creates them at the target.
	UnitRecreate UnitMethod = "Recreate"
	// UnitRemove drains the unit's Pods; then the unit goes.
	UnitRemove UnitMethod = "Remove"
)

// FinalizerOrdinal keeps a ServingGroup until its last Pod is gone, and so reserves its ordinal.
const FinalizerOrdinal = "pitstop.dev/ordinal"

// ServingGroup is one serving unit of a ModelServing, and the durable home of the revisions that
// its parts are pinned to and of their updates. It is named `<modelserving>-<ordinal>` and made by
// the ModelServing controller; nobody else writes its spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sg,categories=pitstop
// +kubebuilder:printcolumn:name=Ordinal,type=integer,JSONPath=.spec.ordinal,priority=1
// +kubebuilder:printcolumn:name=Revision,type=string,JSONPath=.spec.revision
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=.status.conditions[?(@.type=="Ready")].status
// +kubebuilder:printcolumn:name=Pods,type=integer,JSONPath=.status.readyPods
// +kubebuilder:printcolumn:name=Stage,type=string,JSONPath=.status.updates[*].stage
// +kubebuilder:printcolumn:name=Blocked,type=string,JSONPath=.status.conditions[?(@.type=="Blocked")].reason
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
type ServingGroup struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata. Its controller is the ModelServing.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the ModelServing controller.
	// +required
	Spec ServingGroupSpec `json:"spec"`

	// status is written by the ServingGroup controller.
	// +optional
	Status ServingGroupStatus `json:"status,omitempty"`
}

// ServingGroupSpec says of what the group consists, at which revisions, and what may be done to it.
//
// +kubebuilder:validation:XValidation:rule="self.ordinal == oldSelf.ordinal",message="ordinal is immutable",fieldPath=".ordinal",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="(has(self.lastAttempt) ? self.lastAttempt : 0) >= (has(oldSelf.lastAttempt) ? oldSelf.lastAttempt : 0)",message="lastAttempt only grows",fieldPath=".lastAttempt"
type ServingGroupSpec struct {
	// ordinal is the group's place in its ModelServing, and the end of its name. Immutable.
	// +kubebuilder:validation:Minimum=0
	// +required
	Ordinal *int32 `json:"ordinal,omitempty"`

	// revision is the pin: the ControllerRevision that the group's Pods are created at.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision,omitempty"`

	// instances are the role instances that the group is to have. One that is taken from this list
	// keeps its name reserved until its last Pod is gone.
	// +kubebuilder:validation:MaxItems=8000
	// +listType=map
	// +listMapKey=role
	// +listMapKey=ordinal
	// +optional
	Instances []RoleInstance `json:"instances,omitempty"`

	// lastAttempt is the highest number that an attempt of any unit of the group has had. It only
	// grows.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LastAttempt int64 `json:"lastAttempt,omitempty"`

	// updates are the open updates by unit.
	// +kubebuilder:validation:MaxItems=8000
	// +listType=map
	// +listMapKey=unit
	// +optional
	Updates []UnitUpdate `json:"updates,omitempty"`

	// gpuHolds are the units that are kept out of traffic because a GPU of theirs is sick: their Pods get the
	// hold gpu-health. Written within the budget of the ModelServing, and removed when the GPUs are healthy.
	// +kubebuilder:validation:MaxItems=8000
	// +kubebuilder:validation:items:MaxLength=32
	// +listType=set
	// +optional
	GPUHolds []string `json:"gpuHolds,omitempty"`
}

// RoleInstance is an entry Pod and its workers.
type RoleInstance struct {
	// role is the name of the role.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=12
	// +required
	Role string `json:"role,omitempty"`

	// ordinal is the instance's place in its role.
	// +kubebuilder:validation:Minimum=0
	// +required
	Ordinal *int32 `json:"ordinal,omitempty"`

	// revision is the instance's own pin, where it differs from the group's. Absent: the group's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Revision string `json:"revision,omitempty"`
}

// UnitUpdate is an open update of one unit, and how far it may go.
type UnitUpdate struct {
	// unit is `<role>-<n>`, or empty for the whole group.
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=32
	// +required
	Unit string `json:"unit"`

	// attempt numbers the tries within the group.
	// +kubebuilder:validation:Minimum=1
	// +required
	Attempt int64 `json:"attempt,omitempty"`

	// method is what the update does. It is fixed for an attempt.
	// +required
	Method UnitMethod `json:"method,omitempty"`

	// target is the revision that the update leads to; absent with method Remove.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Target string `json:"target,omitempty"`

	// previous is the last revision at which the unit was in no update.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Previous string `json:"previous,omitempty"`

	// permit says how far the update may go: Prepare brings images to the nodes, Drain takes the Pods
	// out of traffic and waits for their requests, Swap changes or replaces them, Serve puts the unit in
	// service.
	// +required
	Permit Permit `json:"permit,omitempty"`

	// tries is how many attempts at the target were given up before the swap, one after the other.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Tries int32 `json:"tries,omitempty"`

	// swapped is whether an attempt of the open update was permitted to swap, so that Pods may be at
	// neither the pin nor the target.
	// +optional
	Swapped bool `json:"swapped,omitempty"`

	// notBefore is when the attempt begins, where the one before it was given up. Absent: at once.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// request is what a person asked for; absent where the attempt follows from the spec.
	// +optional
	Request *UnitRequest `json:"request,omitempty"`
}

// ServingGroupList is a list of ServingGroups.
//
// +kubebuilder:object:root=true
type ServingGroupList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ServingGroups.
	Items []ServingGroup `json:"items"`
}
