package tree

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// pod judges one Pod of a unit; around is the mark of what it belongs to.
func (g *grower) pod(m member, around Mark) Pod {
	if m.pod == nil {
		return Pod{Name: m.name, Index: m.index, Missing: true, State: "missing", Mark: expected(around)}
	}
	p := m.pod
	out := Pod{
		Name: p.Name, Index: m.index, Revision: p.Labels[v1alpha1.LabelRevision], Node: p.Spec.NodeName,
		Ready: readiness.Ready(p), Deleting: p.DeletionTimestamp != nil,
	}
	for _, h := range readiness.Holds(p) {
		out.Holds = append(out.Holds, h.Holder)
	}
	order := g.orders[p.UID]
	if order != nil && order.Status.Attempt == order.Spec.Attempt {
		out.Stage = order.Status.Stage
	}
	failure := failed(p)
	switch {
	case out.Deleting:
		out.State, out.Mark = "terminating for "+g.ago(deleted(p)), UnderWay
	case failure != "":
		out.State, out.Mark = failure, Wrong
	case out.Ready && len(out.Holds) == 0:
	default:
		out.State, out.Mark = g.waits(p, out, order), expected(around)
	}
	return out
}

// expected is the mark of a Pod that is not in service: something under way around it explains that.
func expected(around Mark) Mark {
	if around == UnderWay {
		return UnderWay
	}
	return Wrong
}

// waits says why a Pod is not in service.
func (g *grower) waits(p *corev1.Pod, out Pod, order *v1alpha1.InPlaceUpdate) string {
	held := ""
	if len(out.Holds) > 0 {
		held = "held by " + strings.Join(out.Holds, ", ")
	}
	serving := out.Stage == v1alpha1.StagePreparing || out.Stage == v1alpha1.StagePrepared
	moving := out.Stage != "" && !out.Stage.Ended() && order.Status.StageSince != nil && !serving
	switch {
	case moving:
		stage := fmt.Sprintf("%s %s", out.Stage, g.ago(&metav1.Time{Time: order.Status.StageSince.Time}))
		if order.Status.Reason != "" && string(order.Status.Reason) != string(out.Stage) {
			stage += fmt.Sprintf(" (%s)", order.Status.Reason)
		}
		return join(stage, held)
	case p.Spec.NodeName == "":
		return join("no node yet", held)
	case !readiness.ContainersReady(p):
		return join(starting(p), held)
	case held != "":
		return held
	case !readiness.GateOf(p).Open:
		return "gate not open"
	}
	return "not Ready"
}

// starting names the first container that is not ready.
func starting(p *corev1.Pod) string {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch {
		case c.Ready || c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			return c.Name + ": " + c.State.Waiting.Reason
		default:
			return c.Name + " not ready"
		}
	}
	return "not started"
}

// failed says what of a Pod does not mend without help; empty if nothing. These are kubelet's words.
func failed(p *corev1.Pod) string {
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return strings.TrimSpace("ended: " + string(p.Status.Phase) + " " + p.Status.Reason)
	}
	bad := []string{
		"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.State.Waiting != nil && slices.Contains(bad, c.State.Waiting.Reason) {
			text := c.Name + ": " + c.State.Waiting.Reason
			if c.RestartCount > 0 {
				text += fmt.Sprintf(", %d restarts", c.RestartCount)
			}
			return text
		}
	}
	return ""
}

// deleted is when the Pod's deletion was asked for: its deletionTimestamp is the end of its grace period.
func deleted(p *corev1.Pod) *metav1.Time {
	t := *p.DeletionTimestamp
	if grace := p.DeletionGracePeriodSeconds; grace != nil {
		t = metav1.NewTime(t.Add(-time.Duration(*grace) * time.Second))
	}
	return &t
}
