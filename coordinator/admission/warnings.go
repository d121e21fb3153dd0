package admission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
)

// warningsOf names what is legal and probably not meant.
func warningsOf(ms *v1alpha1.ModelServing) []string {
	var out []string
	if ms.Spec.RolloutStrategy.Type == v1alpha1.RoleRollingUpdate {
		out = roleWarnings(&ms.Spec)
	} else {
		out = groupWarnings(&ms.Spec)
	}
	for i := range ms.Spec.Template.Roles {
		r := &ms.Spec.Template.Roles[i]
		out = append(out, pullWarnings(&r.EntryTemplate, rolePath(i).Child("entryTemplate"))...)
		if r.WorkerTemplate != nil {
			out = append(out, pullWarnings(r.WorkerTemplate, rolePath(i).Child("workerTemplate"))...)
		}
	}
	return out
}

func groupWarnings(s *v1alpha1.ModelServingSpec) []string {
	path := strategyPath().Child("rollingUpdateConfiguration")
	c := ptr.Deref(s.RolloutStrategy.RollingUpdateConfiguration, v1alpha1.RollingUpdateConfiguration{})
	b := groupBudget(s, replicasOf(s))
	var out []string
	if b.replicas > 0 && b.unavailable > b.replicas {
		out = append(out, warning(path.Child("maxUnavailable"), "%d is more than replicas, %d: a rollout takes all ServingGroups out of service at one time",
			b.unavailable, b.replicas))
	}
	if b.replicas > 0 && b.partition >= b.replicas {
		out = append(out, warning(path.Child("partition"), "%d protects all %d ServingGroups: no rollout happens", b.partition, b.replicas))
	}
	if n, stalls := stallsBelow(orInt(c.MaxUnavailable, 1)); stalls && b.surge == 0 && !b.stalls(s.RolloutStrategy.UpdateMethod) {
		way := " unless maxSurge is at least 1"
		if inPlace(s) {
			way = ""
		}
		out = append(out, warning(path.Child("maxUnavailable"), "%s is 0 of fewer than %d replicas: scaled below that, rollouts stand still (Blocked, BudgetZero)%s",
			c.MaxUnavailable.String(), n, way))
	}
	return out
}

// stallsBelow returns the number of units of which a percentage is 1 for the first time.
func stallsBelow(v intstr.IntOrString) (units int, ok bool) {
	percent, err := intstr.GetScaledValueFromIntOrPercent(&v, 100, false)
	if v.Type != intstr.String || err != nil || percent <= 0 || percent >= 100 {
		return 0, false
	}
	return (100 + percent - 1) / percent, true
}

func roleWarnings(s *v1alpha1.ModelServingSpec) []string {
	var out []string
	if s.RecoveryPolicy == v1alpha1.RecoverServingGroup {
		out = append(out, warning(field.NewPath("spec", "recoveryPolicy"), "ServingGroupRecreate with rolloutStrategy.type RoleRollingUpdate:"+
			" rollouts go role instance by role instance, but the loss of one Pod costs its whole ServingGroup; RoleRecreate goes with it"))
	}
	for i := range s.Template.Roles {
		if b := roleBudget(s, &s.Template.Roles[i]); b.replicas > 0 && b.partition >= b.replicas {
			out = append(out, warning(rolePath(i).Child("partition"), "%d protects all %d instances of the role: no rollout of it happens", b.partition, b.replicas))
		}
	}
	return out
}

// pullWarnings names the containers whose image kubelet would pull again at every start, after the
// old container has gone: such a Pod is not updated in place.
func pullWarnings(t *corev1.PodTemplateSpec, path *field.Path) []string {
	var out []string
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		at := path.Child("spec", "containers").Index(i).Child("imagePullPolicy")
		switch {
		case c.ImagePullPolicy == corev1.PullAlways:
			out = append(out, warning(at, "Always keeps container %s from being updated in place: set IfNotPresent", c.Name))
		case c.ImagePullPolicy == "" && imageReference.MatchString(c.Image) && latest(c.Image):
			out = append(out, warning(at, "is Always where the tag of an image is latest or absent (%s), which keeps container %s from being updated in place:"+
				" set IfNotPresent, or give the image another tag", c.Image, c.Name))
		}
	}
	return out
}

// latest reports that kubelet takes the image for tagged latest.
func latest(image string) bool {
	name, _, digested := strings.Cut(image, "@")
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag = name[i+1:]
	}
	return tag == "latest" || tag == "" && !digested
}

func warning(at *field.Path, format string, args ...any) string {
	return at.String() + ": " + fmt.Sprintf(format, args...)
}
