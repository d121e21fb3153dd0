package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// What ends the sickness of a GPU, with NODE and INDEX for Place to fill in.
const (
	resetGPU   = "end what uses the GPU, `kubectl pitstop gpu release NODE --for 10m`, `nvidia-smi --gpu-reset -i INDEX` on the node, then `kubectl pitstop gpu release NODE --end`"
	rebootNode = "`kubectl drain NODE --ignore-daemonsets`, reboot the node, then `kubectl uncordon NODE`"
)

// ExplainGPU returns the text of a reason of the condition GPUHealthy. It is false for a word that is not in the
// closed list of this version.
func ExplainGPU(r v1alpha1.GPUReason) (Text, bool) {
	var t Text
	switch r {
	case v1alpha1.GPUTrueHealthy:
		t = Text{"all GPUs were read, and nothing is wrong with them", "nothing"}
	case v1alpha1.GPUFalseLost:
		t = Text{
			"a GPU does not answer any more (it fell off the bus, or the driver gave it up); those of its Pods that have the readiness gate are held out of traffic",
			"a reboot: " + rebootNode + "; if the GPU is lost again, it wants a technician",
		}
	case v1alpha1.GPUFalseRecovery:
		t = Text{
			"the driver asks for an action before a GPU is used on; the message says which",
			"that action. A reset: " + resetGPU + ". A reboot: " + rebootNode,
		}
	case v1alpha1.GPUFalseXID:
		t = Text{
			"the driver reported an error (XID) after which the GPU has to be reset or the node rebooted; the message has the number, and says which",
			"what the message asks for. A reset: " + resetGPU + "; a driver that goes on to say that no action is needed ends it as well. A reboot: " + rebootNode,
		}
	case v1alpha1.GPUFalseECC:
		t = Text{
			"memory errors that cannot be corrected came at least twice in ten minutes",
			"none comes for ten minutes; if they go on, a reset: " + resetGPU + ". Replace the GPU if they come back",
		}
	case v1alpha1.GPUFalseRemap:
		t = Text{
			"a row of the GPU's memory is broken, and there is no spare one left to replace it",
			"the GPU is replaced",
		}
	case v1alpha1.GPUFalseLink:
		t = Text{
			"an NVLink of the GPU that was up is down, so that engines over several GPUs fail or are slow",
			"the link comes up again; else look at the fabric manager, then reset all GPUs of the node together, or reboot it",
		}
	case v1alpha1.GPUFalseThermal:
		t = Text{
			"the hardware keeps the GPU's clocks low, to stay within its limits of heat or power",
			"the GPU cools down: look at fans, air flow, power supply and the neighbours in the rack",
		}
	case v1alpha1.GPUUnknownUnread:
		t = Text{
			"the GPUs could not be read, so that nothing is known of them; the message says why",
			"the driver answers again: see `nvidia-smi` on the node, and the log of the agent's probe",
		}
	case v1alpha1.GPUUnknownReleased:
		t = Text{
			"the agent has let go of the driver, because somebody asked for it with `kubectl pitstop gpu release`",
			"the time that was given is over, or `kubectl pitstop gpu release NODE --end`",
		}
	case v1alpha1.GPUUnknownUnjudged:
		t = Text{"too few readings have been taken since the agent started, or took the driver again", "half a minute"}
	case v1alpha1.GPUUnknownUnassigned:
		t = Text{
			"which GPUs the Pod was given could not be found out",
			"kubelet answers on its pod-resources socket again: look at kubelet and the device plugin on the node",
		}
	}
	return t, t != (Text{})
}

// StatusOfGPU returns the status of the condition GPUHealthy that goes with a reason, and an empty one for a reason
// that this version does not know.
func StatusOfGPU(r v1alpha1.GPUReason) corev1.ConditionStatus {
	switch r {
	case v1alpha1.GPUTrueHealthy:
		return corev1.ConditionTrue
	case v1alpha1.GPUFalseLost,
		v1alpha1.GPUFalseRecovery,
		v1alpha1.GPUFalseXID,
		v1alpha1.GPUFalseECC,
		v1alpha1.GPUFalseRemap,
		v1alpha1.GPUFalseLink,
		v1alpha1.GPUFalseThermal:
		return corev1.ConditionFalse
	case v1alpha1.GPUUnknownUnread,
		v1alpha1.GPUUnknownReleased,
		v1alpha1.GPUUnknownUnjudged,
		v1alpha1.GPUUnknownUnassigned:
		return corev1.ConditionUnknown
	}
	return ""
}

// GPUHandbook returns the reasons of the condition GPUHealthy as a Markdown table, in the order given.
func GPUHandbook(reasons []v1alpha1.GPUReason) string {
	var b strings.Builder
	b.WriteString("| status | reason | what it means | what ends it, what to do |\n| --- | --- | --- | --- |\n")
	for _, r := range reasons {
		text, _ := ExplainGPU(r)
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", StatusOfGPU(r), r, text.Why, text.Way)
	}
	return b.String()
}
