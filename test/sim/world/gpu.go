package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// sickGPUs has the GPUs of a node be sick for a while, or those of all nodes at once, as a bug of the driver does.
func (w *World) sickGPUs() {
	nodes := w.nodes
	if w.Chance(0.7) {
		nodes = []*node{pick(w.Loop, w.nodes...)}
	}
	for _, n := range nodes {
		n.gpuSick = true
		w.tell("world", "the GPUs of %s are sick", n.name)
		w.After(w.Between(100*time.Millisecond, 3*time.Second), func() { w.reportGPUs(n) })
		w.After(w.Between(5*time.Second, 5*time.Minute), func() { w.healGPUs(n) })
	}
}

// releaseDriver has the agent of a node let go of the GPU driver for a while.
func (w *World) releaseDriver() {
	n := pick(w.Loop, w.nodes...)
	n.driverless = true
	w.tell("world", "the GPU driver of %s is released", n.name)
	w.After(w.Between(100*time.Millisecond, 3*time.Second), func() { w.reportGPUs(n) })
	w.After(w.Between(5*time.Second, time.Hour), func() { w.healGPUs(n) })
}

func (w *World) healGPUs(n *node) {
	if !n.gpuSick && !n.driverless {
		return
	}
	n.gpuSick, n.driverless = false, false
	w.tell("world", "the GPUs of %s are healthy", n.name)
	w.wakeAll(n)
	w.After(w.Between(100*time.Millisecond, 3*time.Second), func() { w.reportGPUs(n) })
}

// reportGPUs is the node's agent: what it says of its Pods is what it finds.
func (w *World) reportGPUs(n *node) {
	if !n.hasAgent {
		return
	}
	if !n.live() {
		w.After(10*time.Second, func() { w.reportGPUs(n) })
		return
	}
	want := condition(v1alpha1.GPUHealthy, !n.gpuSick)
	want.Reason = "Driver"
	if n.driverless && !n.gpuSick {
		want.Status, want.Reason = corev1.ConditionUnknown, string(v1alpha1.GPUUnknownReleased)
	}
	for _, pod := range w.pods(n) {
		var is corev1.PodCondition
		for _, c := range pod.Status.Conditions {
			if c.Type == v1alpha1.GPUHealthy {
				is = c
			}
		}
		if is.Status == want.Status || is.Status == "" && want.Status == corev1.ConditionTrue {
			continue
		}
		c := pod.DeepCopy()
		set(c, want, metav1.NewTime(w.Now()))
		w.must(w.as("agent/"+n.name).Status().Update(w.ctx, c))
	}
}
