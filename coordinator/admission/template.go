package admission

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pitstop.dev/api/v1alpha1"
)

const domain = "pitstop.dev/"

// templateErrors judges a Pod template: what every Pod made from it would fail on, and what
// Pitstop itself puts on Pods.
func templateErrors(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metadataErrors(t, path.Child("metadata"))
	errs = append(errs, podErrors(&t.Spec, path.Child("spec"))...)
	return append(errs, containersErrors(&t.Spec, path.Child("spec"))...)
}

func metadataErrors(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, validation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	for _, key := range sets.List(sets.KeySet(t.Labels)) {
		if strings.HasPrefix(key, domain) {
			errs = append(errs, field.Forbidden(path.Child("labels").Key(key), "labels under "+domain+" are set by Pitstop: take another name"))
		}
	}
	for _, key := range sets.List(sets.KeySet(t.Annotations)) {
		switch {
		case key == v1alpha1.MetricsPort, !strings.HasPrefix(key, domain):
		case strings.HasPrefix(key, v1alpha1.ResidentPrefix):
			errs = append(errs, residentErrors(t, key, path.Child("annotations").Key(key))...)
		case strings.HasPrefix(key, v1alpha1.HoldPrefix):
			errs = append(errs, field.Forbidden(path.Child("annotations").Key(key),
				"every Pod would be kept out of traffic from its birth: hold single Pods, as with kubectl pitstop hold"))
		default:
			errs = append(errs, field.Forbidden(path.Child("annotations").Key(key),
				"annotations under "+domain+" are set by Pitstop, but for "+v1alpha1.MetricsPort+" and "+v1alpha1.ResidentPrefix+"*: take another name"))
		}
	}
	return errs
}

// residentErrors judges the declaration that a container keeps memory on its GPUs.
func residentErrors(t *corev1.PodTemplateSpec, key string, path *field.Path) field.ErrorList {
	name := strings.TrimPrefix(key, v1alpha1.ResidentPrefix)
	named := func(c corev1.Container) bool { return c.Name == name }
	var errs field.ErrorList
	if !slices.ContainsFunc(t.Spec.Containers, named) && !slices.ContainsFunc(t.Spec.InitContainers, named) {
		errs = append(errs, field.Invalid(path, name, "names no container of the template"))
	}
	if _, err := v1alpha1.ResidentMiB(t.Annotations[key]); err != nil {
		errs = append(errs, field.Invalid(path, t.Annotations[key], err.Error()))
	}
	return errs
}

// podErrors judges what a template says of the Pod as a whole.
func podErrors(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.RestartPolicy != "" && s.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), s.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
		errs[len(errs)-1].Detail += ": containers of a serving unit are restarted where they are"
	}
	if s.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"), "would end a serving Pod: leave it out"))
	}
	if len(s.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "are added to a running Pod, not to a template: leave them out"))
	}
	if s.TerminationGracePeriodSeconds != nil && *s.TerminationGracePeriodSeconds < 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *s.TerminationGracePeriodSeconds, "must be 0 or more"))
	}
	errs = append(errs, hostnameErrors(s, path)...)
	for i, g := range s.ReadinessGates {
		if strings.HasPrefix(string(g.ConditionType), domain) {
			errs = append(errs, field.Forbidden(path.Child("readinessGates").Index(i), string(g.ConditionType)+
				": every Pod gets the readiness gate "+string(v1alpha1.InService)+" from Pitstop, and no other under "+domain+": leave it out"))
		}
	}
	return append(errs, volumeErrors(s.Volumes, path.Child("volumes"))...)
}

// hostnameErrors: Pods of an instance find each other by names that Pitstop gives.
func hostnameErrors(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, value string }{{"hostname", s.Hostname}, {"subdomain", s.Subdomain}} {
		if f.value != "" {
			errs = append(errs, field.Forbidden(path.Child(f.name), f.value+": is set by Pitstop, so that Pods of an instance find each other: leave it out"))
		}
	}
	if s.HostnameOverride != nil {
		errs = append(errs, field.Forbidden(path.Child("hostnameOverride"), *s.HostnameOverride+
			": would take from the Pod the name by which others of its instance find it: leave it out"))
	}
	return errs
}

func volumeErrors(volumes []corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, v := range volumes {
		at := path.Index(i).Child("name")
		for _, msg := range utilvalidation.IsDNS1123Label(v.Name) {
			errs = append(errs, field.Invalid(at, v.Name, msg))
		}
		if seen.Has(v.Name) {
			errs = append(errs, field.Duplicate(at, v.Name))
		}
		seen.Insert(v.Name)
	}
	return errs
}
