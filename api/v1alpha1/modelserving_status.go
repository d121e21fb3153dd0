package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a ModelServing.
const (
	// ConditionAvailable is True while no fewer ServingGroups are available than replicas less
	// maxUnavailable.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while the ModelServing moves towards what is declared; its
	// message names what is waited for.
	ConditionProgressing = "Progressing"
	// ConditionBlocked is True while something stands in the way that does not pass by itself in
	// the ordinary course. Its message names the unit, its stage, since when, and what clears it.
	ConditionBlocked = "Blocked"
)

// ModelServingStatus is what the ModelServing controller reports. updating, requests and collisionCount are
// also its own memory; everything else is derived from other objects.
type ModelServingStatus struct {
	// conditions are Available, Progressing and Blocked.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this report is about.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of ServingGroups that live, those that are being deleted included.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of ServingGroups of which all Pods are Ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of ServingGroups that have been ready for minReadySeconds,
	// are in no update and are not being deleted.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// updatedReplicas is the number of ServingGroups at updateRevision with no open update.
	// +kubebuilder:validation:Minimum=0
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// bookings counts the writes by which units were entered into updating. Each of them changes the object,
	// also where a unit was there already: whoever decided on what was before is refused.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Bookings int64 `json:"bookings,omitempty"`

	// rejectedRevision is a revision at which a unit failed under onFailure Rollback. While it is the
	// updateRevision, no unit is brought to it.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	RejectedRevision string `json:"rejectedRevision,omitempty"`

	// requests are the answers to what people asked for by annotations `pitstop.dev/do.<verb>`: the last of
	// each verb.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=verb
	// +optional
	Requests []RequestStatus `json:"requests,omitempty"`

	// currentRevision is the revision that all units had when the last rollout was complete: what
	// protected units are rebuilt at.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// updateRevision is the revision of the spec: the target of the rollout.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// updating is the ledger: the units that the controller took, or is about to take, out of
	// service, as `<servinggroup>` or `<servinggroup>/<role>-<n>`. A unit is entered before its
	// first write and struck out once a live read shows its update closed.
	// +kubebuilder:validation:MaxItems=20000
	// +kubebuilder:validation:items:MaxLength=340
	// +listType=set
	// +optional
	Updating []string `json:"updating,omitempty"`

	// selector selects one Pod of each ServingGroup, in the form of a label selector: what an
	// autoscaler counts and measures.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Selector string `json:"selector,omitempty"`

	// collisionCount salts the names of revisions after two different ones got the same name.
	// +kubebuilder:validation:Minimum=0
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
}
