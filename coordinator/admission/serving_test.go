package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
)

// serving is a ModelServing as the API server hands it to the webhook: 4 groups of a role with
// workers and one without.
func serving(changes ...func(*v1alpha1.ModelServing)) *v1alpha1.ModelServing {
	ms := &v1alpha1.ModelServing{
		ObjectMeta: metav1.ObjectMeta{Name: "llm", Namespace: "default"},
		Spec: v1alpha1.ModelServingSpec{
			Replicas: new(int32(4)), RecoveryPolicy: v1alpha1.RecoverRole,
			RolloutStrategy: v1alpha1.RolloutStrategy{Type: v1alpha1.ServingGroupRollingUpdate, UpdateMethod: v1alpha1.UpdateRecreate},
			Template: v1alpha1.ServingGroupTemplate{Roles: []v1alpha1.Role{
				{Name: "prefill", Replicas: new(int32(4)), WorkerReplicas: 1, EntryTemplate: template(), WorkerTemplate: new(template())},
				{Name: "decode", Replicas: new(int32(2)), EntryTemplate: template()},
			}},
		},
	}
	for _, change := range changes {
		change(ms)
	}
	return ms
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "llm"}, Annotations: map[string]string{v1alpha1.MetricsPort: "http"}},
		Spec: corev1.PodSpec{
			Volumes:        []corev1.Volume{{Name: "weights"}},
			InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}},
			Containers: []corev1.Container{{
				Name: "engine", Image: "registry.example/vllm:1",
				Env:          []corev1.EnvVar{{Name: "A", Value: "b"}},
				Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8000}},
				VolumeMounts: []corev1.VolumeMount{{Name: "weights", MountPath: "/weights"}},
			}},
		},
	}
}

// byRole makes the rollout one over role instances.
func byRole(ms *v1alpha1.ModelServing) { ms.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate }

func replicas(n int32) func(*v1alpha1.ModelServing) {
	return func(ms *v1alpha1.ModelServing) { ms.Spec.Replicas = &n }
}

// groups sets the budget over ServingGroups: maxUnavailable, maxSurge, partition; "" is absent.
func groups(values ...string) func(*v1alpha1.ModelServing) {
	return func(ms *v1alpha1.ModelServing) {
		c := &v1alpha1.RollingUpdateConfiguration{}
		budgetOf(values, &c.MaxUnavailable, &c.MaxSurge, &c.Partition)
		ms.Spec.RolloutStrategy.RollingUpdateConfiguration = c
	}
}

// instances sets the number of instances of the first role and their budget, in the same order.
func instances(n int32, values ...string) func(*v1alpha1.ModelServing) {
	return func(ms *v1alpha1.ModelServing) {
		r := &ms.Spec.Template.Roles[0]
		r.Replicas = &n
		budgetOf(values, &r.MaxUnavailable, &r.MaxSurge, &r.Partition)
	}
}

func budgetOf(values []string, fields ...**intstr.IntOrString) {
	for i, v := range values {
		if v != "" {
			*fields[i] = new(intstr.Parse(v))
		}
	}
}

// pod changes the entry template of the second role.
func pod(change func(*corev1.PodTemplateSpec)) func(*v1alpha1.ModelServing) {
	return func(ms *v1alpha1.ModelServing) { change(&ms.Spec.Template.Roles[1].EntryTemplate) }
}

// engine changes the container of that template.
func engine(change func(*corev1.Container)) func(*v1alpha1.ModelServing) {
	return pod(func(t *corev1.PodTemplateSpec) { change(&t.Spec.Containers[0]) })
}

func named(name string) func(*v1alpha1.ModelServing) {
	return func(ms *v1alpha1.ModelServing) { ms.Name = name }
}

func image(ref string) func(*v1alpha1.ModelServing) {
	return engine(func(c *corev1.Container) { c.Image = ref })
}

// updating is a ledger.
func updating(units ...string) func(*v1alpha1.ModelServing) {
	return func(ms *v1alpha1.ModelServing) { ms.Status.Updating = units }
}

// judge fails unless Validate refuses with each of the texts; no text means accepted.
func judge(t *testing.T, old, ms *v1alpha1.ModelServing, want ...string) {
	t.Helper()
	_, errs := admission.Validate(old, ms)
	text := ""
	if err := errs.ToAggregate(); err != nil {
		text = err.Error()
	}
	if len(want) == 0 && text != "" {
		t.Errorf("refused: %s", text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("refused with %q; want %q", text, w)
		}
	}
}
