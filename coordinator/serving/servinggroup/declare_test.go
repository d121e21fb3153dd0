package servinggroup_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/revision"
)

// declare returns a ModelServing with a group of two roles: prefill with one worker, and decode.
func declare(t *testing.T, revisions ...string) []client.Object {
	t.Helper()
	ms := &v1alpha1.ModelServing{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ModelServing"},
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "llm", UID: "ms"},
	}
	container := corev1.Container{
		Name: "engine", Image: "engine:1",
		Env: []corev1.EnvVar{{Name: "GROUP_SIZE", Value: "9"}, {Name: "ADDRESS", Value: "$(ENTRY_ADDRESS):1"}},
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "llm"}, Annotations: map[string]string{"note": "kept"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container}, InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}}},
	}
	ms.Spec.SchedulerName = "volcano"
	ms.Spec.Template.Roles = []v1alpha1.Role{
		{Name: "decode", EntryTemplate: template},
		{Name: "prefill", EntryTemplate: template, WorkerReplicas: 1, WorkerTemplate: template.DeepCopy()},
	}
	objects := []client.Object{ms}
	for n, name := range revisions {
		objects = append(objects, stored(t, ms, name, n+1))
	}
	sg := &v1alpha1.ServingGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: space, Name: "llm-0", UID: "sg", Finalizers: []string{v1alpha1.FinalizerOrdinal},
			Labels:          map[string]string{v1alpha1.LabelModelServing: "llm"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ms, v1alpha1.GroupVersion.WithKind("ModelServing"))},
		},
		Spec: v1alpha1.ServingGroupSpec{
			Ordinal: new(int32(0)), Revision: revisions[0],
			Instances: []v1alpha1.RoleInstance{{Role: "prefill", Ordinal: new(int32(0))}, {Role: "decode", Ordinal: new(int32(0))}},
		},
	}
	return append(objects, sg)
}

// stored returns the revision with the n-th image.
func stored(t *testing.T, ms *v1alpha1.ModelServing, name string, n int) *appsv1.ControllerRevision {
	t.Helper()
	spec := ms.Spec.DeepCopy()
	for r := range spec.Template.Roles {
		spec.Template.Roles[r].EntryTemplate.Spec.Containers[0].Image = fmt.Sprintf("engine:%d", n)
	}
	data, err := revision.Project(spec)
	if err != nil {
		t.Fatal(err)
	}
	cr, err := revision.New(ms, data, int64(n), 0)
	if err != nil {
		t.Fatal(err)
	}
	cr.Name = name
	return cr
}
