package invariant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// pinned is the image that a pin Pod brings; empty for any other Pod.
func pinned(o client.Object) string {
	pod, ok := o.(*corev1.Pod)
	if !ok || len(pod.Spec.Volumes) == 0 || pod.Spec.Volumes[0].Image == nil {
		return ""
	}
	return pod.Spec.Volumes[0].Image.Reference
}

// ofPin judges what the coordinator does with pin Pods.
func (c *Checker) ofPin(w cluster.Write, image string) {
	switch w.Verb {
	case cluster.Create:
		c.ofMadePin(w, image)
	case cluster.Mark, cluster.Remove:
		if !w.Bound {
			c.violated(w, rulePinPod, "the deletion has no UID as precondition")
		}
	case cluster.Update, cluster.UpdateStatus:
		c.violated(w, rulePinPod, "it is changed")
	}
}

func (c *Checker) ofMadePin(w cluster.Write, image string) {
	pod := w.New.(*corev1.Pod)
	for _, label := range []string{
		v1alpha1.LabelModelServing, v1alpha1.LabelServingGroup, v1alpha1.LabelRole, v1alpha1.LabelInstance, v1alpha1.LabelIndex,
		v1alpha1.LabelRevision, v1alpha1.LabelLeader, v1alpha1.LabelStable,
	} {
		if _, has := pod.Labels[label]; has {
			c.violated(w, rulePinPod, "it has label %s", label)
		}
	}
	if pod.Spec.NodeName == "" || len(pod.Spec.ReadinessGates) > 0 || pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
		c.violated(w, rulePinPod, "it has no node, or a gate, or a token")
	}
	uid := ownerUID(pod)
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.OwnerReferences[0].Name}
	if !slices.ContainsFunc(c.server.Versions(cluster.ServingGroup, key, w.Frame.AsOf(cluster.ServingGroup)), func(o client.Object) bool {
		g, ok := o.(*v1alpha1.ServingGroup)
		return ok && g.UID == uid && c.wantsPin(g, image)
	}) {
		c.violated(w, rulePinPod, "no open update in place wants %s", image)
	}
}

// wantsPin reports whether an open update in place of the group leads to the image.
func (c *Checker) wantsPin(g *v1alpha1.ServingGroup, image string) bool {
	return g.DeletionTimestamp == nil && slices.ContainsFunc(g.Spec.Updates, func(u v1alpha1.UnitUpdate) bool {
		if u.Method != v1alpha1.UnitInPlace {
			return false
		}
		for _, images := range c.facts(g, u.Target).images {
			if slices.Contains(images[:], image) {
				return true
			}
		}
		return false
	})
}

// ofLeftPin: a pin Pod does not outlive the update that wants it, nor its group.
func (c *Checker) ofLeftPin(pod *corev1.Pod) {
	image := pinned(pod)
	if image == "" || pod.DeletionTimestamp != nil {
		return
	}
	for _, o := range c.server.All(cluster.ServingGroup) {
		if g := o.(*v1alpha1.ServingGroup); g.UID == ownerUID(pod) && c.wantsPin(g, image) {
			return
		}
	}
	c.ended(rulePinPod, "%s was left behind", pod.Name)
}
