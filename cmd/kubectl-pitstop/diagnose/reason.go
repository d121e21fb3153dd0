package diagnose

import (
	"fmt"
	"strings"

	"pitstop.dev/api/v1alpha1"
)

// A Text explains one reason of the closed lists.
type Text struct {
	// Why says what is waited for, or what happened.
	Why string
	// Way says what would end it, and what a person can do.
	Way string
}

// Explain returns the text of a reason. It is false for a word that is in none of the closed
// lists of this version.
func Explain(r v1alpha1.Reason) (Text, bool) {
	var t Text
	switch r {
	case v1alpha1.WaitingPermit:
		t = Text{
			"the coordinator has not yet permitted the next stage",
			"the other Pods of the unit reach this stage, or the budget (maxUnavailable) has a free slot; see the ServingGroup's status",
		}
	case v1alpha1.WaitingPull:
		t = Text{
			"the new image is being pulled while the old container serves",
			"the pull ends; one without progress lets others go ahead and goes on",
		}
	case v1alpha1.WaitingSlot:
		t = Text{
			"the node already works on as many pulls as the agent's --parallel allows",
			"one of them ends; raise --parallel if the node's network and disk can take more",
		}
	case v1alpha1.WaitingAcknowledge:
		t = Text{
			"the readiness gate is lowered and kubelet has not yet answered with Ready=False",
			"kubelet's next sync of the Pod, usually within a second; if it lasts, look at kubelet on the node",
		}
	case v1alpha1.WaitingPropagation:
		t = Text{
			"endpoints, proxies and routers are given time to stop sending requests here",
			"the propagation delay (propagationSeconds) runs out",
		}
	case v1alpha1.WaitingDrain:
		t = Text{
			"requests are still running in the engine, or their number is unknown, or the router has not answered",
			"the last request ends, or the drain timeout comes and cuts what is left; an engine without metrics wants --drain Router, or Delay",
		}
	case v1alpha1.WaitingKubelet:
		t = Text{
			"the image is patched and kubelet has not yet started the new container",
			"the old container ends (it is killed after stopTimeoutSeconds) and kubelet starts the new one; after quick changes back and forth kubelet waits out its crash back-off",
		}
	case v1alpha1.WaitingLoad:
		t = Text{
			"the new container was started, and is not ready yet",
			"the engine has loaded its weights; if it lasts, read the container's log, with --previous where it does not run just now",
		}
	case v1alpha1.WaitingRestart:
		t = Text{
			"the new container, or one beside it, has ended, and kubelet starts it again",
			"kubelet's back-off after a crash runs out (10 s, then 20 s, up to 5 min) and the engine comes up; why it ended says its log: `kubectl logs POD -c CONTAINER --previous`",
		}
	case v1alpha1.WaitingReady:
		t = Text{
			"the gate is open and kubelet has not yet reported the Pod as Ready",
			"kubelet's next sync of the Pod, usually within two seconds; other readiness gates of the Pod count too",
		}
	case v1alpha1.WaitingHeld:
		t = Text{
			"the update is done, and another holder keeps the Pod out of traffic",
			"the holder lets go: `kubectl pitstop release POD --holder NAME` for an operator's hold",
		}
	case v1alpha1.WaitingSettle:
		t = Text{
			"kubelet or the device plugin restarted a short while ago, and a Pod with devices that restarts now could lose them",
			"the agent's --settle time runs out (120 s after the restart)",
		}
	case v1alpha1.WaitingDevicePlugin:
		t = Text{
			"the device plugin of a resource that the Pod uses is not registered, so kubelet could not start the new container",
			"the device plugin's Pod on the node runs again",
		}
	case v1alpha1.WaitingRegistry:
		t = Text{
			"the registry cannot be reached from the node; the old container serves",
			"the registry answers again: the pull is tried anew with back-off",
		}
	case v1alpha1.WaitingUnauthorized:
		t = Text{
			"the registry wants credentials for the image, and the agent reads no Secrets",
			"the pin Pod on the node brings the image with the Pod's pull secrets, or someone preloads it there",
		}
	case v1alpha1.WaitingDisk:
		t = Text{
			"the node's image file system has too little free space to pull without evictions",
			"space is freed: remove unused images or enlarge the file system",
		}
	case v1alpha1.WaitingJournal:
		t = Text{
			"the agent's journal on the node cannot be written, so nothing new is started",
			"the disk under the journal's hostPath has space and is writable, or the agent is upgraded if a newer one wrote it; see /readyz of the agent",
		}
	case v1alpha1.WaitingRuntime:
		t = Text{
			"the node's container runtime does not answer",
			"the runtime is back: look at containerd or CRI-O on the node",
		}
	case v1alpha1.WaitingAPI:
		t = Text{
			"the API server does not take what the agent has to write",
			"the message is its answer: bring the webhook or policy that it names back, or the API server itself; the agent tries again by itself",
		}
	case v1alpha1.WaitingGPU:
		t = Text{
			"a GPU of the Pod is unhealthy, and a new engine would not come up on it",
			"the GPU recovers or is reset; see the Pod condition pitstop.dev/GPUHealthy",
		}
	case v1alpha1.WaitingDriver:
		t = Text{
			"the agent has let go of the GPU driver, because somebody asked for it with `kubectl pitstop gpu release`; nobody could tell what became of the engine's memory, and whoever asked wants the GPUs idle",
			"the time that was given is over, or `kubectl pitstop gpu release NODE --end`",
		}
	case v1alpha1.WaitingUnread:
		t = Text{
			"what the Pod's GPUs hold is not known yet; without it nobody can tell afterwards whether their memory was given back",
			"the GPUs can be read: see `kubectl pitstop node NODE` and the log of the agent; else the update goes on without it after two minutes, or 10 s where the Pod is out of traffic already, and the verdict on the GPUs is Unknown",
		}
	case v1alpha1.WaitingRelease:
		t = Text{
			"memory of the containers before the swap is still held on a GPU of the Pod",
			"the process that the message names ends and the driver gives its memory back; at the release deadline (the agent's --gpu-release-deadline) the update fails",
		}
	case v1alpha1.WaitingAgent:
		t = Text{
			"the Pod's node has no live agent",
			"the agent's Pod on the node runs again: `kubectl -n pitstop-system get pods -o wide`",
		}
	case v1alpha1.WaitingAgentTooOld:
		t = Text{
			"the node's agent is older than the order it was given",
			"the DaemonSet brings the new agent to the node",
		}
	case v1alpha1.RefusedNoGate:
		t = Text{
			"the Pod has no readiness gate pitstop.dev/InService and cannot be taken out of traffic",
			"add the gate to the Pod's template and recreate it once: gates cannot be added to a live Pod",
		}
	case v1alpha1.RefusedNotRegular:
		t = Text{
			"a named container is not in the Pod, or is an init container, a sidecar or an ephemeral container",
			"order the update for a regular container; others need a new Pod",
		}
	case v1alpha1.RefusedPullAlways:
		t = Text{
			"the container's imagePullPolicy is Always: kubelet would kill the old container and only then ask the registry",
			"set IfNotPresent in the template and recreate the Pod once",
		}
	case v1alpha1.RefusedRestartPolicy:
		t = Text{
			"the restart policy of the Pod or the container is not Always, so kubelet would not start the new container",
			"only what always restarts can be updated in place; recreate the Pod instead",
		}
	case v1alpha1.RefusedEnded:
		t = Text{
			"the Pod has ended, and kubelet starts nothing in it any more",
			"recreate the Pod",
		}
	case v1alpha1.RefusedNotFound:
		t = Text{
			"the registry has no such image",
			"push the image or correct the tag, then order the update again",
		}
	case v1alpha1.RefusedPlatform:
		t = Text{
			"the image is for another operating system or architecture than the node's",
			"push the image for the node's platform, then order the update again",
		}
	case v1alpha1.RefusedNeedsPinPod:
		t = Text{
			"the registry wants credentials, and an order made by hand has no pin Pod to bring the image",
			"preload the image on the node (a short Pod that uses it with the right pull secret will do), then order the update again",
		}
	case v1alpha1.RefusedPatch:
		t = Text{
			"the API server forbids the patch of the Pod's images",
			"the message names the policy or webhook; once it permits the patch, order the update again",
		}
	case v1alpha1.RefusedDeadline:
		t = Text{
			"a stage before the patch took longer than progressDeadlineSeconds",
			"remove what the message says it waited for, then order the update again, perhaps with a longer --deadline",
		}
	case v1alpha1.RefusedForeign:
		t = Text{
			"the order is for a Pod of a ServingGroup and not from the coordinator, or claims to be and is not",
			"change the template of the ModelServing; the coordinator gives the orders",
		}
	case v1alpha1.RefusedNotOwned:
		t = Text{
			"the order is not owned by the Pod that it names",
			"delete the InPlaceUpdate and order with `kubectl pitstop update`",
		}
	case v1alpha1.FailedCrashLooping:
		t = Text{
			"the new container crashed again and again",
			"read its log (`kubectl logs POD -c CONTAINER --previous`) and update to an image that runs, the old one for instance",
		}
	case v1alpha1.FailedStopStuck:
		t = Text{
			"the old container did not end, not even when it was killed",
			"a process of it hangs in the kernel, often in a GPU driver: look at the node; drain and reboot it if it stays",
		}
	case v1alpha1.FailedImageRewritten:
		t = Text{
			"the API server stored another image than was asked for, and that one is not proved",
			"find the webhook that rewrites images and order the image that it makes of this one",
		}
	case v1alpha1.FailedDeadline:
		t = Text{
			"a stage after the patch took longer than progressDeadlineSeconds",
			"if the engine comes up after all, the update ends as a late success; otherwise update to another image",
		}
	case v1alpha1.FailedLeaked:
		t = Text{
			"a process that the Pod should be rid of still held memory on a GPU at the release deadline",
			"end the process that the message names, on its node; once the memory is free and the engine ready, the update ends as a late success. One that does not exist any more, or cannot be ended, wants a reset of the GPU: " + resetGPU,
		}
	case v1alpha1.FailedHeldByOther:
		t = Text{
			"memory of the containers before was still held on a GPU at the release deadline, though their processes are gone",
			"end the holder that the message names, or update its Pod: it imported the memory, or came in between; once the memory is free and the engine ready, the update ends as a late success. Where the holder does not exist any more, or nobody holds it, the GPU wants a reset: " + resetGPU,
		}
	case v1alpha1.FailedMoved:
		t = Text{
			"kubelet gave the Pod other GPUs than it had before the swap",
			"look at the device plugin and at kubelet on the node, then recreate the Pod",
		}
	case v1alpha1.FailedPod:
		t = Text{
			"the Pod has ended (phase Failed or Succeeded); kubelet starts nothing in it any more",
			"recreate the Pod",
		}
	case v1alpha1.EndedCancelled:
		t = Text{
			"the update was taken back before the patch; the old container was not touched",
			"nothing: a new update may be ordered at any time",
		}
	case v1alpha1.EndedPodGone:
		t = Text{
			"the Pod was deleted, or another Pod has its name",
			"nothing: order an update for the new Pod if it needs one",
		}
	case v1alpha1.EndedCancelTooLate:
		t = Text{
			"the cancel came after the patch, so the update went on to its end",
			"to go back, update to the old image",
		}
	case v1alpha1.EndedLateSuccess:
		t = Text{
			"the update missed its deadline and came good later",
			"nothing; a longer --deadline would suit this engine",
		}
	}
	return t, t != (Text{})
}

// A Kind says which of the closed lists a reason is from.
type Kind string

// The closed lists.
const (
	// Unlisted is a reason that this version does not know.
	Unlisted Kind = ""
	// Waiting reasons end by themselves or by someone's help.
	Waiting Kind = "Waiting"
	// Refused reasons end an attempt before the patch.
	Refused Kind = "Refused"
	// Failed reasons stop an update after the patch.
	Failed Kind = "Failed"
	// Ended reasons are neither refusals nor failures.
	Ended Kind = "Ended"
)

// KindOf returns the list that a reason is from.
func KindOf(r v1alpha1.Reason) Kind {
	switch r {
	case v1alpha1.WaitingPermit,
		v1alpha1.WaitingPull,
		v1alpha1.WaitingSlot,
		v1alpha1.WaitingAcknowledge,
		v1alpha1.WaitingPropagation,
		v1alpha1.WaitingDrain,
		v1alpha1.WaitingKubelet,
		v1alpha1.WaitingLoad,
		v1alpha1.WaitingRestart,
		v1alpha1.WaitingReady,
		v1alpha1.WaitingHeld,
		v1alpha1.WaitingSettle,
		v1alpha1.WaitingDevicePlugin,
		v1alpha1.WaitingRegistry,
		v1alpha1.WaitingUnauthorized,
		v1alpha1.WaitingDisk,
		v1alpha1.WaitingJournal,
		v1alpha1.WaitingRuntime,
		v1alpha1.WaitingAPI,
		v1alpha1.WaitingGPU,
		v1alpha1.WaitingDriver,
		v1alpha1.WaitingUnread,
		v1alpha1.WaitingRelease,
		v1alpha1.WaitingAgent,
		v1alpha1.WaitingAgentTooOld:
		return Waiting
	case v1alpha1.RefusedNoGate,
		v1alpha1.RefusedNotRegular,
		v1alpha1.RefusedPullAlways,
		v1alpha1.RefusedRestartPolicy,
		v1alpha1.RefusedEnded,
		v1alpha1.RefusedNotFound,
		v1alpha1.RefusedPlatform,
		v1alpha1.RefusedNeedsPinPod,
		v1alpha1.RefusedPatch,
		v1alpha1.RefusedDeadline,
		v1alpha1.RefusedForeign,
		v1alpha1.RefusedNotOwned:
		return Refused
	case v1alpha1.FailedCrashLooping,
		v1alpha1.FailedStopStuck,
		v1alpha1.FailedImageRewritten,
		v1alpha1.FailedDeadline,
		v1alpha1.FailedLeaked,
		v1alpha1.FailedHeldByOther,
		v1alpha1.FailedMoved,
		v1alpha1.FailedPod:
		return Failed
	case v1alpha1.EndedCancelled,
		v1alpha1.EndedPodGone,
		v1alpha1.EndedCancelTooLate,
		v1alpha1.EndedLateSuccess:
		return Ended
	}
	return Unlisted
}

// Handbook returns the reasons as a Markdown table, in the order given.
func Handbook(reasons []v1alpha1.Reason) string {
	var b strings.Builder
	b.WriteString("| kind | reason | what it means | what ends it, what to do |\n| --- | --- | --- | --- |\n")
	for _, r := range reasons {
		text, _ := Explain(r)
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", KindOf(r), r, text.Why, text.Way)
	}
	return b.String()
}
