package revision

import (
	"cmp"
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// What is left out of canonical data because it follows from another field has to be filled in before two
// are compared field by field, else a change of the one field would show as a change of both. It is
// filled in where just one side has it: where neither has, the other field says it all.

// alignInit aligns init containers. Those of one name are compared.
func alignInit(x, y []corev1.Container) {
	for old, updated := range pairs(x, y) {
		alignRequests(&old.Resources, &updated.Resources)
		if (old.ImagePullPolicy == "") != (updated.ImagePullPolicy == "") {
			old.ImagePullPolicy = cmp.Or(old.ImagePullPolicy, pullPolicy(old.Image))
			updated.ImagePullPolicy = cmp.Or(updated.ImagePullPolicy, pullPolicy(updated.Image))
		}
	}
}

// alignRequests: a request that is absent is the limit.
func alignRequests(x, y *corev1.ResourceRequirements) {
	fill := func(r, other *corev1.ResourceRequirements) {
		for name := range other.Requests {
			limit, limited := r.Limits[name]
			if _, ok := r.Requests[name]; ok || !limited {
				continue
			}
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = limit
		}
	}
	fill(x, y)
	fill(y, x)
}

// alignVolumes has the images of volumes.
func alignVolumes(x, y *corev1.PodSpec) {
	for i := range x.Volumes {
		for j := range y.Volumes {
			old, updated := &x.Volumes[i], &y.Volumes[j]
			if old.Name != updated.Name || old.Image == nil || updated.Image == nil {
				continue
			}
			if (old.Image.PullPolicy == "") != (updated.Image.PullPolicy == "") {
				old.Image.PullPolicy = cmp.Or(old.Image.PullPolicy, pullPolicy(old.Image.Reference))
				updated.Image.PullPolicy = cmp.Or(updated.Image.PullPolicy, pullPolicy(updated.Image.Reference))
			}
		}
	}
}

// pairs are the containers that both sides have, by name, to be changed in place.
func pairs(x, y []corev1.Container) iter.Seq2[*corev1.Container, *corev1.Container] {
	return func(yield func(a, b *corev1.Container) bool) {
		taken := make([]bool, len(y))
		for i := range x {
			for j := range y {
				if taken[j] || x[i].Name != y[j].Name {
					continue
				}
				taken[j] = true
				if !yield(&x[i], &y[j]) {
					return
				}
				break
			}
		}
	}
}
