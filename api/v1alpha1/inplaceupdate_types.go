package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Permit says how far an update may go. Each permit includes those before it.
// +kubebuilder:validation:Enum=Prepare;Drain;Swap;Serve
type Permit string

// The permits, in their order.
const (
	// PermitPrepare: pull and prove the image; the Pod keeps serving.
	PermitPrepare Permit = "Prepare"
	// PermitDrain: take the Pod out of traffic and wait for its requests to end.
	PermitDrain Permit = "Drain"
	// PermitSwap: patch the images and prove the new containers.
	PermitSwap Permit = "Swap"
	// PermitServe: put the Pod back in service.
	PermitServe Permit = "Serve"
)

// OpenAt says when the Pod's gate may open.
// +kubebuilder:validation:Enum=Proved;Verified
type OpenAt string

// The moments at which a gate may open.
const (
	// OpenAtProved: as soon as the new containers are proved; ContainersReady keeps the Pod out
	// of traffic until its engine is up. For units of one Pod.
	OpenAtProved OpenAt = "Proved"
	// OpenAtVerified: when the Pod is verified and the permit is Serve. For units of several Pods.
	OpenAtVerified OpenAt = "Verified"
)

// DrainMode says how the end of a Pod's requests is proved.
// +kubebuilder:validation:Enum=EngineMetrics;Router;Delay
type DrainMode string

// The drain modes.
const (
	// DrainEngineMetrics: running and waiting requests, as the engine reports them, are 0 in
	// two scrapes.
	DrainEngineMetrics DrainMode = "EngineMetrics"
	// DrainRouter: the router in front of the Pod says that it has no request left in it (see
	// Draining), and so does the engine if it reports requests at all.
	DrainRouter DrainMode = "Router"
	// DrainDelay: the timeout is waited out.
	DrainDelay DrainMode = "Delay"
)

// Stage says how far an update has gone.
// +kubebuilder:validation:Enum=Pending;Preparing;Prepared;Draining;Drained;Swapping;Proved;Verified;InService;Failed;Refused;Cancelled
type Stage string

// The stages of an update. InService, Refused and Cancelled are ends; Failed is one unless a
// deadline was its reason and the Pod comes good later.
const (
	// StagePending: the attempt was seen and waits for something before its image can be pulled.
	StagePending Stage = "Pending"
	// StagePreparing: the image is being pulled and proved. The Pod serves.
	StagePreparing Stage = "Preparing"
	// StagePrepared: the image is on the node and proved. The Pod serves.
	StagePrepared Stage = "Prepared"
	// StageDraining: the gate is lowered; endpoints and requests are waited for.
	StageDraining Stage = "Draining"
	// StageDrained: no request is left, and containers[].before holds the baseline.
	StageDrained Stage = "Drained"
	// StageSwapping: the images are patched; kubelet replaces the containers.
	StageSwapping Stage = "Swapping"
	// StageProved: the new containers run what was asked for.
	StageProved Stage = "Proved"
	// StageVerified: proved, and all containers are ready.
	StageVerified Stage = "Verified"
	// StageInService: the Pod is Ready and in traffic; the update is closed.
	StageInService Stage = "InService"
	// StageFailed: the update stopped after the patch; the Pod is out of traffic.
	StageFailed Stage = "Failed"
	// StageRefused: the attempt was given up before the patch; the Pod serves as before.
	StageRefused Stage = "Refused"
	// StageCancelled: the update was taken back before the patch, or its Pod is gone.
	StageCancelled Stage = "Cancelled"
)

// Condition types of an InPlaceUpdate.
const (
	// ConditionComplete is True once the Pod is in service with what was asked for, False with
	// the reason while it is not or will not be.
	ConditionComplete = "Complete"
	// ConditionPlacementKept is False if the Pod's sandbox was rebuilt during the update: its IP
	// address and the state of its init containers are new.
	ConditionPlacementKept = "PlacementKept"
)

// InPlaceUpdate is the order to one node's agent about one Pod, and the agent's report. It has
// the name of its Pod and is owned by it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ipu,categories=pitstop
// +kubebuilder:selectablefield:JSONPath=.spec.nodeName
// +kubebuilder:printcolumn:name=Stage,type=string,JSONPath=.status.stage
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=.status.reason
// +kubebuilder:printcolumn:name=Image,type=string,JSONPath=.spec.containers[*].image
// +kubebuilder:printcolumn:name=Attempt,type=integer,JSONPath=.spec.attempt
// +kubebuilder:printcolumn:name=Out of service (ms),type=integer,JSONPath=.status.timings.outOfService
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
// +kubebuilder:printcolumn:name=Node,type=string,JSONPath=.spec.nodeName,priority=1
type InPlaceUpdate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the object's metadata. Its name is the Pod's name.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the order, written by the ServingGroup controller or by a person.
	// +required
	Spec InPlaceUpdateSpec `json:"spec"`

	// status is the report, written by the agent of the Pod's node.
	// +optional
	Status InPlaceUpdateStatus `json:"status,omitempty"`
}

// InPlaceUpdateSpec is the order. Within one attempt only permit changes, and only upward.
//
// +kubebuilder:validation:XValidation:rule="self.podUID == oldSelf.podUID",message="podUID is immutable: delete this InPlaceUpdate and make one for the new Pod",fieldPath=".podUID",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.nodeName == oldSelf.nodeName",message="nodeName is immutable: a Pod never moves to another node",fieldPath=".nodeName",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.servingGroupUID) == has(oldSelf.servingGroupUID) && (!has(self.servingGroupUID) || self.servingGroupUID == oldSelf.servingGroupUID)",message="servingGroupUID is immutable",fieldPath=".servingGroupUID",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.attempt >= oldSelf.attempt",message="attempt only grows: take the next number after the stored one",fieldPath=".attempt"
// +kubebuilder:validation:XValidation:rule="self.attempt != oldSelf.attempt || (has(self.containers) == has(oldSelf.containers) && (!has(self.containers) || self.containers == oldSelf.containers))",message="containers may change only with a higher attempt",fieldPath=".containers"
// +kubebuilder:validation:XValidation:rule="self.attempt != oldSelf.attempt || (has(self.revision) == has(oldSelf.revision) && (!has(self.revision) || self.revision == oldSelf.revision))",message="revision may change only with a higher attempt",fieldPath=".revision"
// +kubebuilder:validation:XValidation:rule="self.attempt != oldSelf.attempt || (has(self.roleDigest) == has(oldSelf.roleDigest) && (!has(self.roleDigest) || self.roleDigest == oldSelf.roleDigest))",message="roleDigest may change only with a higher attempt",fieldPath=".roleDigest"
// +kubebuilder:validation:XValidation:rule="self.attempt != oldSelf.attempt || (has(self.labels) == has(oldSelf.labels) && (!has(self.labels) || self.labels == oldSelf.labels))",message="labels may change only with a higher attempt",fieldPath=".labels"
// +kubebuilder:validation:XValidation:rule="self.attempt != oldSelf.attempt || (has(self.drain) == has(oldSelf.drain) && (!has(self.drain) || self.drain == oldSelf.drain))",message="drain may change only with a higher attempt",fieldPath=".drain"
// +kubebuilder:validation:XValidation:rule="self.attempt != oldSelf.attempt || self.openAt == oldSelf.openAt",message="openAt may change only with a higher attempt",fieldPath=".openAt"
// +kubebuilder:validation:XValidation:rule="self.attempt != oldSelf.attempt || (self.propagationSeconds == oldSelf.propagationSeconds && self.stopTimeoutSeconds == oldSelf.stopTimeoutSeconds && self.progressDeadlineSeconds == oldSelf.progressDeadlineSeconds)",message="propagationSeconds, stopTimeoutSeconds and progressDeadlineSeconds may change only with a higher attempt"
// +kubebuilder:validation:XValidation:rule="self.attempt != oldSelf.attempt || {'Prepare': 0, 'Drain': 1, 'Swap': 2, 'Serve': 3}[self.permit] >= {'Prepare': 0, 'Drain': 1, 'Swap': 2, 'Serve': 3}[oldSelf.permit]",message="permit only rises within an attempt (Prepare, Drain, Swap, Serve): to go back, raise attempt",fieldPath=".permit"
type InPlaceUpdateSpec struct {
	// podUID is the UID of the Pod that this order is about. Immutable. The agent ignores an
	// order whose podUID is not that of the live Pod.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	PodUID types.UID `json:"podUID,omitempty"`

	// nodeName is the node that the Pod runs on. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	NodeName string `json:"nodeName,omitempty"`

	// servingGroupUID is the UID of the ServingGroup that the Pod belongs to. Only the
	// coordinator may set it; absent for an order made by hand.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ServingGroupUID types.UID `json:"servingGroupUID,omitempty"`

	// attempt numbers the tries. It only grows; a higher number supersedes what is under way.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Attempt int64 `json:"attempt,omitempty"`

	// revision is what the Pod's label pitstop.dev/revision becomes with the opening write.
	// Absent: the label is not touched.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9_.\-]*[A-Za-z0-9])?$`
	// +optional
	Revision string `json:"revision,omitempty"`

	// roleDigest is what the Pod's annotation pitstop.dev/role-digest becomes with the opening write.
	// Absent: the annotation is not touched.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	RoleDigest string `json:"roleDigest,omitempty"`

	// labels are set on the Pod by the opening write. Their keys start with pitstop.dev/; an
	// empty value removes the label. Absent: no label is touched.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.startsWith('pitstop.dev/'))",message="only labels under pitstop.dev/ may be set"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 75 && k.substring(k.indexOf('/') + 1).matches('^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$'))",message="a label is pitstop.dev/ and 1 to 63 letters, digits, '-', '_' or '.', from a letter or digit to a letter or digit"
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// containers are the containers to change, by name, with their new images. Absent or empty:
	// no container is changed.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Containers []ContainerImage `json:"containers,omitempty"`

	// openAt says when the gate opens. Default Proved.
	// +kubebuilder:default=Proved
	// +optional
	OpenAt OpenAt `json:"openAt,omitempty"`

	// permit says how far the update may go. Within an attempt it only rises. Default Serve.
	// +kubebuilder:default=Serve
	// +optional
	Permit Permit `json:"permit,omitempty"`

	// drain says how running requests are waited for. Absent: they are not waited for beyond the
	// propagation delay.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// propagationSeconds is the time in seconds between kubelet's acknowledgement that the Pod is
	// not Ready and the drain, in which endpoints and routers follow. Default 3.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=3
	// +optional
	PropagationSeconds *int32 `json:"propagationSeconds,omitempty"`

	// stopTimeoutSeconds bounds the stop of an old container, in seconds from the patch on; then
	// it is killed. Default 30.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=30
	// +optional
	StopTimeoutSeconds *int32 `json:"stopTimeoutSeconds,omitempty"`

	// progressDeadlineSeconds bounds each stage that waits on the world, in seconds. Default 1800.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +kubebuilder:default=1800
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([A-Za-z0-9_.\-]*[A-Za-z0-9])?)?$`
type LabelValue string

// ContainerImage names a regular container of the Pod and the image that it is to run.
type ContainerImage struct {
	// name is the container's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// image is the reference to run: repository with tag, digest or both.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^((localhost|[A-Za-z0-9-]+([.][A-Za-z0-9-]+)+|[A-Za-z0-9-]+:[0-9]+|[[][0-9a-fA-F:]+[]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+|/)[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$')",message="must be an image reference: [HOST[:PORT]/]REPOSITORY[:TAG][@sha256:DIGEST], with the repository in lower case"
	// +required
	Image string `json:"image,omitempty"`
}

// Drain says how the end of the Pod's requests is proved.
type Drain struct {
	// mode is the proof that is asked for. Default EngineMetrics.
	// +kubebuilder:default=EngineMetrics
	// +optional
	Mode DrainMode `json:"mode,omitempty"`

	// timeoutSeconds bounds the drain, in seconds from the end of the propagation delay; then the
	// update goes on and reports how many requests were cut. With mode Delay it is the delay.
	// Default 300.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=300
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// InPlaceUpdateList is a list of InPlaceUpdates.
//
// +kubebuilder:object:root=true
type InPlaceUpdateList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the InPlaceUpdates.
	Items []InPlaceUpdate `json:"items"`
}
