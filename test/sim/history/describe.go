package history

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/sim/cluster"
)

// describe is a write in one line of the trace.
func describe(w cluster.Write) string {
	text := w.String()
	if w.Verb != cluster.Remove {
		text += ": " + content(w.New, w.Verb)
	}
	if w.Frame != nil {
		text += "   [" + w.Frame.Name + "]"
	}
	return text
}

func content(o client.Object, verb cluster.Verb) string {
	switch o := o.(type) {
	case *v1alpha1.ModelServing:
		if verb == cluster.UpdateStatus {
			return servingStatus(o.Status)
		}
		return servingSpec(o)
	case *v1alpha1.ServingGroup:
		if verb == cluster.UpdateStatus {
			return groupStatus(o.Status)
		}
		return groupSpec(o)
	case *v1alpha1.InPlaceUpdate:
		return fmt.Sprintf("attempt %d permit %s; at %d %s", o.Spec.Attempt, o.Spec.Permit, o.Status.Attempt, o.Status.Stage)
	case *corev1.Pod:
		return podContent(o)
	}
	return ""
}

func servingSpec(o *v1alpha1.ModelServing) string {
	s := o.Spec
	out := []string{fmt.Sprintf("generation %d replicas %d %s paused %t recovery %s", o.Generation, *s.Replicas, s.RolloutStrategy.Type, s.Paused, s.RecoveryPolicy)}
	if c := s.RolloutStrategy.RollingUpdateConfiguration; c != nil {
		out = append(out, fmt.Sprintf("unavailable %s surge %s partition %s", c.MaxUnavailable, c.MaxSurge, c.Partition))
	}
	for _, r := range s.Template.Roles {
		out = append(out, fmt.Sprintf("%s×%d(+%d %s)", r.Name, *r.Replicas, r.WorkerReplicas, r.EntryTemplate.Spec.Containers[0].Image))
	}
	return strings.Join(out, " ")
}

func servingStatus(s v1alpha1.ModelServingStatus) string {
	out := []string{fmt.Sprintf("%d/%d/%d/%d (live/ready/available/updated) current %s update %s ledger %v",
		s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.CurrentRevision, s.UpdateRevision, s.Updating)}
	for _, c := range s.Conditions {
		out = append(out, fmt.Sprintf("%s=%s", c.Type, c.Reason))
		if c.Type == v1alpha1.ConditionBlocked && c.Status == "True" {
			out = append(out, "("+c.Message+")")
		}
	}
	for _, r := range s.Requests {
		out = append(out, fmt.Sprintf("{%s %s %s: %s: %s}", r.Verb, r.Unit, r.ID, r.Outcome, r.Message))
	}
	return strings.Join(out, " ")
}

func groupSpec(o *v1alpha1.ServingGroup) string {
	out := []string{fmt.Sprintf("generation %d pin %s", o.Generation, o.Spec.Revision)}
	for _, i := range o.Spec.Instances {
		name := v1alpha1.UnitName(i.Role, *i.Ordinal)
		if i.Revision != "" {
			name += "@" + i.Revision
		}
		out = append(out, name)
	}
	for _, u := range o.Spec.Updates {
		text := fmt.Sprintf("%q %d %s %s -> %s", u.Unit, u.Attempt, u.Method, u.Permit, u.Target)
		if u.Request != nil {
			text += " for " + u.Request.ID
		}
		out = append(out, "{"+text+"}")
	}
	if o.DeletionTimestamp != nil {
		out = append(out, "deleting")
	}
	return strings.Join(out, " ")
}

func groupStatus(s v1alpha1.ServingGroupStatus) string {
	out := []string{fmt.Sprintf("observed %d", s.ObservedGeneration)}
	for _, i := range s.Instances {
		out = append(out, fmt.Sprintf("%s-%d %s %d/%d/%d ready %t", i.Role, *i.Ordinal, i.Phase, i.LivePods, i.ReadyPods, i.Pods, i.Ready))
	}
	for _, u := range s.Updates {
		out = append(out, fmt.Sprintf("{%q %d %s %s}", u.Unit, u.Attempt, u.Stage, u.Reason))
	}
	for _, c := range s.Conditions {
		if c.Type == v1alpha1.ConditionBlocked && c.Status == "True" {
			out = append(out, fmt.Sprintf("Blocked=%s(%s)", c.Reason, c.Message))
		}
	}
	return strings.Join(out, " ")
}

func podContent(o *corev1.Pod) string {
	var flags []string
	for _, c := range o.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			flags = append(flags, string(c.Type))
		}
	}
	out := []string{fmt.Sprintf("%s %s on %q at %s %v", o.UID, o.Status.Phase, o.Spec.NodeName, o.Labels[v1alpha1.LabelRevision], flags)}
	for _, h := range readiness.Holds(o) {
		out = append(out, "held by "+h.Holder)
	}
	if o.DeletionTimestamp != nil {
		out = append(out, "deleting")
	}
	if len(o.Status.ContainerStatuses) > 0 && o.Status.ContainerStatuses[0].RestartCount > 0 {
		out = append(out, fmt.Sprintf("restarts %d", o.Status.ContainerStatuses[0].RestartCount))
	}
	return strings.ReplaceAll(strings.Join(out, " "), "pitstop.dev/", "")
}
