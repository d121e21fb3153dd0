package invariant

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// ofOthers judges whose object the coordinator writes.
func (c *Checker) ofOthers(w cluster.Write) {
	want := ""
	switch w.Kind {
	case cluster.ModelServing:
		return
	case cluster.ServingGroup, cluster.ControllerRevision:
		want = cluster.ModelServing
	case cluster.Pod, cluster.Service:
		want = cluster.ServingGroup
	case cluster.InPlaceUpdate:
		if order := w.Object().(*v1alpha1.InPlaceUpdate); order.Spec.ServingGroupUID == "" {
			c.violated(w, ruleOwner, "the order was made by hand")
		}
		return
	}
	switch owner := metav1.GetControllerOfNoCopy(w.Object()); {
	case owner == nil || owner.Kind != want:
		c.violated(w, ruleOwner, "its controller is no %s", want)
	case w.Old != nil && !w.Bound:
		c.violated(w, ruleOwner, "the write is not bound to what was read")
	}
	if pod, ok := w.Old.(*corev1.Pod); ok && w.Verb == cluster.Update {
		c.ofPodUpdate(w, pod, w.New)
	}
}

// ofPodUpdate: of a Pod that exists the coordinator writes labels and annotations of its own.
func (c *Checker) ofPodUpdate(w cluster.Write, before *corev1.Pod, after client.Object) {
	for key, value := range before.Annotations {
		if now, ok := after.GetAnnotations()[key]; (!ok || now != value) && key != v1alpha1.HoldUnit && key != v1alpha1.HoldGPUHealth {
			c.violated(w, ruleOwner, "annotation %s is not the coordinator's", key)
		}
	}
}
