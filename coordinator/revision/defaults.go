package revision

import (
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// leaveOut takes from a Pod's spec what the API server fills in where it is absent: the defaults of
// core/v1, those for Pods as well as those for templates. It changes spec.
//
// Only what the server itself would write is left out. A field that merely means the same as its
// absence (privileged: false) stays, since policies in the cluster may insist on it. Requests of the
// whole Pod stay as well: what the server derives for them depends on all containers and on its version.
func leaveOut(spec *corev1.PodSpec) {
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = ""
	drop(&spec.DNSPolicy, corev1.DNSClusterFirst)
	drop(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	dropPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if s := spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		*s = 1 // as the server does in Pods
	}
	dropPointer(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	spellList(spec.Overhead)
	if spec.Resources != nil {
		spellList(spec.Resources.Limits)
		spellList(spec.Resources.Requests)
	}
	for i := range spec.Volumes {
		leaveOutOfVolume(&spec.Volumes[i])
	}
	for c := range containers(spec) {
		leaveOutOfContainer(c)
		if spec.HostNetwork {
			for i := range c.Ports {
				drop(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
			}
		}
	}
}

// containers are those of all three kinds, to be changed in place.
func containers(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range spec.InitContainers {
			if !yield(&spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

func leaveOutOfContainer(c *corev1.Container) {
	drop(&c.ImagePullPolicy, pullPolicy(c.Image))
	drop(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	drop(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		drop(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		leaveOutOfEnv(c.Env[i].ValueFrom)
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		leaveOutOfProbe(p)
	}
	if l := c.Lifecycle; l != nil {
		for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
			if h != nil {
				leaveOutOfHTTP(h.HTTPGet)
			}
		}
	}
	spellList(c.Resources.Limits)
	spellList(c.Resources.Requests)
	// The server sets a request that is absent to the limit.
	for name, limit := range c.Resources.Limits {
		if request, ok := c.Resources.Requests[name]; ok && request.Cmp(limit) == 0 {
			delete(c.Resources.Requests, name)
		}
	}
}

func leaveOutOfEnv(v *corev1.EnvVarSource) {
	if v == nil {
		return
	}
	leaveOutOfField(v.FieldRef)
	leaveOutOfResource(v.ResourceFieldRef)
	if v.FileKeyRef != nil {
		dropPointer(&v.FileKeyRef.Optional, false)
	}
}

func leaveOutOfField(f *corev1.ObjectFieldSelector) {
	if f != nil {
		drop(&f.APIVersion, "v1")
	}
}

func leaveOutOfResource(f *corev1.ResourceFieldSelector) {
	if f != nil {
		f.Divisor = spell(f.Divisor)
	}
}

func leaveOutOfProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	drop(&p.TimeoutSeconds, 1)
	drop(&p.PeriodSeconds, 10)
	drop(&p.SuccessThreshold, 1)
	drop(&p.FailureThreshold, 3)
	leaveOutOfHTTP(p.HTTPGet)
	if p.GRPC != nil {
		dropPointer(&p.GRPC.Service, "")
	}
}

func leaveOutOfHTTP(a *corev1.HTTPGetAction) {
	if a == nil {
		return
	}
	drop(&a.Path, "/")
	drop(&a.Scheme, corev1.URISchemeHTTP)
	dropPointer(&a.Protocol, corev1.HTTPProtocolHTTP1)
}

func drop[T comparable](field *T, standard T) {
	if *field == standard {
		var absent T
		*field = absent
	}
}

func dropPointer[T comparable](field **T, standard T) {
	if *field != nil && **field == standard {
		*field = nil
	}
}

// pullPolicy is the policy that the server sets by the image's tag. Of a name that cannot be parsed,
// and so never runs, the server thinks otherwise.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, pinned := strings.Cut(image, "@")
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag = name[i+1:]
	}
	if tag == "latest" || tag == "" && !pinned {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
