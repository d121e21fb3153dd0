package record

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// A container of one Pod.
type container struct {
	pod  types.UID
	name string
}

// starts is what is known of the starts of a container.
type starts struct{ first, patches int32 }

// change judges what happened to a Pod between two frames, where its group is updated in place.
func (j *Judge) change(f Frame, g *v1alpha1.ServingGroup, before, p *corev1.Pod) {
	if before != nil && before.UID != p.UID {
		before = nil
	}
	for _, name := range patched(before, p) {
		key := container{p.UID, name}
		s := j.starts[key]
		s.patches++
		j.starts[key] = s
		j.barrier(f, g)
	}
	for _, c := range p.Status.ContainerStatuses {
		j.restart(f, container{p.UID, c.Name}, c)
	}
}

// patched are the containers whose image was changed.
func patched(before, p *corev1.Pod) []string {
	if before == nil {
		return nil
	}
	var out []string
	for i, c := range p.Spec.Containers {
		if before.Spec.Containers[i].Image != c.Image {
			out = append(out, c.Name)
		}
	}
	return out
}

// barrier judges that an image is changed only while all Pods of the group are out of traffic.
func (j *Judge) barrier(f Frame, g *v1alpha1.ServingGroup) {
	for _, name := range slices.Sorted(maps.Keys(j.pods)) {
		if p := j.pods[name]; metav1.IsControlledBy(p, g) && p.DeletionTimestamp == nil && (ready(p) || !held(p)) {
			j.violate(f, "an image is changed while %s is Ready (%t) or is not held (%v)", name, ready(p), p.Annotations)
		}
	}
}

func held(p *corev1.Pod) bool {
	for key := range p.Annotations {
		if strings.HasPrefix(key, v1alpha1.HoldPrefix) {
			return true
		}
	}
	return false
}

// running reports whether only kubelet keeps the Pod out of traffic, and all its containers run.
func running(p *corev1.Pod) bool {
	return !held(p) && len(p.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running == nil
	})
}

// restart judges that a container is started again for a new image only, and that kubelet never has to
// fetch that: the agent has proved before that it is there.
func (j *Judge) restart(f Frame, key container, c corev1.ContainerStatus) {
	s, known := j.starts[key]
	if !known {
		s.first = c.RestartCount
		j.starts[key] = s
	}
	if n := c.RestartCount - s.first; j.Planned && n > s.patches+j.Spare[f.Object.GetName()] {
		j.violate(f, "container %s was restarted %d times for %d new images", key.name, n, s.patches)
	}
	if w := c.State.Waiting; s.patches > 0 && w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff") {
		j.violate(f, "kubelet has to fetch the image of container %s: %s", key.name, w.Message)
	}
}
