package v1alpha1

import "time"

// GPUHealthy is the type of a condition of Pods and of Nodes. The agent of the node alone writes it, once it knows
// GPUs there: on the Node for all of them, on a gated Pod for those that it was given. Its reason is a GPUReason,
// and its message names the GPUs. Where the condition is missing nothing is known, as where it is Unknown.
const GPUHealthy = GroupName + "/GPUHealthy"

// AnnotationGPURelease is the annotation of a Node that asks the agent to let go of the GPU driver until the time
// that it says, as RFC 3339: an open handle keeps GPUs from being reset and their MIG mode from being changed. A
// time that is past when it is written, or more than MostGPURelease ahead, is ignored, and the Node's condition says so.
const AnnotationGPURelease = GroupName + "/gpu-release-until"

// MostGPURelease is how far ahead the time of AnnotationGPURelease may be.
const MostGPURelease = time.Hour

// LeastGPURelease is the shortest release that makes sense: an agent looks every 20 seconds whether one is asked for, and
// takes some to let go.
const LeastGPURelease = time.Minute

// GPUReason is the reason of a condition GPUHealthy. The list is closed.
type GPUReason string

// Reasons of a condition GPUHealthy that is True.
const (
	// GPUTrueHealthy: all GPUs that it is about were read, and nothing is wrong with them.
	GPUTrueHealthy GPUReason = "Healthy"
)

// Reasons of a condition GPUHealthy that is False. Where there are several, the first of this order is given.
const (
	// GPUFalseLost: a GPU does not answer any more. The agent holds its Pods out of traffic.
	GPUFalseLost GPUReason = "DeviceLost"
	// GPUFalseRecovery: the driver asks for an action, a reset for instance, before a GPU is used on.
	GPUFalseRecovery GPUReason = "RecoveryRequired"
	// GPUFalseXID: the driver reported an error after which a GPU or the node has to be reset.
	GPUFalseXID GPUReason = "FatalXID"
	// GPUFalseECC: memory errors that cannot be corrected keep coming.
	GPUFalseECC GPUReason = "UncorrectedECC"
	// GPUFalseRemap: a row of memory is broken and could not be replaced by a spare one.
	GPUFalseRemap GPUReason = "RowRemapFailed"
	// GPUFalseLink: an NVLink that was up is down.
	GPUFalseLink GPUReason = "NVLinkDown"
	// GPUFalseThermal: the hardware keeps the clocks low, to stay within heat or power.
	GPUFalseThermal GPUReason = "HardwareSlowdown"
)

// Reasons of a condition GPUHealthy that is Unknown. Nothing destructive follows from one.
const (
	// GPUUnknownUnread: GPUs could not be read.
	GPUUnknownUnread GPUReason = "NotReadable"
	// GPUUnknownReleased: the agent has let go of the driver on request.
	GPUUnknownReleased GPUReason = "DriverReleased"
	// GPUUnknownUnjudged: not enough readings have been taken since the agent started.
	GPUUnknownUnjudged GPUReason = "NotYetJudged"
	// GPUUnknownUnassigned: which GPUs the Pod was given could not be found out.
	GPUUnknownUnassigned GPUReason = "AssignmentUnknown"
)

// Reasons of the events that the agent writes about GPUs.
const (
	// EventGPUUnhealthy: GPUs of the Pod or node are unhealthy.
	EventGPUUnhealthy = "GPUUnhealthy"
	// EventGPUHealthy: they are healthy again.
	EventGPUHealthy = "GPUHealthy"
	// EventGPURelease: the annotation that asks for the release of the driver was followed, or was ignored.
	EventGPURelease = "GPUDriverRelease"
)
