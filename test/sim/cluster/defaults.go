package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// SetDefaults does to an object what the API server does before it asks admission.
func SetDefaults(o client.Object) { setDefaults(o) }

// setDefaults writes the defaults that the CRDs declare. A test compares them with the CRDs.
func setDefaults(o client.Object) {
	switch o := o.(type) {
	case *v1alpha1.ModelServing:
		defaultServing(&o.Spec)
	case *v1alpha1.InPlaceUpdate:
		defaultOrder(&o.Spec)
	case *corev1.Pod:
		setString(&o.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	}
}

func defaultServing(s *v1alpha1.ModelServingSpec) {
	setPointer(&s.Replicas, 1)
	setPointer(&s.RevisionHistoryLimit, 10)
	setString(&s.RecoveryPolicy, v1alpha1.RecoverRole)
	setPointer(&s.ProgressDeadlineSeconds, 1800)
	setString(&s.RolloutStrategy.Type, v1alpha1.ServingGroupRollingUpdate)
	setString(&s.RolloutStrategy.UpdateMethod, v1alpha1.UpdateRecreate)
	setPointer(&s.RolloutStrategy.InPlace.PropagationSeconds, 3)
	setPointer(&s.RolloutStrategy.InPlace.StopTimeoutSeconds, 30)
	setString(&s.RolloutStrategy.InPlace.OnFailure, v1alpha1.FailureHold)
	defaultDrain(&s.RolloutStrategy.Drain)
	if c := s.RolloutStrategy.RollingUpdateConfiguration; c != nil {
		setPointer(&c.MaxUnavailable, intstr.FromInt32(1))
		setPointer(&c.MaxSurge, intstr.FromInt32(0))
		setPointer(&c.Partition, intstr.FromInt32(0))
	}
	for i := range s.Template.Roles {
		setPointer(&s.Template.Roles[i].Replicas, 1)
		setPointer(&s.Template.Roles[i].Front, true)
	}
}

func defaultOrder(s *v1alpha1.InPlaceUpdateSpec) {
	setString(&s.OpenAt, v1alpha1.OpenAtProved)
	setString(&s.Permit, v1alpha1.PermitServe)
	setPointer(&s.PropagationSeconds, 3)
	setPointer(&s.StopTimeoutSeconds, 30)
	setPointer(&s.ProgressDeadlineSeconds, 1800)
	if s.Drain != nil {
		defaultDrain(s.Drain)
	}
}

func defaultDrain(d *v1alpha1.Drain) {
	setString(&d.Mode, v1alpha1.DrainEngineMetrics)
	setPointer(&d.TimeoutSeconds, 300)
}

func setPointer[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

func setString[T ~string](s *T, v T) {
	if *s == "" {
		*s = v
	}
}
