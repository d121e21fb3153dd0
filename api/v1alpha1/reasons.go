package v1alpha1

// Reason is one word of a closed list: why an update waits, was refused or failed. The stage
// tells the lists apart: Refused and Failed have their own, all other stages wait.
type Reason string

// Waiting: what the update waits for. None is final; each is judged again by a watch, a
// persisted timer or a relist.
const (
	// WaitingPermit: the coordinator has not yet permitted the next stage.
	WaitingPermit Reason = "NotPermitted"
	// WaitingPull: the image is being pulled; the message says how far it is.
	WaitingPull Reason = "PullingImage"
	// WaitingSlot: the node works on as many pulls as --parallel allows.
	WaitingSlot Reason = "SlotsTaken"
	// WaitingAcknowledge: kubelet has not yet answered the lowered gate with Ready=False.
	WaitingAcknowledge Reason = "NotAcknowledged"
	// WaitingPropagation: endpoints and routers are given the propagation delay.
	WaitingPropagation Reason = "Propagating"
	// WaitingDrain: requests are still running; the message says how many, or that it is unknown.
	WaitingDrain Reason = "Draining"
	// WaitingKubelet: the image is patched and kubelet has not yet started the new container.
	WaitingKubelet Reason = "KubeletRestarting"
	// WaitingLoad: the new container was started and is not ready yet.
	WaitingLoad Reason = "EngineLoading"
	// WaitingRestart: the new container, or one beside it, has ended, and kubelet starts it again.
	WaitingRestart Reason = "EngineRestarting"
	// WaitingReady: the gate is open and kubelet has not yet reported the Pod as Ready.
	WaitingReady Reason = "NotReady"
	// WaitingHeld: another holder keeps the Pod out of traffic; the message names it.
	WaitingHeld Reason = "HeldByOther"
	// WaitingSettle: kubelet or the device plugin restarted less than --settle ago.
	WaitingSettle Reason = "NodeSettling"
	// WaitingDevicePlugin: the device plugin of a resource that the Pod uses is not registered.
	WaitingDevicePlugin Reason = "DevicePluginMissing"
	// WaitingRegistry: the registry cannot be reached; the pull is tried again with back-off.
	WaitingRegistry Reason = "RegistryUnreachable"
	// WaitingUnauthorized: the registry wants credentials; a pin Pod has to bring the image.
	WaitingUnauthorized Reason = "PullUnauthorized"
	// WaitingDisk: the image file system has too little free space to pull without evicting.
	WaitingDisk Reason = "DiskLow"
	// WaitingJournal: the journal cannot be written, so nothing new is started.
	WaitingJournal Reason = "JournalNotWritable"
	// WaitingRuntime: the container runtime does not answer.
	WaitingRuntime Reason = "RuntimeUnavailable"
	// WaitingAPI: the API server does not take what the agent has to write; the message is its
	// answer.
	WaitingAPI Reason = "APIServerRefuses"
	// WaitingGPU: a GPU of the Pod is unhealthy.
	WaitingGPU Reason = "GPUUnhealthy"
	// WaitingDriver: the agent has let go of the GPU driver on request, so that nothing can be seen of the Pod's GPUs;
	// the message says until when.
	WaitingDriver Reason = "DriverReleased"
	// WaitingUnread: what the Pod's GPUs hold is not known yet; the message says why, and until when it is waited for.
	WaitingUnread Reason = "GPUsUnread"
	// WaitingRelease: memory of the containers before is still held on a GPU of the Pod; the message names the
	// holder.
	WaitingRelease Reason = "GPUMemoryHeld"
	// WaitingAgent: the node has no live agent.
	WaitingAgent Reason = "AgentMissing"
	// WaitingAgentTooOld: the node's agent is older than the order it was given.
	WaitingAgentTooOld Reason = "AgentTooOld"
)

// Refused: why this attempt was given up before the patch. The old container was not touched
// and the Pod serves as before.
const (
	// RefusedNoGate: the Pod has no readiness gate pitstop.dev/InService; gates cannot be added
	// to a live Pod.
	RefusedNoGate Reason = "NoReadinessGate"
	// RefusedNotRegular: a named container is missing from the Pod, or is an init container, a
	// sidecar or an ephemeral container.
	RefusedNotRegular Reason = "NotARegularContainer"
	// RefusedPullAlways: the container's pull policy is Always, so kubelet would go to the
	// registry after it has killed the old container.
	RefusedPullAlways Reason = "PullPolicyAlways"
	// RefusedRestartPolicy: the Pod's or the container's restart policy is not Always, so
	// kubelet would not start the new container.
	RefusedRestartPolicy Reason = "RestartPolicyNotAlways"
	// RefusedEnded: the Pod's phase is Failed or Succeeded; kubelet starts nothing in it any more.
	RefusedEnded Reason = "PodEnded"
	// RefusedNotFound: the registry has no such image.
	RefusedNotFound Reason = "ImageNotFound"
	// RefusedPlatform: the image is for another operating system or architecture.
	RefusedPlatform Reason = "WrongPlatform"
	// RefusedNeedsPinPod: the registry wants credentials, and only a ServingGroup has the pin
	// Pod that could bring them.
	RefusedNeedsPinPod Reason = "NeedsPinPod"
	// RefusedPatch: the API server forbids the patch of the Pod's images.
	RefusedPatch Reason = "PatchForbidden"
	// RefusedDeadline: a stage before the patch took longer than progressDeadlineSeconds.
	RefusedDeadline Reason = "DeadlineBeforeSwap"
	// RefusedForeign: the order is for a ServingGroup's Pod and was not given by the
	// coordinator, or claims to be.
	RefusedForeign Reason = "NotTheCoordinators"
	// RefusedNotOwned: the order names a Pod that its owner reference does not.
	RefusedNotOwned Reason = "NotOwnedByPod"
)

// Failed: why an update stopped after the patch. The Pod stays out of traffic until a new
// attempt, or a person, moves it.
const (
	// FailedCrashLooping: the new container crashed again and again.
	FailedCrashLooping Reason = "CrashLooping"
	// FailedStopStuck: the old container did not end, not even when it was killed.
	FailedStopStuck Reason = "StopStuck"
	// FailedImageRewritten: the API server stored another image than was asked for, and that
	// one is not proved.
	FailedImageRewritten Reason = "ImageRewritten"
	// FailedDeadline: a stage after the patch took longer than progressDeadlineSeconds.
	FailedDeadline Reason = "DeadlineExceeded"
	// FailedLeaked: after the release deadline a process that the Pod should be rid of still holds memory on a GPU;
	// the message names it.
	FailedLeaked Reason = "GPUMemoryLeaked"
	// FailedHeldByOther: after the release deadline memory of the containers before is still held on a GPU, though
	// their processes are gone; the message names the holder where it is known.
	FailedHeldByOther Reason = "GPUMemoryHeldByOther"
	// FailedMoved: the Pod has other GPUs than before the swap.
	FailedMoved Reason = "GPUsMoved"
	// FailedPod: the Pod's phase is Failed or Succeeded; kubelet starts nothing in it any more.
	FailedPod Reason = "PodFailed"
)

// Reasons of the events that the agent writes on the Pod.
const (
	// EventInService: the update is done.
	EventInService = "InPlaceUpdateInService"
	// EventRefused: the attempt was given up before the patch.
	EventRefused = "InPlaceUpdateRefused"
	// EventFailed: the update stopped after the patch.
	EventFailed = "InPlaceUpdateFailed"
	// EventCancelled: the update was taken back.
	EventCancelled = "InPlaceUpdateCancelled"
)

// Ends that are neither refusals nor failures.
const (
	// EndedCancelled: a newer attempt without containers took the update back before the patch.
	EndedCancelled Reason = "CancelledByUser"
	// EndedPodGone: the Pod was deleted, or another Pod has its name.
	EndedPodGone Reason = "PodGone"
	// EndedCancelTooLate: the cancel came after the patch, so the update went on to its end.
	EndedCancelTooLate Reason = "CancelTooLate"
	// EndedLateSuccess: the update missed its deadline and came good later.
	EndedLateSuccess Reason = "LateSuccess"
)
