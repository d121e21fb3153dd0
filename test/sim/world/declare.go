package world

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
)

// Declare has the user create a ModelServing.
func (w *World) Declare(name string) {
	ms := &v1alpha1.ModelServing{}
	ms.Namespace, ms.Name = Namespace, name
	s := &ms.Spec
	s.Replicas = new(int32(1 + w.IntN(4)))
	s.RecoveryPolicy = pick(w.Loop, "", v1alpha1.RecoverRole, v1alpha1.RecoverServingGroup, v1alpha1.RecoverNone)
	s.ProgressDeadlineSeconds = new(int32(60 + w.IntN(240)))
	s.RevisionHistoryLimit = new(int32(w.IntN(3)))
	s.RolloutStrategy.MinReadySeconds = pick(w.Loop, int32(0), 0, 5)
	s.RolloutStrategy.Drain = v1alpha1.Drain{TimeoutSeconds: new(int32(1 + w.IntN(30)))}
	s.Template.RestartGracePeriodSeconds = pick(w.Loop, int64(0), 10)
	for _, name := range []string{"prefill", "decode"}[:1+w.IntN(2)] {
		s.Template.Roles = append(s.Template.Roles, w.role(name))
	}
	if len(s.Template.Roles) > 1 && w.Chance(0.5) {
		s.Template.Roles[w.IntN(2)].Front = new(false)
	}
	s.RolloutStrategy.UpdateMethod = pick(w.Loop, v1alpha1.UpdateRecreate, v1alpha1.UpdateRecreate, v1alpha1.UpdateInPlace, v1alpha1.UpdateInPlace, v1alpha1.UpdateInPlace)
	s.RolloutStrategy.InPlace = v1alpha1.InPlace{
		PropagationSeconds: new(int32(w.IntN(4))), StopTimeoutSeconds: new(int32(5 + w.IntN(26))),
		OnFailure: pick(w.Loop, v1alpha1.FailureHold, v1alpha1.FailureRollback),
	}
	w.setBudgets(s)
	w.must(w.as("user").Create(w.ctx, ms))
}

func (w *World) role(name string) v1alpha1.Role {
	r := v1alpha1.Role{Name: name, Replicas: new(pick(w.Loop, int32(1), 1, 1, 2, 0))}
	r.EntryTemplate = w.template("entry")
	if w.Chance(0.3) {
		r.WorkerReplicas = 1
		worker := w.template("worker")
		r.WorkerTemplate = &worker
	}
	return r
}

func (w *World) template(container string) corev1.PodTemplateSpec {
	var secrets []corev1.LocalObjectReference
	if w.pullSecrets {
		secrets = []corev1.LocalObjectReference{{Name: "registry"}}
	}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		ImagePullSecrets:              secrets,
		TerminationGracePeriodSeconds: new(int64(5 + w.IntN(26))),
		Containers:                    []corev1.Container{{Name: container, Image: w.newImage(imageGood)}},
	}}
}

// setBudgets sets the strategy and its budgets anew; they are legal together.
func (w *World) setBudgets(s *v1alpha1.ModelServingSpec) {
	st := &s.RolloutStrategy
	if st.Type == "" {
		st.Type = pick(w.Loop, v1alpha1.ServingGroupRollingUpdate, v1alpha1.ServingGroupRollingUpdate, v1alpha1.RoleRollingUpdate)
	}
	st.RollingUpdateConfiguration, st.MaxUnavailableGroups = nil, nil
	for i := range s.Template.Roles {
		r := &s.Template.Roles[i]
		r.MaxUnavailable, r.MaxSurge, r.Partition = nil, nil, nil
		if st.Type == v1alpha1.RoleRollingUpdate && w.Chance(0.5) {
			r.MaxUnavailable, r.MaxSurge, r.Partition = w.budget(st.UpdateMethod)
		}
	}
	switch {
	case st.Type == v1alpha1.ServingGroupRollingUpdate && w.Chance(0.8):
		c := &v1alpha1.RollingUpdateConfiguration{}
		c.MaxUnavailable, c.MaxSurge, c.Partition = w.budget(st.UpdateMethod)
		st.RollingUpdateConfiguration = c
	case st.Type == v1alpha1.RoleRollingUpdate && w.Chance(0.5):
		st.MaxUnavailableGroups = new(intstr.FromInt32(1))
	}
}

func (w *World) budget(method v1alpha1.UpdateMethod) (unavailable, surge, partition *intstr.IntOrString) {
	u, s := int32(w.IntN(3)), int32(w.IntN(3))
	if method == v1alpha1.UpdateInPlace {
		s = 0 // there is none in place
	}
	if u+s == 0 {
		u = 1
	}
	unavailable, surge = new(intstr.FromInt32(u)), new(intstr.FromInt32(s))
	if w.Chance(0.1) {
		unavailable = new(intstr.FromString("50%"))
	}
	if w.Chance(0.4) {
		partition = new(intstr.FromInt32(int32(1 + w.IntN(3))))
	}
	return unavailable, surge, partition
}
