package world

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// Parts of image names that say what becomes of their containers.
const (
	imageGood  = "good"
	imageStuck = "stuck" // runs and never gets ready
	imageCrash = "crash"
)

// engine is what kubelet knows of a Pod: its containers are taken as one.
type engine struct {
	running  bool
	ready    bool
	failed   bool
	restarts int32
	stopping bool
}

func (w *World) schedule(o client.Object) {
	pod := w.pod(client.ObjectKeyFromObject(o), o.GetUID())
	if pod == nil || pod.Spec.NodeName != "" {
		return
	}
	var up []*node
	for _, n := range w.nodes {
		if n.up {
			up = append(up, n)
		}
	}
	if len(up) == 0 || w.Chance(0.02) {
		w.After(w.Between(2*time.Second, time.Minute), func() { w.schedule(o) })
		return
	}
	pod.Spec.NodeName = pick(w.Loop, up...).name
	w.must(w.as("scheduler").Update(w.ctx, pod))
	w.engines[pod.UID] = &engine{}
	w.After(w.Between(300*time.Millisecond, 3*time.Second), func() { w.start(client.ObjectKeyFromObject(pod), pod.UID) })
}

// start runs the Pod's containers. What their image is decides what follows.
func (w *World) start(key types.NamespacedName, uid types.UID) {
	pod, e := w.pod(key, uid), w.engines[uid]
	if pod == nil || e.failed {
		return
	}
	if !w.node(pod.Spec.NodeName).up {
		w.After(10*time.Second, func() { w.start(key, uid) })
		return
	}
	e.running = true
	w.report(key, uid)
	switch {
	case strings.Contains(pod.Spec.Containers[0].Image, imageStuck):
	case strings.Contains(pod.Spec.Containers[0].Image, imageCrash):
		w.After(w.Between(time.Second, 20*time.Second), func() { w.crash(key, uid) })
	default:
		w.After(w.Between(500*time.Millisecond, 20*time.Second), func() { w.becomeReady(key, uid) })
	}
}

func (w *World) becomeReady(key types.NamespacedName, uid types.UID) {
	if e := w.engines[uid]; e != nil && e.running && !e.stopping && !e.failed {
		e.ready = true
		w.report(key, uid)
	}
}

// crash ends the containers; kubelet starts them again, each time later.
func (w *World) crash(key types.NamespacedName, uid types.UID) {
	e := w.engines[uid]
	if e == nil || !e.running || e.stopping || e.failed {
		return
	}
	e.running, e.ready = false, false
	e.restarts++
	w.report(key, uid)
	if e.restarts < 6 {
		w.After(time.Second<<e.restarts, func() { w.start(key, uid) })
	}
}

// fail ends the Pod for good, as an eviction does.
func (w *World) fail(key types.NamespacedName, uid types.UID) {
	if e := w.engines[uid]; e != nil && !e.stopping {
		e.failed, e.ready, e.running = true, false, false
		w.report(key, uid)
	}
}

// terminate stops a deleted Pod's containers and removes it.
func (w *World) terminate(o client.Object) {
	key, uid := client.ObjectKeyFromObject(o), o.GetUID()
	grace := time.Duration(*o.GetDeletionGracePeriodSeconds()) * time.Second
	stop := w.Between(100*time.Millisecond, 2*time.Second)
	if w.Chance(0.1) {
		stop = grace
	}
	w.After(min(stop, grace), func() { w.remove(key, uid) })
}

func (w *World) remove(key types.NamespacedName, uid types.UID) {
	pod := w.pod(key, uid)
	if pod == nil {
		return
	}
	if n := w.node(pod.Spec.NodeName); n != nil && !n.up {
		w.After(15*time.Second, func() { w.remove(key, uid) })
		return
	}
	if e := w.engines[uid]; e != nil && !e.stopping {
		e.stopping, e.ready, e.running = true, false, false
		w.report(key, uid)
		w.After(50*time.Millisecond, func() { w.remove(key, uid) })
		return
	}
	w.must(w.Server.Release("kubelet/"+pod.Spec.NodeName, pod))
}

// report writes the Pod's status as its kubelet sees it.
func (w *World) report(key types.NamespacedName, uid types.UID) {
	pod, e := w.pod(key, uid), w.engines[uid]
	if pod == nil || e == nil || !w.node(pod.Spec.NodeName).up {
		return
	}
	pod.Status.Phase = phaseOf(e, pod.Status.Phase)
	pod.Status.PodIP = "198.18.0.1"
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, containerStatus(c, e))
	}
	now := metav1.NewTime(w.Now())
	set(pod, corev1.PodScheduled, corev1.ConditionTrue, now)
	set(pod, corev1.ContainersReady, status(e.ready), now)
	set(pod, corev1.PodReady, status(e.ready && (len(pod.Spec.ReadinessGates) == 0 || gateOf(pod) == corev1.ConditionTrue)), now)
	w.must(w.as("kubelet/"+pod.Spec.NodeName).Status().Update(w.ctx, pod))
}

func phaseOf(e *engine, now corev1.PodPhase) corev1.PodPhase {
	switch {
	case e.failed:
		return corev1.PodFailed
	case e.running:
		return corev1.PodRunning
	default:
		return now
	}
}

func containerStatus(c corev1.Container, e *engine) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: e.ready, Started: &e.running, RestartCount: e.restarts}
	switch {
	case e.failed:
		s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}
	case e.running:
		s.State.Running = &corev1.ContainerStateRunning{}
	case e.restarts > 0:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	return s
}

// set writes a condition; kubelet has its own words for a gate that is not open.
func set(pod *corev1.Pod, t corev1.PodConditionType, is corev1.ConditionStatus, now metav1.Time) {
	c := corev1.PodCondition{Type: t, Status: is, LastTransitionTime: now}
	if is == corev1.ConditionFalse && t == corev1.PodReady && pod.Status.Phase == corev1.PodRunning {
		c.Reason = "ReadinessGatesNotReady"
		c.Message = `corresponding condition of pod readiness gate "` + string(v1alpha1.InService) + `" does not exist.`
	}
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != t {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

func status(is bool) corev1.ConditionStatus { //nolint:revive // a conversion
	if is {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}
