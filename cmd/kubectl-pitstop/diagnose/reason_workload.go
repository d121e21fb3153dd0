package diagnose

import (
	"fmt"
	"strings"

	"pitstop.dev/api/v1alpha1"
)

// ExplainCondition returns the text of a condition's reason. It is false for a word that is not
// in the closed list of this version.
func ExplainCondition(r v1alpha1.ConditionReason) (Text, bool) {
	var t Text
	switch r {
	case v1alpha1.AvailableEnough:
		t = Text{
			"no fewer ServingGroups are available than replicas less maxUnavailable",
			"nothing",
		}
	case v1alpha1.AvailableTooFew:
		t = Text{
			"fewer ServingGroups are available than replicas less maxUnavailable; what Pitstop takes out of service itself does not lead here",
			"the groups that are not ready come back: `kubectl pitstop explain modelserving/NAME` names them and what each waits for",
		}
	case v1alpha1.ProgressingRollout:
		t = Text{
			"units are being brought to the target revision, as many at a time as the budget allows",
			"the last unit outside the partition is at the target and available; `kubectl pitstop pause NAME` stops new ones from being started",
		}
	case v1alpha1.ProgressingScale:
		t = Text{
			"ServingGroups or role instances are being created or removed",
			"those to be created are ready, and the Pods of those to be removed have drained and gone",
		}
	case v1alpha1.ProgressingReady:
		t = Text{
			"everything that is declared exists, and some of it is not ready yet",
			"the engines have loaded; if it lasts, the message names a unit: see `kubectl pitstop explain POD` for its Pods",
		}
	case v1alpha1.ProgressingPaused:
		t = Text{
			"units are outdated, and spec.paused keeps them from being started; those under way go on to their end",
			"`kubectl pitstop resume NAME`",
		}
	case v1alpha1.ProgressingPartition:
		t = Text{
			"every unit outside the partition is at the target; those with an ordinal below it keep their revision on purpose",
			"a lower partition lets them follow",
		}
	case v1alpha1.ProgressingComplete:
		t = Text{
			"everything is as declared",
			"nothing",
		}
	case v1alpha1.GroupReady:
		t = Text{
			"all Pods of all role instances of the ServingGroup are Ready",
			"nothing",
		}
	case v1alpha1.GroupNotReady:
		t = Text{
			"some Pods of the ServingGroup are not Ready; the message names one",
			"the Pods become Ready: `kubectl pitstop explain POD` says what keeps one from it",
		}
	case v1alpha1.NotBlocked:
		t = Text{
			"nothing stands in the way",
			"nothing",
		}
	case v1alpha1.BlockedBudget:
		t = Text{
			"maxUnavailable and maxSurge both come to 0, so no unit may ever be updated; a percentage can come to 0 after scaling down",
			"raise maxUnavailable or maxSurge, or the replicas that the percentage is of",
		}
	case v1alpha1.BlockedUnavailable:
		t = Text{
			"units that are in no update are not available, and what they leave of maxUnavailable is too little to start another one",
			"the failed units come back, or maxUnavailable is raised; units that are down for 30 s are updated first, at no cost to the budget",
		}
	case v1alpha1.BlockedFailed:
		t = Text{
			"a unit did not come up at the target, so no other one is brought there",
			"correct the template, or go back with `kubectl pitstop undo NAME`; where the cause was another one, `kubectl pitstop recreate UNIT` creates the unit's Pods anew; a unit that comes good by itself frees the rollout too",
		}
	case v1alpha1.BlockedRefused:
		t = Text{
			"an attempt to update a unit in place was given up before it touched a container; a unit that was at one revision before goes on serving at it",
			"the message gives the reason: an image that is missing is looked for again by itself once it is pushed (`kubectl pitstop retry NAME` does so at once); else correct the template, or go back with `kubectl pitstop undo NAME`",
		}
	case v1alpha1.BlockedNotInPlace:
		t = Text{
			"updateMethod is InPlace, and between the revision of a unit and the target more changed than images of regular containers; such a unit is left as it is, and nothing is deleted instead",
			"take back the changes that the message names, or set updateMethod to Recreate: then the units get new Pods",
		}
	case v1alpha1.BlockedRejected:
		t = Text{
			"a unit failed at the target and was taken back to its previous revision (onFailure Rollback), so no unit is brought to that target any more",
			"correct the template, or go back with `kubectl pitstop undo NAME`: another target is tried anew; `kubectl pitstop retry NAME` has the same one tried once more",
		}
	case v1alpha1.BlockedPin:
		t = Text{
			"the registry wants credentials for an image of the target, and the pin Pod that has kubelet pull it with the Pod's pull secrets cannot bring it either; the unit serves meanwhile",
			"the message says what kubelet or the API server says: correct the Secrets that the template's imagePullSecrets or its service account name, or the quota or policy that refuses the pin Pod; it is tried again by itself",
		}
	case v1alpha1.BlockedGPU:
		t = Text{
			"a GPU of a unit is sick, as the agent of its node says in the Pod condition pitstop.dev/GPUHealthy; the unit is kept out of traffic within maxUnavailable, others serve on; none of them is updated in place meanwhile",
			"`kubectl pitstop node NODE` says what the GPU needs, a reset or a reboot for instance: have that done, or delete the Pod so that it comes up elsewhere; the unit goes back in traffic by itself when the GPU is healthy",
		}
	case v1alpha1.BlockedRevision:
		t = Text{
			"a ControllerRevision that units are bound to is missing or cannot be read; nothing of those units is created or deleted, and everything else goes on",
			"restore the ControllerRevision from a backup, or upgrade the coordinator if a newer one wrote it; `kubectl pitstop history NAME` lists what there is",
		}
	case v1alpha1.BlockedName:
		t = Text{
			"an object of the name that is needed belongs to somebody else, and is never taken over",
			"delete or rename the object that the message names, or give the ModelServing another name",
		}
	case v1alpha1.BlockedCreate:
		t = Text{
			"the API server refuses to create a Pod or a Service",
			"the message is its answer: raise the quota, or correct what the webhook or policy that it names objects to; creation is tried again with back-off",
		}
	case v1alpha1.BlockedDelete:
		t = Text{
			"a Pod was deleted long ago and does not go; Pitstop never deletes by force, as its processes may still hold GPUs",
			"look at the kubelet on the Pod's node and at the Pod's finalizers; if the node is gone for good, delete its Node object",
		}
	case v1alpha1.BlockedDeadline:
		t = Text{
			"a stage of a unit's update takes longer than progressDeadlineSeconds",
			"the message names the unit and its stage: see what its Pods wait for with `kubectl pitstop explain POD`",
		}
	case v1alpha1.BlockedNode:
		t = Text{
			"the node of a Pod does not answer, so the Pod can be neither drained nor replaced",
			"the node comes back; if it is gone for good, delete its Node object, and Kubernetes removes the Pod",
		}
	}
	return t, t != (Text{})
}

// ConditionOf returns the condition, or the conditions, that a reason belongs to; empty for a word
// that is not in the closed list of this version.
func ConditionOf(r v1alpha1.ConditionReason) string {
	switch r {
	case v1alpha1.AvailableEnough, v1alpha1.AvailableTooFew:
		return v1alpha1.ConditionAvailable
	case v1alpha1.ProgressingRollout, v1alpha1.ProgressingScale, v1alpha1.ProgressingReady,
		v1alpha1.ProgressingPaused, v1alpha1.ProgressingPartition, v1alpha1.ProgressingComplete:
		return v1alpha1.ConditionProgressing
	case v1alpha1.GroupReady, v1alpha1.GroupNotReady:
		return v1alpha1.ConditionReady
	case v1alpha1.NotBlocked, v1alpha1.BlockedBudget, v1alpha1.BlockedUnavailable, v1alpha1.BlockedFailed,
		v1alpha1.BlockedRefused, v1alpha1.BlockedNotInPlace, v1alpha1.BlockedRejected, v1alpha1.BlockedPin, v1alpha1.BlockedGPU, v1alpha1.BlockedRevision, v1alpha1.BlockedName, v1alpha1.BlockedCreate, v1alpha1.BlockedDelete,
		v1alpha1.BlockedDeadline, v1alpha1.BlockedNode:
		return v1alpha1.ConditionBlocked
	}
	return ""
}

// ExplainUnit returns the text of what a unit's update waits for. It is false for a word that is
// not in the closed list of this version.
func ExplainUnit(r v1alpha1.UnitReason) (Text, bool) {
	var t Text
	switch r {
	case v1alpha1.UnitWaitingPrepare:
		t = Text{
			"an image of the target is not on the node of a Pod yet, or not proved there; the unit serves meanwhile",
			"the pull ends: `kubectl pitstop explain POD` says what it waits for",
		}
	case v1alpha1.UnitWaitingAgent:
		t = Text{
			"the agent of a Pod's node has not yet said more about the attempt",
			"its next report, within seconds; if it lasts, read the log of the agent on that node",
		}
	case v1alpha1.UnitWaitingPin:
		t = Text{
			"the registry wants credentials for an image, so a pin Pod on the node of the Pod has kubelet pull it with the Pod's pull secrets; the unit serves meanwhile",
			"the pull ends, and the agent proves the image: `kubectl describe pod` of the pin Pod that the message names says how far it is",
		}
	case v1alpha1.UnitPinFails:
		t = Text{
			"the pin Pod cannot bring the image; the message has the words of kubelet or of the API server",
			"correct the Secrets that the template's imagePullSecrets or its service account name, or raise the quota; where the cluster has no image volumes (Kubernetes 1.36 or later has), preload the image on the node: `crictl pull --creds USER:PASSWORD IMAGE`; at the deadline the attempt is given up, and made again after a pause",
		}
	case v1alpha1.UnitWaitingSwap:
		t = Text{
			"containers of a Pod of the unit are being restarted with the images of the target",
			"the new containers run and are proved: `kubectl pitstop explain POD` says how far one is",
		}
	case v1alpha1.UnitWaitingDrain:
		t = Text{
			"requests are still running in a Pod of the unit, or their number is unknown",
			"the last request ends, or the drain timeout of the ModelServing comes and cuts what is left",
		}
	case v1alpha1.UnitWaitingDeletion:
		t = Text{
			"a Pod of the unit was deleted and has not gone yet",
			"its containers end, at the latest after its terminationGracePeriodSeconds; if it stays, look at the kubelet on its node and at its finalizers",
		}
	case v1alpha1.UnitWaitingScheduling:
		t = Text{
			"a Pod of the unit has no node yet",
			"the scheduler finds a place: `kubectl describe pod POD` says what it looks for",
		}
	case v1alpha1.UnitWaitingReady:
		t = Text{
			"containers of a Pod of the unit are not ready yet",
			"the engine has loaded its weights; if it lasts, `kubectl pitstop explain POD` and the container's log say more",
		}
	case v1alpha1.UnitWaitingPermit:
		t = Text{
			"the unit has reached its stage and the ModelServing controller has not yet answered with the next permit",
			"the controller's next look, within seconds; if it lasts, see whether a coordinator runs: `kubectl -n pitstop-system get pods`",
		}
	case v1alpha1.UnitPodLost:
		t = Text{
			"a Pod of the unit is gone or going, so that the unit cannot be updated in place as a whole",
			"recovery makes the Pod anew at the unit's revision; the update is then tried again by itself",
		}
	case v1alpha1.UnitAgentMissing:
		t = Text{
			"the node of a Pod has no live agent, and without one nothing is updated in place",
			"the agent's Pod on the node runs again: `kubectl -n pitstop-system get pods -o wide`; the update then goes on by itself",
		}
	case v1alpha1.UnitTooLong:
		t = Text{
			"a stage before the swap took longer than progressDeadlineSeconds",
			"remove what the message says it waited for; the update is tried again by itself, each time after a longer pause",
		}
	case v1alpha1.UnitCancelled:
		t = Text{
			"a person took its update back (`kubectl pitstop cancel`)",
			"it is chosen again when the pause is over; `kubectl pitstop retry NAME` ends that, and another template goes before it",
		}
	}
	return t, t != (Text{})
}

// WorkloadHandbook returns the reasons of conditions and of units as a Markdown table, in the
// order given.
func WorkloadHandbook(conditions []v1alpha1.ConditionReason, units []v1alpha1.UnitReason) string {
	var b strings.Builder
	b.WriteString("| where | reason | what it means | what ends it, what to do |\n| --- | --- | --- | --- |\n")
	for _, r := range conditions {
		text, _ := ExplainCondition(r)
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", ConditionOf(r), r, text.Why, text.Way)
	}
	for _, r := range units {
		text, _ := ExplainUnit(r)
		fmt.Fprintf(&b, "| unit | `%s` | %s | %s |\n", r, text.Why, text.Way)
	}
	return b.String()
}
