package admission

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pitstop.dev/api/v1alpha1"
)

// imageReference is the form of an image that an InPlaceUpdate takes too.
var imageReference = regexp.MustCompile(`^((localhost|[A-Za-z0-9-]+([.][A-Za-z0-9-]+)+|[A-Za-z0-9-]+:[0-9]+|[[][0-9a-fA-F:]+[]])(:[0-9]+)?/)?` +
	`[a-z0-9]+(([.]|_|__|-+|/)[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// containersErrors judges the containers of a template, one by one and against each other.
func containersErrors(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), "a Pod has at least one container"))
	}
	names, volumes := sets.New[string](), sets.New[string]()
	for _, v := range s.Volumes {
		volumes.Insert(v.Name)
	}
	judge := func(list []corev1.Container, path *field.Path) {
		for i := range list {
			c, at := &list[i], path.Index(i)
			if names.Has(c.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
			}
			names.Insert(c.Name)
			errs = append(errs, containerErrors(c, at)...)
			errs = append(errs, mountErrors(c, volumes, at)...)
		}
	}
	judge(s.InitContainers, path.Child("initContainers"))
	judge(s.Containers, path.Child("containers"))
	for i := range s.Containers {
		if p := s.Containers[i].RestartPolicy; p != nil && *p != corev1.ContainerRestartPolicyAlways {
			errs = append(errs, field.NotSupported(path.Child("containers").Index(i).Child("restartPolicy"), *p,
				[]corev1.ContainerRestartPolicy{corev1.ContainerRestartPolicyAlways}))
			errs[len(errs)-1].Detail += ": containers of a serving unit are restarted where they are"
		}
	}
	return errs
}

func containerErrors(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(c.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), c.Name, msg))
	}
	switch {
	case c.Image == "":
		errs = append(errs, field.Required(path.Child("image"), "container "+c.Name+" needs an image: [HOST[:PORT]/]REPOSITORY[:TAG][@sha256:DIGEST]"))
	case !imageReference.MatchString(c.Image):
		errs = append(errs, field.Invalid(path.Child("image"), c.Image,
			"must be an image reference without spaces: [HOST[:PORT]/]REPOSITORY[:TAG][@sha256:DIGEST], with the repository in lower case"))
	}
	switch c.ImagePullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		errs = append(errs, field.NotSupported(path.Child("imagePullPolicy"), c.ImagePullPolicy,
			[]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}))
	}
	if len(c.RestartPolicyRules) > 0 {
		errs = append(errs, field.Forbidden(path.Child("restartPolicyRules"), "Pitstop counts on containers being restarted whatever their exit code: leave them out"))
	}
	errs = append(errs, envErrors(c.Env, path.Child("env"))...)
	errs = append(errs, portErrors(c.Ports, path.Child("ports"))...)
	return append(errs, resourceErrors(&c.Resources, path.Child("resources"))...)
}

func envErrors(env []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, e := range env {
		switch e.Name {
		case "":
			errs = append(errs, field.Required(path.Index(i).Child("name"), "a variable has a name"))
		case v1alpha1.EnvGroupSize, v1alpha1.EnvEntryAddress, v1alpha1.EnvWorkerIndex:
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"), e.Name+" is set by Pitstop in every container: leave it out"))
		}
	}
	return errs
}

func portErrors(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, p := range ports {
		at := path.Index(i)
		for _, msg := range validation.IsValidPortNum(int(p.ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("containerPort"), p.ContainerPort, msg))
		}
		if p.Name == "" {
			continue
		}
		for _, msg := range validation.IsValidPortName(p.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), p.Name, msg))
		}
		if names.Has(p.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		names.Insert(p.Name)
	}
	return errs
}

// mountErrors finds mounts of volumes that the Pod does not have, and two at one place.
func mountErrors(c *corev1.Container, volumes sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	places := sets.New[string]()
	for i, m := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		if !volumes.Has(m.Name) {
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		if m.MountPath == "" {
			errs = append(errs, field.Required(at.Child("mountPath"), "a mount has a path"))
		}
		if places.Has(m.MountPath) {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique in the container"))
		}
		places.Insert(m.MountPath)
	}
	for i, d := range c.VolumeDevices {
		if !volumes.Has(d.Name) {
			errs = append(errs, field.NotFound(path.Child("volumeDevices").Index(i).Child("name"), d.Name))
		}
	}
	return errs
}

// resourceErrors finds requests above their limits, and devices without a limit of the same number.
func resourceErrors(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sets.List(sets.KeySet(r.Requests)) {
		request, limit := r.Requests[name], r.Limits[name]
		_, limited := r.Limits[name]
		at := path.Child("requests").Key(string(name))
		switch {
		case request.Sign() < 0:
			errs = append(errs, field.Invalid(at, request.String(), "must be 0 or more"))
		case extended(name) && (!limited || request.Cmp(limit) != 0):
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must equal limits[%s]: %s cannot be shared", name, name)))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), "must be no more than the limit, "+limit.String()))
		}
	}
	for _, name := range sets.List(sets.KeySet(r.Limits)) {
		limit := r.Limits[name]
		at := path.Child("limits").Key(string(name))
		if limit.Sign() < 0 {
			errs = append(errs, field.Invalid(at, limit.String(), "must be 0 or more"))
		}
		if extended(name) && limit.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, limit.String(), "must be a whole number"))
		}
	}
	return errs
}

// extended reports a resource that cannot be shared: of a device plugin, such as nvidia.com/gpu, or
// huge pages.
func extended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return true
	}
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}
