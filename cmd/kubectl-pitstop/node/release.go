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
		r.Warnings = append(r.Warnings, "whether updates are under way there is not known: InPlaceUpdates could not be read, and the verdict of one in its swap will be Unknown; a Pod that is drained for one may stay out of traffic")
	}
	r.Warnings = append(r.Warnings, f.updates()...)
	return r, nil
}

// updates says what becomes of the updates that are under way on the node. Those of Pods that serve wait, and so do those
// of Pods that are alone in their unit and out of traffic: these serve meanwhile.
func (f ReleaseFacts) updates() (warnings []string) {
	for _, w := range []struct {
		says string
		of   func(u *v1alpha1.InPlaceUpdate) bool
	}{
		{"what the swap under way leaves on GPUs cannot be looked at meanwhile, so its verdict will be Unknown", swapping},
		{"these Pods stay out of traffic, and their swap waits until the driver is taken again; one that waits past its deadline is refused", stays},
		{"the units of these Pods go back in service as they were, and are updated once the driver is taken again; a unit that an attempt before has changed stays out of traffic until then", backsOut},
	} {
		var names []string
		for _, u := range f.Orders {
			if u.Spec.NodeName == f.Node.Name && w.of(u) {
				names = append(names, fmt.Sprintf("%s/%s (%s)", u.Namespace, u.Name, u.Status.Stage))
			}
		}
		if slices.Sort(names); len(names) > 0 {
			warnings = append(warnings, w.says+": "+strings.Join(names, ", "))
		}
	}
	return warnings
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

// swapping reports whether the memory of the Pod's old engine was measured and that of the new one was not.
func swapping(u *v1alpha1.InPlaceUpdate) bool {
	return u.Status.Stage == v1alpha1.StageSwapping || u.Status.Stage == v1alpha1.StageProved
}

// held reports whether the Pod is out of traffic before its swap, and its agent does not give it back by itself, as it
// does with one that is alone in its unit.
func held(u *v1alpha1.InPlaceUpdate) bool {
	drains := u.Status.Stage == v1alpha1.StageDraining || u.Status.Stage == v1alpha1.StageDrained
	return drains && u.Status.Attempt == u.Spec.Attempt && len(u.Spec.Containers) > 0 && u.Spec.OpenAt == v1alpha1.OpenAtVerified
}

// stays reports whether nobody gives the Pod back: other Pods of its unit may have been changed, or it has no unit.
func stays(u *v1alpha1.InPlaceUpdate) bool {
	return held(u) && (u.ByHand() || u.Spec.Permit.Allows(v1alpha1.PermitSwap))
}

// backsOut reports whether the coordinator takes the Pod's unit back, as far as its order tells.
func backsOut(u *v1alpha1.InPlaceUpdate) bool { return held(u) && !stays(u) }

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
