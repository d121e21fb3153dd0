package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RecoveryPolicy says how much is created anew when a Pod is lost or failed.
// +kubebuilder:validation:Enum=RoleRecreate;ServingGroupRecreate;None
type RecoveryPolicy string

// The recovery policies.
const (
	// RecoverRole creates the Pod's role instance anew.
	RecoverRole RecoveryPolicy = "RoleRecreate"
	// RecoverServingGroup creates all Pods of the Pod's ServingGroup anew.
	RecoverServingGroup RecoveryPolicy = "ServingGroupRecreate"
	// RecoverNone creates only the missing Pod.
	RecoverNone RecoveryPolicy = "None"
)

// RolloutStrategyType says what one step of a rollout touches.
// +kubebuilder:validation:Enum=ServingGroupRollingUpdate;RoleRollingUpdate
type RolloutStrategyType string

// The rollout strategies.
const (
	// ServingGroupRollingUpdate updates one ServingGroup as a whole.
	ServingGroupRollingUpdate RolloutStrategyType = "ServingGroupRollingUpdate"
	// RoleRollingUpdate updates one role instance.
	RoleRollingUpdate RolloutStrategyType = "RoleRollingUpdate"
)

// UpdateMethod says how a unit gets to a new revision.
// +kubebuilder:validation:Enum=Recreate;InPlace
type UpdateMethod string

// The update methods.
const (
	// UpdateRecreate drains the unit's Pods, deletes them, and creates them anew.
	UpdateRecreate UpdateMethod = "Recreate"
	// UpdateInPlace proves the new images on the nodes while the unit serves, drains its Pods, and has
	// the changed containers restarted. The Pods stay. Only images of regular containers may change.
	UpdateInPlace UpdateMethod = "InPlace"
)

// OnFailure says what becomes of a unit that failed after its swap.
// +kubebuilder:validation:Enum=Hold;Rollback
type OnFailure string

// What may become of a unit that failed.
const (
	// FailureHold keeps the unit out of traffic until a new revision or a person moves it.
	FailureHold OnFailure = "Hold"
	// FailureRollback takes the unit back to its previous revision, in place, and starts no other unit
	// until the target changes.
	FailureRollback OnFailure = "Rollback"
)

// ModelServing declares a number of ServingGroups of one template.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=ms,categories=pitstop
// +kubebuilder:printcolumn:name=Replicas,type=integer,JSONPath=.spec.replicas
// +kubebuilder:printcolumn:name=Ready,type=integer,JSONPath=.status.readyReplicas
// +kubebuilder:printcolumn:name=Available,type=integer,JSONPath=.status.availableReplicas
// +kubebuilder:printcolumn:name=Updated,type=integer,JSONPath=.status.updatedReplicas
// +kubebuilder:printcolumn:name=Blocked,type=string,JSONPath=.status.conditions[?(@.type=="Blocked")].reason
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
// +kubebuilder:printcolumn:name=Revision,type=string,JSONPath=.status.updateRevision,priority=1
type ModelServing struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user declares.
	// +required
	Spec ModelServingSpec `json:"spec"`

	// status is written by the ModelServing controller.
	// +optional
	Status ModelServingStatus `json:"status,omitempty"`
}

// ModelServingSpec is what the user declares. A change of schedulerName or of what
// template.roles say of Pods makes a new revision; no other field does.
type ModelServingSpec struct {
	// replicas is the number of ServingGroups. May change at any time. Default 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20000
	// +kubebuilder:default=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// schedulerName is the scheduler of every Pod whose template names none. Versioned. Default
	// empty: the cluster's default scheduler.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// paused keeps new units from being updated; a unit under way goes on to its end. Scaling and
	// recovery go on. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// revisionHistoryLimit is the number of revisions kept beside those in use. Default 10.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// recoveryPolicy says how much is created anew when a Pod is lost or failed. Default
	// RoleRecreate.
	// +kubebuilder:default=RoleRecreate
	// +optional
	RecoveryPolicy RecoveryPolicy `json:"recoveryPolicy,omitempty"`

	// progressDeadlineSeconds bounds each stage of an update that waits on the world, in seconds
	// from the start of the stage. May change at any time. Default 1800.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +kubebuilder:default=1800
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// rolloutStrategy says how units are brought to a new revision.
	// +kubebuilder:default={}
	// +optional
	RolloutStrategy RolloutStrategy `json:"rolloutStrategy,omitempty"`

	// template is what every ServingGroup consists of.
	// +required
	Template ServingGroupTemplate `json:"template"`
}

// RolloutStrategy says how units are brought to a new revision. Nothing of it is versioned.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdateConfiguration) || self.type == 'ServingGroupRollingUpdate'",message="belongs to type ServingGroupRollingUpdate: with RoleRollingUpdate set maxUnavailable, maxSurge and partition on the roles",fieldPath=".rollingUpdateConfiguration",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailableGroups) || self.type == 'RoleRollingUpdate'",message="belongs to type RoleRollingUpdate: with ServingGroupRollingUpdate set rollingUpdateConfiguration.maxUnavailable",fieldPath=".maxUnavailableGroups",reason=FieldValueForbidden
type RolloutStrategy struct {
	// type is the unit of the rollout. Default ServingGroupRollingUpdate.
	// +kubebuilder:default=ServingGroupRollingUpdate
	// +optional
	Type RolloutStrategyType `json:"type,omitempty"`

	// updateMethod is how a unit gets to a new revision. Default Recreate.
	// +kubebuilder:default=Recreate
	// +optional
	UpdateMethod UpdateMethod `json:"updateMethod,omitempty"`

	// minReadySeconds is how long, in seconds, a unit has to be ready to count as available; an
	// updated unit keeps its place in the budget until then. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// rollingUpdateConfiguration is the budget of type ServingGroupRollingUpdate. Absent: one
	// ServingGroup after the other.
	// +optional
	RollingUpdateConfiguration *RollingUpdateConfiguration `json:"rollingUpdateConfiguration,omitempty"`

	// maxUnavailableGroups caps, with type RoleRollingUpdate, how many ServingGroups may have role
	// instances out of service for an update at one time. A percentage is of spec.replicas and
	// rounds down, to no less than one. Absent: every ServingGroup moves within its own roles'
	// budgets.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 1",message="must be 1 or more, or a percentage from 1% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	// +optional
	MaxUnavailableGroups *intstr.IntOrString `json:"maxUnavailableGroups,omitempty"`

	// inPlace are the settings of updateMethod InPlace.
	// +kubebuilder:default={}
	// +optional
	InPlace InPlace `json:"inPlace,omitempty"`

	// drain says how running requests are waited for, before an update and before every other
	// deletion by Pitstop. It needs an agent on the Pod's node.
	// +kubebuilder:default={}
	// +optional
	Drain Drain `json:"drain,omitempty"`
}

// InPlace are the settings of updateMethod InPlace. An attempt keeps those that it began with.
type InPlace struct {
	// propagationSeconds is the time in seconds between kubelet's acknowledgement that a Pod is not
	// Ready and its drain, in which endpoints and routers follow. Default 3.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=3
	// +optional
	PropagationSeconds *int32 `json:"propagationSeconds,omitempty"`

	// stopTimeoutSeconds bounds the stop of an old container, in seconds from the patch of its Pod on;
	// then it is killed. Default 30.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=30
	// +optional
	StopTimeoutSeconds *int32 `json:"stopTimeoutSeconds,omitempty"`

	// onFailure says what becomes of a unit that failed after its swap. Default Hold.
	// +kubebuilder:default=Hold
	// +optional
	OnFailure OnFailure `json:"onFailure,omitempty"`
}

// RollingUpdateConfiguration is the budget of a rollout over ServingGroups.
type RollingUpdateConfiguration struct {
	// maxUnavailable is how many ServingGroups fewer than replicas may be available. A percentage
	// is of spec.replicas and rounds down. Default 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must be 0 or more, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +kubebuilder:default=1
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many ServingGroups more than replicas may live during a rollout. A percentage
	// is of spec.replicas and rounds up. Default 0.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must be 0 or more, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +kubebuilder:default=0
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// partition keeps the ServingGroups with an ordinal below it at their revision. A percentage is
	// of spec.replicas and rounds up. Default 0.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must be 0 or more, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +kubebuilder:default=0
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
}

// ServingGroupTemplate is what every ServingGroup consists of.
type ServingGroupTemplate struct {
	// restartGracePeriodSeconds is how long, in seconds, a container that restarted may take to be
	// ready again before recovery acts. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +optional
	RestartGracePeriodSeconds int64 `json:"restartGracePeriodSeconds,omitempty"`

	// roles are the kinds of work in a ServingGroup.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +required
	Roles []Role `json:"roles,omitempty"`
}

// Role is one kind of work in a ServingGroup.
//
// +kubebuilder:validation:XValidation:rule="!has(self.workerReplicas) || self.workerReplicas == 0 || has(self.workerTemplate)",message="is required where workerReplicas is more than 0",fieldPath=".workerTemplate",reason=FieldValueRequired
type Role struct {
	// name is unique in the ServingGroup and a part of Pod names.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must start with a lower-case letter, end with a letter or digit, and hold only lower-case letters, digits and '-'"
	// +required
	Name string `json:"name,omitempty"`

	// front is whether requests enter the ServingGroup through this role. In an update in place such roles
	// are drained first, as the others still work for them. Default true.
	// +kubebuilder:default=true
	// +optional
	Front *bool `json:"front,omitempty"`

	// replicas is the number of instances. May change at any time. Default 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// workerReplicas is the number of worker Pods beside the entry Pod of each instance. Versioned.
	// Default 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	WorkerReplicas int32 `json:"workerReplicas,omitempty"`

	// maxUnavailable is how many instances fewer than replicas may be available in a rollout of
	// type RoleRollingUpdate, in each ServingGroup. A percentage is of replicas and rounds down.
	// Absent: 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must be 0 or more, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many instances more than replicas may live during a rollout of type
	// RoleRollingUpdate, in each ServingGroup. A percentage is of replicas and rounds up. Absent: 0.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must be 0 or more, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// partition keeps, in a rollout of type RoleRollingUpdate, the instances with an ordinal below
	// it at their revision. A percentage is of replicas and rounds up. Absent: 0.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must be 0 or more, or a percentage from 0% to 100%"
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// entryTemplate is the template of the entry Pod of each instance. Versioned.
	// +required
	EntryTemplate corev1.PodTemplateSpec `json:"entryTemplate"`

	// workerTemplate is the template of the worker Pods of each instance. Versioned.
	// +optional
	WorkerTemplate *corev1.PodTemplateSpec `json:"workerTemplate,omitempty"`
}

// ModelServingList is a list of ModelServings.
//
// +kubebuilder:object:root=true
type ModelServingList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ModelServings.
	Items []ModelServing `json:"items"`
}
