package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/test/sim/cluster"
)

// isPin reports whether the Pod has an image as a volume, as pin Pods do and no other.
func isPin(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && len(pod.Spec.Volumes) > 0 && pod.Spec.Volumes[0].Image != nil
}

// pinned is the image that a pin Pod brings.
func pinned(pod *corev1.Pod) string { return pod.Spec.Volumes[0].Image.Reference }

// pins returns the pin Pods of a node, or all if it is nil.
func (w *World) pins(n *node) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range w.Server.All(cluster.Pod) {
		if pod, ok := o.(*corev1.Pod); ok && isPin(pod) && (n == nil || pod.Spec.NodeName == n.name) {
			out = append(out, pod)
		}
	}
	return out
}

// runs reports whether the container of a pin Pod runs, so that its image is used.
func runs(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

func (w *World) followPin(c cluster.Write) {
	switch c.Verb {
	case cluster.Create:
		w.After(w.Between(10*time.Millisecond, 2*time.Second), func() { w.startPin(c.Key, c.New.GetUID()) })
	case cluster.Mark:
		w.terminate(c.New)
	case cluster.Update, cluster.UpdateStatus, cluster.Remove:
	}
}

// startPin is kubelet at a pin Pod: it pulls its image with the credentials that it has, and tries that again.
func (w *World) startPin(key types.NamespacedName, uid types.UID) {
	pod := w.pod(key, uid)
	if pod == nil || pod.DeletionTimestamp != nil || runs(pod) || pod.Status.Phase == corev1.PodFailed {
		return
	}
	n := w.node(pod.Spec.NodeName)
	if !n.up {
		return // it is started when the node is back
	}
	image := pinned(pod)
	if trouble := w.trouble(image); !n.images[image] && trouble != "" {
		w.pinStatus(pod, corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason:  "ErrImagePull",
			Message: "rpc error: code = Unknown desc = failed to pull and unpack image \"" + image + "\": failed to resolve image: " + image + trouble,
		}})
		w.After(20*time.Second, func() { w.startPin(key, uid) })
		return
	}
	n.images[image] = true
	w.pinStatus(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.Now().Truncate(time.Second))}})
}

// trouble is what the registry says to kubelet about an image; empty if it gives it.
func (w *World) trouble(image string) string {
	switch {
	case kindOfImage(image) == imageDenied, Borrowed(image):
		return ": 401 Unauthorized"
	case !w.exists(image) && kindOfImage(image) != imageForeign:
		return ": not found"
	case w.Chance(0.05):
		return ": connection refused"
	}
	return ""
}

func (w *World) pinStatus(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, State: state, Ready: state.Running != nil,
	}}
	w.must(w.as("kubelet/"+pod.Spec.NodeName).Status().Update(w.ctx, pod))
}

// hurtPin has somebody delete a pin Pod, or kubelet evict it.
func (w *World) hurtPin() {
	all := w.pins(nil)
	if len(all) == 0 {
		return
	}
	pod := pick(w.Loop, all...)
	if w.Chance(0.5) || pod.DeletionTimestamp != nil || !w.node(pod.Spec.NodeName).up {
		w.userDeletes(pod)
		return
	}
	w.tell("world", "%s is evicted", pod.Name)
	w.pinStatus(pod.DeepCopy(), corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}})
}
