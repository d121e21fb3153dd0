package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// ReleaseFacts are what the release of a node's GPU driver is judged by, as read at Now. Orders may be of other nodes.
type ReleaseFacts struct {
	Node   *corev1.Node
	Agent  diagnose.Agent
	Orders []*v1alpha1.InPlaceUpdate
	// OrdersUnknown: they could not be read.
	OrdersUnknown bool
	Now           time.Time
}

// A Release is what is to be done about the annotation of a Node, and what to say of it.
type Release struct {
	// Write: the annotation is to be written, or, where Until is empty, removed.
	Write bool
	Until string
	// Says is a sentence without a full stop, Warnings are more of them.
	Says     string
	Warnings []string
}

// PlanRelease has the driver released for so long. The error is an *order.RefusalError where nobody would do it.
func PlanRelease(f ReleaseFacts, length time.Duration) (Release, error) {
	name := f.Node.Name
	until := f.Now.Add(length).UTC().Truncate(time.Second)
	r := Release{Write: true, Until: until.Format(time.RFC3339)}
	r.Says = "the agent lets go of the GPU driver within half a minute, until " + r.Until + "; `kubectl pitstop node " + name + "` says when it has"
	switch f.Agent.State {
	case diagnose.AgentAlive:
	case diagnose.AgentDead:
		return Release{}, &order.RefusalError{
			Object: "node " + name,
			Why:    "has no live agent, so nobody would let go of its GPU driver, and nothing was written",
			Way:    "if the agent should run there, see `kubectl -n " + diagnose.LeaseNamespace + " get pods -o wide`; if not, nothing of Pitstop holds the driver",
		}
	case diagnose.AgentUnknown:
		r.Warnings = append(r.Warnings, "whether an agent is alive there is not known: its Lease could not be read, and without an agent nothing happens")
	}
	if before, standing := f.standing(); standing && !before.Equal(until) {
		what := "longer than"
		if until.Before(before) {
			what = "shorter than"
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("this is %s what was asked for before, which was until %s", what, before.Format(time.RFC3339)))
	}
	if f.OrdersUnknown {
		r.Warnings = append(r.Warnings, "whether updates are under way there is not known: InPlaceUpdates could not be read, and the verdict of one in its swap will be Unknown")
	}
	if swaps := swapping(f.Orders, name); len(swaps) > 0 {
		r.Warnings = append(r.Warnings, "what the swap under way leaves on GPUs cannot be looked at meanwhile, so its verdict will be Unknown: "+strings.Join(swaps, ", "))
	}
	return r, nil
}

// PlanEnd has the agent take the driver again.
func PlanEnd(f ReleaseFacts) Release {
	if f.Node.Annotations[v1alpha1.AnnotationGPURelease] == "" {
		return Release{Says: "no release of the GPU driver is asked for, so there is none to end"}
	}
	r := Release{Write: true, Says: "the agent takes the GPU driver again, within half a minute"}
	switch _, standing := f.standing(); {
	case !standing:
		r.Says = "no release of the GPU driver was under way; what the annotation said (" + f.Node.Annotations[v1alpha1.AnnotationGPURelease] + ") is removed"
	case f.Agent.State == diagnose.AgentDead:
		r.Says = "the release is taken back; no agent is alive there to take the GPU driver again"
	}
	return r
}

// standing returns until when the driver is to be released, and false if it is not.
func (f ReleaseFacts) standing() (time.Time, bool) {
	until, err := time.Parse(time.RFC3339, f.Node.Annotations[v1alpha1.AnnotationGPURelease])
	return until.UTC(), err == nil && until.After(f.Now)
}

// swapping names the Pods of a node whose old GPU memory was measured and whose new one was not: their updates are
// reported between Drained and Verified.
func swapping(orders []*v1alpha1.InPlaceUpdate, node string) []string {
	stages := []v1alpha1.Stage{v1alpha1.StageDrained, v1alpha1.StageSwapping, v1alpha1.StageProved}
	var names []string
	for _, u := range orders {
		if u.Spec.NodeName == node && slices.Contains(stages, u.Status.Stage) {
			names = append(names, fmt.Sprintf("%s/%s (%s)", u.Namespace, u.Name, u.Status.Stage))
		}
	}
	slices.Sort(names)
	return names
}

// releaseText says what becomes of the annotation that asks for the release of the driver.
func releaseText(value string, now time.Time) (mark, text string) {
	until, err := time.Parse(time.RFC3339, value)
	switch {
	case value == "":
		return "", ""
	case err != nil:
		return "! ", fmt.Sprintf("the annotation %s says %q, which is no time as RFC 3339: it is ignored", v1alpha1.AnnotationGPURelease, value)
	case !until.After(now):
		return "  ", "the release of the GPU driver that was asked for last ended at " + value
	}
	return "  ", "the release of the GPU driver is asked for until " + value
}
