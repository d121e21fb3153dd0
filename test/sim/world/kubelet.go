package world

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// engine is what node and kubelet know of a Pod, which has one container.
type engine struct {
	key      types.NamespacedName
	uid      types.UID
	made     []cri.Container // the newest first
	image    string          // of the newest
	ready    bool
	failed   bool // the Pod, for good
	stopping bool // the Pod is being deleted
	killed   bool // the newest container is being stopped
	crashes  int  // of the image, one after the other
	waiting  string
	idle     time.Time // when its last request ends
}

func (e *engine) running() bool { return len(e.made) > 0 && e.made[0].State == cri.Running }

// over reports whether kubelet starts nothing in the Pod any more.
func (e *engine) over() bool { return e.failed || e.stopping }

func (e *engine) restarts() int32 { return int32(max(0, len(e.made)-1)) } //nolint:gosec // few

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
	e := &engine{key: client.ObjectKeyFromObject(pod), uid: pod.UID}
	w.engines[pod.UID] = e
	w.After(w.Between(300*time.Millisecond, 3*time.Second), func() { w.start(e) })
}

// engine returns that of a Pod, and the Pod; nil if there is nothing for kubelet to do.
func (w *World) engineOf(uid types.UID) (*engine, *corev1.Pod) {
	e := w.engines[uid]
	if e == nil {
		return nil, nil
	}
	return e, w.pod(e.key, uid)
}

// start runs the Pod's container if none runs. What its image is decides what follows.
func (w *World) start(e *engine) {
	pod := w.pod(e.key, e.uid)
	if pod == nil || e.over() || e.running() {
		return
	}
	n := w.node(pod.Spec.NodeName)
	if !n.up {
		w.After(10*time.Second, func() { w.start(e) })
		return
	}
	image := pod.Spec.Containers[0].Image
	if !n.images[image] && !w.exists(image) {
		e.waiting = "ImagePullBackOff"
		w.report(e)
		w.After(20*time.Second, func() { w.start(e) })
		return
	}
	n.images[image], e.waiting = true, ""
	if e.image != image {
		e.image, e.crashes = image, 0
	}
	w.containers++
	c := cri.Container{
		ID: fmt.Sprintf("c%d", w.containers), Name: pod.Spec.Containers[0].Name, State: cri.Running, Hash: hash(image),
		ImageID: imageID(image), RestartCount: len(e.made), CreatedAt: w.Now(), StartedAt: w.Now(),
	}
	e.made, e.killed, e.ready = append([]cri.Container{c}, e.made...), false, false
	w.seen(e)
	w.behave(e, c.ID)
	if n.gpuSick || n.driverless {
		w.After(time.Second, func() { w.reportGPUs(n) })
	}
}

// behave is what an image does once it runs.
func (w *World) behave(e *engine, id string) {
	switch kindOfImage(e.image) {
	case imageStuck:
	case imageCrash:
		w.After(w.Between(time.Second, 20*time.Second), func() { w.crash(e, id) })
	default:
		w.After(w.Between(500*time.Millisecond, 20*time.Second), func() {
			if e.running() && e.made[0].ID == id && !e.killed && !e.over() {
				e.ready = true
				w.report(e)
			}
		})
	}
}

// seen has kubelet, and the agent, see a change in the runtime.
func (w *World) seen(e *engine) {
	w.After(w.Between(10*time.Millisecond, 500*time.Millisecond), func() { w.report(e) })
	w.wakeAgent(e.key)
}

// crash ends the container; kubelet starts it again, each time later. An empty id means any.
func (w *World) crash(e *engine, id string) {
	if e == nil || !e.running() || e.over() || id != "" && e.made[0].ID != id {
		return
	}
	w.exit(e)
	e.crashes++
	w.report(e)
	if e.crashes < 6 {
		w.After(time.Second<<e.crashes, func() { w.start(e) })
	}
}

// exit ends the running container.
func (w *World) exit(e *engine) {
	e.made = slices.Clone(e.made) // the agent may hold the list
	e.made[0].State, e.made[0].FinishedAt = cri.Exited, w.Now()
	e.ready, e.killed, e.idle = false, false, w.Now()
	e.waiting = "CrashLoopBackOff"
	w.wakeAgent(e.key)
}

// follows is kubelet at a Pod of which the images were changed: it stops the container, and starts the
// new one. One in a hundred ignores that it is to stop.
func (w *World) follows(e *engine) {
	pod := w.pod(e.key, e.uid)
	switch {
	case pod == nil || e.over() || e.image == pod.Spec.Containers[0].Image:
	case !w.node(pod.Spec.NodeName).up:
		w.After(10*time.Second, func() { w.follows(e) })
	case !e.running():
		w.start(e)
	default:
		long := 2 * time.Second
		if w.Chance(0.05) {
			long = time.Minute
		}
		w.stop(e, e.made[0].ID, w.Between(50*time.Millisecond, long))
	}
}

// stop ends a container within d, and then kubelet starts the one that is to run.
func (w *World) stop(e *engine, id string, d time.Duration) {
	e.killed, e.ready = true, false
	w.report(e)
	w.After(d, func() {
		if e.running() && e.made[0].ID == id {
			w.exit(e)
			w.seen(e)
			w.After(w.Between(20*time.Millisecond, time.Second), func() { w.start(e) })
		}
	})
}

// fail ends the Pod for good, as an eviction does.
func (w *World) fail(e *engine) {
	if e == nil || e.over() {
		return
	}
	if e.running() {
		w.exit(e)
	}
	e.failed, e.ready = true, false
	w.report(e)
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
		if e.running() {
			w.exit(e)
		}
		e.stopping, e.ready = true, false
		w.report(e)
		w.After(50*time.Millisecond, func() { w.remove(key, uid) })
		return
	}
	w.must(w.Server.Release("kubelet/"+pod.Spec.NodeName, pod))
}

// report writes the Pod's status as its kubelet sees it.
func (w *World) report(e *engine) {
	pod := w.pod(e.key, e.uid)
	if pod == nil || !w.node(pod.Spec.NodeName).up {
		return
	}
	pod.Status.Phase = phaseOf(e, pod.Status.Phase)
	pod.Status.PodIP = "198.18.0.1"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{containerStatus(pod.Spec.Containers[0], e)}
	now := metav1.NewTime(w.Now())
	set(pod, condition(corev1.PodScheduled, true), now)
	set(pod, condition(corev1.ContainersReady, e.ready), now)
	set(pod, readyOf(pod, e.ready), now)
	w.must(w.as("kubelet/"+pod.Spec.NodeName).Status().Update(w.ctx, pod))
}

func phaseOf(e *engine, now corev1.PodPhase) corev1.PodPhase {
	switch {
	case e.failed:
		return corev1.PodFailed
	case len(e.made) > 0:
		return corev1.PodRunning
	default:
		return now
	}
}

func containerStatus(c corev1.Container, e *engine) corev1.ContainerStatus {
	up := e.running()
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: e.ready, Started: &up, RestartCount: e.restarts()}
	if len(e.made) > 0 {
		s.ContainerID, s.ImageID = "containerd://"+e.made[0].ID, e.made[0].ImageID
	}
	switch {
	case e.failed:
		s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}
	case up:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(e.made[0].StartedAt.Truncate(time.Second))}
	case e.waiting != "":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: e.waiting}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	return s
}

func condition(t corev1.PodConditionType, is bool) corev1.PodCondition { //nolint:revive // a conversion
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse}
	if is {
		c.Status = corev1.ConditionTrue
	}
	return c
}

// readyOf is the condition Ready; kubelet has its own words for a gate that is not open.
func readyOf(pod *corev1.Pod, containers bool) corev1.PodCondition {
	gate := gateOf(pod)
	c := condition(corev1.PodReady, containers && (len(pod.Spec.ReadinessGates) == 0 || gate == corev1.ConditionTrue))
	switch {
	case c.Status == corev1.ConditionTrue:
	case !containers:
		c.Reason = "ContainersNotReady"
	case gate == "":
		c.Reason = "ReadinessGatesNotReady"
		c.Message = `corresponding condition of pod readiness gate "` + string(v1alpha1.InService) + `" does not exist.`
	default:
		c.Reason = "ReadinessGatesNotReady"
		c.Message = `the status of pod readiness gate "` + string(v1alpha1.InService) + `" is not "True", but False`
	}
	return c
}

// set writes a condition.
func set(pod *corev1.Pod, c corev1.PodCondition, now metav1.Time) {
	c.LastTransitionTime = now
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != c.Type {
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
