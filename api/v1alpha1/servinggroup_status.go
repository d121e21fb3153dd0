package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReady of a ServingGroup is True while all Pods of all its instances are Ready. A
// ServingGroup has the condition Blocked too.
const ConditionReady = "Ready"

// InstancePhase says what the ServingGroup controller does with a role instance.
// +kubebuilder:validation:Enum=Creating;Running;Recreating;Removing
type InstancePhase string

// The phases of a role instance.
const (
	// InstanceCreating: Pods of the instance are yet to be created for the first time.
	InstanceCreating InstancePhase = "Creating"
	// InstanceRunning: all Pods of the instance were created. One that is missing now was lost.
	InstanceRunning InstancePhase = "Running"
	// InstanceRecreating: the instance's Pods are being deleted, to be created anew.
	InstanceRecreating InstancePhase = "Recreating"
	// InstanceRemoving: the instance is no longer declared; its Pods are being deleted.
	InstanceRemoving InstancePhase = "Removing"
)

// UnitStage says how far the update of a unit has gone: as far as the last of its Pods.
// +kubebuilder:validation:Enum=Preparing;Prepared;Draining;Drained;Swapping;Verified;InService;Failed;Refused
type UnitStage string

// The stages of a unit's update. Failed is left when the unit comes good after all.
const (
	// UnitPreparing: images are being brought to the nodes and proved; the unit serves.
	UnitPreparing UnitStage = "Preparing"
	// UnitPrepared: every image is on its node, and proved; the unit serves.
	UnitPrepared UnitStage = "Prepared"
	// UnitDraining: Pods are being taken out of traffic; requests are waited for.
	UnitDraining UnitStage = "Draining"
	// UnitDrained: no Pod of the unit has a request left, or none can be drained.
	UnitDrained UnitStage = "Drained"
	// UnitSwapping: containers are restarted with the images of the target, or Pods deleted and created
	// there.
	UnitSwapping UnitStage = "Swapping"
	// UnitVerified: all Pods of the unit are at the target and ready but for their gate.
	UnitVerified UnitStage = "Verified"
	// UnitInService: all Pods of the unit are Ready.
	UnitInService UnitStage = "InService"
	// UnitFailed: the unit did not become ready in time.
	UnitFailed UnitStage = "Failed"
	// UnitRefused: the attempt cannot go on, and no Pod was changed by it.
	UnitRefused UnitStage = "Refused"
)

// ServingGroupStatus is what the ServingGroup controller reports. The phases of instances and the
// times are also its own memory.
type ServingGroupStatus struct {
	// conditions are Ready and Blocked.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this report is about.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// pods is the number of Pods that the group is to have.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// readyPods is the number of those that are Ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyPods int32 `json:"readyPods,omitempty"`

	// livePods is the number of Pods that exist, those included that are being deleted.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LivePods int32 `json:"livePods,omitempty"`

	// instances report on every role instance that is declared or has Pods.
	// +kubebuilder:validation:MaxItems=8000
	// +listType=map
	// +listMapKey=role
	// +listMapKey=ordinal
	// +optional
	Instances []InstanceStatus `json:"instances,omitempty"`

	// updates report on every open update.
	// +kubebuilder:validation:MaxItems=8000
	// +listType=map
	// +listMapKey=unit
	// +optional
	Updates []UnitUpdateStatus `json:"updates,omitempty"`

	// pinPods are the names of the Pods that have kubelet bring images of open updates in place to nodes, for
	// which the registry wants credentials.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	PinPods []string `json:"pinPods,omitempty"`
}

// InstanceStatus reports on one role instance.
type InstanceStatus struct {
	// role is the name of the role.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=12
	// +required
	Role string `json:"role,omitempty"`

	// ordinal is the instance's place in its role.
	// +kubebuilder:validation:Minimum=0
	// +required
	Ordinal *int32 `json:"ordinal,omitempty"`

	// phase is what the controller does with the instance.
	// +required
	Phase InstancePhase `json:"phase,omitempty"`

	// revision is that of the instance's Pods; absent where there is none or they differ.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Revision string `json:"revision,omitempty"`

	// pods is the number of Pods that the instance is to have.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// readyPods is the number of those that are Ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReadyPods int32 `json:"readyPods,omitempty"`

	// livePods is the number of Pods that exist, those included that are being deleted.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LivePods int32 `json:"livePods,omitempty"`

	// ready is whether all Pods of the instance are Ready at the instance's own pin, none is being
	// deleted, and the instance is in no update.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// readySince is when the last of the instance's Pods became Ready; absent while it is not ready.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`

	// downSince is since when the instance's entry Pod has not been Ready; absent while it is.
	// +optional
	DownSince *metav1.Time `json:"downSince,omitempty"`

	// deletionCost is the sum of the Pods' annotations controller.kubernetes.io/pod-deletion-cost.
	// +optional
	DeletionCost int64 `json:"deletionCost,omitempty"`

	// recoveries is how often the instance was created anew for having failed, one time soon after the
	// other: what fails again and again is given a pause that grows.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Recoveries int32 `json:"recoveries,omitempty"`

	// gpuFault names a Pod of the instance that has a sick GPU, and says what its agent reports of it; absent
	// where there is none.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	GPUFault string `json:"gpuFault,omitempty"`

	// message says why the instance is not ready.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// UnitUpdateStatus reports on one open update.
type UnitUpdateStatus struct {
	// unit is `<role>-<n>`, or empty for the whole group.
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=32
	// +required
	Unit string `json:"unit"`

	// attempt is the attempt that this report is about.
	// +kubebuilder:validation:Minimum=1
	// +required
	Attempt int64 `json:"attempt,omitempty"`

	// stage is how far the unit has gone: as far as the last of its Pods.
	// +required
	Stage UnitStage `json:"stage,omitempty"`

	// since is when the unit reached its stage.
	// +required
	Since metav1.Time `json:"since"`

	// outSince is since when a Pod of the unit has been out of traffic, or missing, in the update, over all of
	// its attempts; absent while the unit serves.
	// +optional
	OutSince *metav1.MicroTime `json:"outSince,omitempty"`

	// cleared is whether all Pods are gone that the unit had when it was to be created anew on request, so that
	// those that exist are new.
	// +optional
	Cleared bool `json:"cleared,omitempty"`

	// deadline is when what is waited for counts as overdue; absent where nothing hurries.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// reason is one word of a closed list: what is waited for, or why the unit failed or was refused.
	// Where the agent of a Pod says why, it is the agent's reason.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason UnitReason `json:"reason,omitempty"`

	// message is the reason in words, with the Pod and the way out.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}
