package v1alpha1

// ConditionReason is the reason of a condition of a ModelServing or a ServingGroup. The list is
// closed.
type ConditionReason string

// UnitReason is one word for what an open update of a unit waits for, or why it failed. The list is
// closed.
type UnitReason string

// Reasons of the condition Available of a ModelServing.
const (
	// AvailableEnough: at least replicas less maxUnavailable ServingGroups are available.
	AvailableEnough ConditionReason = "EnoughGroups"
	// AvailableTooFew: fewer are.
	AvailableTooFew ConditionReason = "TooFewGroups"
)

// Reasons of the condition Progressing of a ModelServing.
const (
	// ProgressingRollout: units are being brought to the target. True.
	ProgressingRollout ConditionReason = "RollingOut"
	// ProgressingScale: ServingGroups or role instances are being created or removed. True.
	ProgressingScale ConditionReason = "Scaling"
	// ProgressingReady: what is declared exists; units are not ready yet. True.
	ProgressingReady ConditionReason = "WaitingForReady"
	// ProgressingPaused: units are outdated and spec.paused is set. False.
	ProgressingPaused ConditionReason = "Paused"
	// ProgressingPartition: all units outside the partition are at the target. False.
	ProgressingPartition ConditionReason = "PartitionReached"
	// ProgressingComplete: everything is as declared. False.
	ProgressingComplete ConditionReason = "Complete"
)

// Reasons of the condition Ready of a ServingGroup.
const (
	// GroupReady: all Pods of all instances are Ready.
	GroupReady ConditionReason = "AllPodsReady"
	// GroupNotReady: some are not; the message names one.
	GroupNotReady ConditionReason = "PodsNotReady"
)

// NotBlocked is the reason of the condition Blocked where it is False.
const NotBlocked ConditionReason = "NothingBlocks"

// Blocked: what stands in the way of a ModelServing or a ServingGroup, and does not pass by itself
// in the ordinary course.
const (
	// BlockedBudget: maxUnavailable and maxSurge both resolve to 0, so no unit may ever be updated.
	BlockedBudget ConditionReason = "BudgetZero"
	// BlockedUnavailable: units that are in no update are not available, and leave no budget.
	BlockedUnavailable ConditionReason = "BudgetSpentByFailures"
	// BlockedFailed: a unit failed at the target; no further unit is updated until the target
	// changes or the unit comes good.
	BlockedFailed ConditionReason = "UnitFailed"
	// BlockedRefused: attempts at the target were given up before the swap; the units serve as before.
	BlockedRefused ConditionReason = "UnitRefused"
	// BlockedNotInPlace: the method is InPlace, and what changed can only be had with new Pods.
	BlockedNotInPlace ConditionReason = "NotPossibleInPlace"
	// BlockedRejected: a unit failed at the target under onFailure Rollback.
	BlockedRejected ConditionReason = "RevisionRejected"
	// BlockedPin: the registry wants credentials for an image, and a pin Pod cannot bring it either.
	BlockedPin ConditionReason = "PinPodFailing"
	// BlockedRevision: a revision that units need is missing or cannot be read. Nothing of those
	// units is created or deleted.
	BlockedRevision ConditionReason = "RevisionUnresolved"
	// BlockedName: another owner has an object of the name that is needed.
	BlockedName ConditionReason = "NameTaken"
	// BlockedCreate: the API server refuses to create a Pod or Service; the message is its answer.
	BlockedCreate ConditionReason = "CreationRefused"
	// BlockedDelete: a Pod that was deleted does not go.
	BlockedDelete ConditionReason = "PodNotGoing"
	// BlockedDeadline: a stage takes longer than progressDeadlineSeconds.
	BlockedDeadline ConditionReason = "ProgressDeadlineExceeded"
	// BlockedGPU: a GPU of a unit is sick. The unit is kept out of traffic, or serves on where the budget does not
	// allow that.
	BlockedGPU ConditionReason = "GPUUnhealthy"
	// BlockedNode: the node of a Pod does not answer, so its Pod cannot be drained or replaced.
	BlockedNode ConditionReason = "NodeLost"
)

// What an open update of a unit waits for.
const (
	// UnitWaitingPrepare: an image is not on its node yet, or not proved.
	UnitWaitingPrepare UnitReason = "Preparing"
	// UnitWaitingAgent: the agent of a Pod's node has not answered yet.
	UnitWaitingAgent UnitReason = "AgentNotAnswering"
	// UnitWaitingPin: the registry wants credentials for an image; a pin Pod has kubelet bring it.
	UnitWaitingPin UnitReason = "PinPodPulling"
	// UnitPinFails: a pin Pod cannot bring an image; the message says why.
	UnitPinFails UnitReason = "PinPodFailing"
	// UnitWaitingSwap: containers of a Pod are being restarted.
	UnitWaitingSwap UnitReason = "Swapping"
	// UnitWaitingDrain: requests of a Pod have not ended.
	UnitWaitingDrain UnitReason = "Draining"
	// UnitWaitingDeletion: a Pod that was deleted has not gone yet.
	UnitWaitingDeletion UnitReason = "PodsTerminating"
	// UnitWaitingScheduling: a Pod has no node yet.
	UnitWaitingScheduling UnitReason = "PodsPending"
	// UnitWaitingReady: containers of a Pod are not ready yet.
	UnitWaitingReady UnitReason = "PodsNotReady"
	// UnitWaitingPermit: the stage is reached and the ModelServing controller has not yet
	// answered.
	UnitWaitingPermit UnitReason = "WaitingForPermit"
)

// Why an attempt was given up before the swap, where no agent says so.
const (
	// UnitPodLost: a Pod of the unit is gone or going.
	UnitPodLost UnitReason = "PodLost"
	// UnitAgentMissing: the node of a Pod has no live agent.
	UnitAgentMissing UnitReason = "AgentMissing"
	// UnitTooLong: a stage took longer than progressDeadlineSeconds.
	UnitTooLong UnitReason = "DeadlineExceeded"
	// UnitCancelled: a person took the attempt back.
	UnitCancelled UnitReason = "CancelledByUser"
)

// Reasons of the events that the coordinator writes on ModelServings and ServingGroups.
const (
	// EventRolloutStarted: units start to be brought to a new revision.
	EventRolloutStarted = "RolloutStarted"
	// EventRolloutComplete: all live units are at the target and available.
	EventRolloutComplete = "RolloutComplete"
	// EventUnitStarted: a unit is being taken out of service for an update.
	EventUnitStarted = "UnitUpdateStarted"
	// EventUnitDone: the update of a unit was closed.
	EventUnitDone = "UnitUpdateDone"
	// EventUnitFailed: a unit did not become ready at the target in time.
	EventUnitFailed = "UnitUpdateFailed"
	// EventUnitRefused: an attempt was given up before the swap.
	EventUnitRefused = "UnitUpdateRefused"
	// EventScaled: ServingGroups or role instances were created or removed.
	EventScaled = "Scaled"
	// EventBlocked: something stands in the way; the message is that of the condition.
	EventBlocked = "Blocked"
	// EventGPUHoldPlaced and EventGPUHoldRemoved: a unit was taken out of traffic for a sick GPU, or given back.
	EventGPUHoldPlaced  = "GPUHoldPlaced"
	EventGPUHoldRemoved = "GPUHoldRemoved"
	// EventDrainSkipped: Pods were deleted without a drain, as their node has no live agent.
	EventDrainSkipped = "DrainSkipped"
	// EventRecovering: Pods are created anew because one was lost or failed.
	EventRecovering = "Recovering"
	// EventRevisionUnresolved: a revision that units need is missing or cannot be read.
	EventRevisionUnresolved = "RevisionUnresolved"
)
