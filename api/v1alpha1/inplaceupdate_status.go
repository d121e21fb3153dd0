package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InPlaceUpdateStatus is the agent's report on the attempt that it names.
type InPlaceUpdateStatus struct {
	// conditions are Complete and PlacementKept.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// attempt is the attempt that this report is about.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// stage is how far the attempt has gone.
	// +optional
	Stage Stage `json:"stage,omitempty"`

	// reason is one word of the closed lists: what is waited for, or why the attempt ended.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason Reason `json:"reason,omitempty"`

	// message is the reason in words, with the values and the way out.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// stageSince is when the attempt reached its stage.
	// +optional
	StageSince *metav1.MicroTime `json:"stageSince,omitempty"`

	// progressSince is what the progress deadline of the stage counts from: stageSince, or the end of the
	// latest wait for a permit or for a hold of somebody else, which no deadline bounds.
	// +optional
	ProgressSince *metav1.MicroTime `json:"progressSince,omitempty"`

	// containers hold the baseline and the outcome of every regular container of the Pod.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Containers []ContainerReport `json:"containers,omitempty"`

	// gpus hold what the Pod's GPUs held before and after.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=uuid
	// +optional
	GPUs []GPUReport `json:"gpus,omitempty"`

	// requestsCut is how many requests were still running when the drain timed out.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RequestsCut *int64 `json:"requestsCut,omitempty"`

	// timings are the durations of the steps, in milliseconds.
	// +optional
	Timings *Timings `json:"timings,omitempty"`
}

// ContainerReport is what one container was before the swap, what it is after it, and how
// often it was restarted in between.
type ContainerReport struct {
	// name is the container's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name,omitempty"`

	// before is the baseline, taken when the Pod was drained.
	// +optional
	Before *ContainerState `json:"before,omitempty"`

	// after is the container that was proved.
	// +optional
	After *ContainerState `json:"after,omitempty"`

	// planned counts the restarts that this update asked for: one, and another one where the first start failed
	// because memory of the container before was still held on a GPU.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Planned int32 `json:"planned,omitempty"`

	// crashes counts the restarts of a patched container beyond the planned ones.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Crashes int32 `json:"crashes,omitempty"`

	// peer counts the restarts of a container that this update did not patch.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Peer int32 `json:"peer,omitempty"`
}

// ContainerState identifies one container of the runtime.
type ContainerState struct {
	// image is the reference in the Pod's spec.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// imageID is the runtime's id of the image: the digest of its configuration.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ImageID string `json:"imageID,omitempty"`

	// containerID is the runtime's id of the container, without the runtime's name.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ContainerID string `json:"containerID,omitempty"`

	// restartCount is kubelet's count at that time.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RestartCount int32 `json:"restartCount,omitempty"`
}

// GPUReport is what one GPU held for the Pod before and after the swap.
type GPUReport struct {
	// uuid identifies the GPU or the MIG device. One that cannot be told has the id that kubelet has for it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +required
	UUID string `json:"uuid,omitempty"`

	// before is the memory held by the Pod before the swap, in MiB. Absent: unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Before *int64 `json:"before,omitempty"`

	// after is the memory held by the Pod after the swap, in MiB. Absent: unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	After *int64 `json:"after,omitempty"`

	// verdict says what became of the memory that was held before. Absent: not decided yet.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Verdict Verdict `json:"verdict,omitempty"`
}

// Verdict is one word of a closed list: what became, after the swap, of the memory that the Pod held on a GPU.
// The first four let the update go on; the others stop it, once the release deadline is over.
type Verdict string

// The verdicts.
const (
	// VerdictReleased: the memory was given back, and the Pod holds none.
	VerdictReleased Verdict = "Released"
	// VerdictReloaded: the memory was given back, and a new container holds memory on the same GPU.
	VerdictReloaded Verdict = "Reloaded"
	// VerdictRetained: a container that the update left alone kept its memory, and nothing else was left.
	VerdictRetained Verdict = "Retained"
	// VerdictUnknown: it could not be told.
	VerdictUnknown Verdict = "Unknown"
	// VerdictLeaked: a process that the Pod should be rid of still holds memory.
	VerdictLeaked Verdict = "Leaked"
	// VerdictHeldByOther: the Pod's own processes are gone, and their memory is held all the same.
	VerdictHeldByOther Verdict = "HeldByOther"
	// VerdictMoved: the Pod has other GPUs than before.
	VerdictMoved Verdict = "Moved"
)

// Timings are durations in milliseconds. Absent: not reached.
type Timings struct {
	// prepare is the time that pull and proof of the images took.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Prepare *int64 `json:"prepare,omitempty"`

	// drain is the time from the end of the propagation delay to the last request's end.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Drain *int64 `json:"drain,omitempty"`

	// stop is the time from the patch to the end of the last old container.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Stop *int64 `json:"stop,omitempty"`

	// start is the time from the end of the last old container to the start of the last new one.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Start *int64 `json:"start,omitempty"`

	// load is the time from the start of the last new container until all containers were ready.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Load *int64 `json:"load,omitempty"`

	// outOfService is the time from kubelet's acknowledgement that the Pod is not Ready until it
	// was Ready again.
	// +kubebuilder:validation:Minimum=0
	// +optional
	OutOfService *int64 `json:"outOfService,omitempty"`
}
