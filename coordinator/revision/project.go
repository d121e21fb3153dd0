package revision

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// labelPrefix starts the labels that Pitstop sets on Pods. It defines none for templates.
const labelPrefix = "pitstop.dev/"

// Project returns the versioned part of a spec, in canonical form. The spec is not changed. Only one
// that admission would have refused has an error.
func Project(spec *v1alpha1.ModelServingSpec) (Data, error) {
	d, _, err := projection(spec)
	return d, err
}

// projection returns also the canonical bytes.
func projection(spec *v1alpha1.ModelServingSpec) (Data, []byte, error) {
	d := Data{SchedulerName: spec.SchedulerName}
	for i := range spec.Template.Roles {
		r := &spec.Template.Roles[i]
		d.Roles = append(d.Roles, Role{
			Name:           r.Name,
			WorkerReplicas: r.WorkerReplicas,
			EntryTemplate:  &r.EntryTemplate,
			WorkerTemplate: r.WorkerTemplate,
		})
	}
	data, err := d.Encode()
	if err != nil {
		return Data{}, nil, fmt.Errorf("project: %w", err)
	}
	// What is returned is what a reader of the stored bytes gets, nil and empty included.
	if d, err = parse(data); err != nil {
		return Data{}, nil, fmt.Errorf("project: %w", err)
	}
	return d, data, nil
}

// normalised returns a copy without what the API server fills in and what Pitstop sets.
func (r Role) normalised(schedulerName string) Role {
	out := Role{Name: r.Name, WorkerReplicas: r.WorkerReplicas}
	out.EntryTemplate = normalisedTemplate(r.EntryTemplate, schedulerName)
	if r.WorkerReplicas > 0 {
		out.WorkerTemplate = normalisedTemplate(r.WorkerTemplate, schedulerName)
	}
	return out
}

// normalisedTemplate keeps labels and annotations of the metadata: a template's Pods are named by
// Pitstop, and finalizers of Pods would outlive whoever knows them.
func normalisedTemplate(t *corev1.PodTemplateSpec, schedulerName string) *corev1.PodTemplateSpec {
	t = t.DeepCopy()
	t.ObjectMeta = metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations}
	for key := range t.Labels {
		if strings.HasPrefix(key, labelPrefix) {
			delete(t.Labels, key)
		}
	}
	for key := range t.Annotations {
		if owned(key) {
			delete(t.Annotations, key)
		}
	}
	spec := &t.Spec
	spec.ReadinessGates = slices.DeleteFunc(spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return g.ConditionType == v1alpha1.InService
	})
	// Equal to what the Pod gets without it: the ModelServing's, or the cluster's.
	if spec.SchedulerName == schedulerName || schedulerName == "" && spec.SchedulerName == corev1.DefaultSchedulerName {
		spec.SchedulerName = ""
	}
	leaveOut(spec)
	for c := range containers(spec) {
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.Name == v1alpha1.EnvGroupSize || e.Name == v1alpha1.EnvEntryAddress || e.Name == v1alpha1.EnvWorkerIndex
		})
	}
	return t
}

// owned says whether Pitstop writes the annotation of a Pod. The others of its domain are for users
// to write in templates.
func owned(annotation string) bool {
	switch annotation {
	case v1alpha1.HoldInPlace, v1alpha1.HoldUnit, v1alpha1.HoldDevice, v1alpha1.HoldGPUHealth,
		v1alpha1.PatchedAt, v1alpha1.RoleDigest:
		return true
	}
	return false
}
