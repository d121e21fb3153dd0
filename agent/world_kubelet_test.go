package agent

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// kick has kubelet's worker look at the Pod: at once if it can, after the look under way if not.
func (w *world) kick(p *simPod) {
	switch {
	case p.gone() || !w.kubeletUp || !w.runtimeUp:
	case p.working:
		p.again = true
	default:
		p.working = true
		w.afterKubelet(w.jitter(time.Second), func() { w.sync(p) })
	}
}

// afterKubelet is after, for what dies with kubelet.
func (w *world) afterKubelet(d time.Duration, do func()) {
	epoch := w.kubeletEpoch
	w.after(d, func() {
		if epoch == w.kubeletEpoch {
			do()
		}
	})
}

// sync is one look of kubelet at one Pod: status first, from what it sees, then kills, one after
// the other, then starts. It acts on the images that it read at its beginning.
func (w *world) sync(p *simPod) {
	if p.gone() {
		p.working = false
		return
	}
	w.writeStatus(p)
	images := map[string]string{}
	for _, c := range p.pod.Spec.Containers {
		images[c.Name] = c.Image
	}
	w.killOld(p, images)
}

func (w *world) killOld(p *simPod, images map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(images)) {
		c := p.newest(name)
		if c == nil || c.State != cri.Running || c.Hash == w.hash(name, images[name]) {
			continue
		}
		id := c.ID
		w.stop(p, id, p.slow)
		epoch := w.kubeletEpoch
		p.onExit[id] = func() {
			if epoch == w.kubeletEpoch {
				w.killOld(p, images)
			}
		}
		return
	}
	w.startMissing(p, images)
}

func (w *world) startMissing(p *simPod, images map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(images)) {
		image := images[name]
		key := name + " " + image
		c := p.newest(name)
		switch {
		case c != nil && c.State == cri.Running:
			continue
		case w.now.Before(p.backoff[key]):
			w.afterKubelet(p.backoff[key].Sub(w.now)+time.Millisecond, func() { w.kick(p) })
			continue
		case !w.images[image]:
			w.kubeletPulls(p, key, image)
			continue
		}
		w.run(p, name, image, cri.Created)
		id := p.newest(name).ID
		if w.rng.IntN(10) == 0 {
			w.bury(p) // the collector's turn falls between make and start
		}
		w.afterKubelet(w.jitter(300*time.Millisecond), func() {
			w.begin(p, id, image)
			w.startMissing(p, images)
		})
		return
	}
	p.working = false
	if p.again {
		p.again = false
		w.kick(p)
	}
}

// kubeletPulls gets the image, or tries again later.
func (w *world) kubeletPulls(p *simPod, key, image string) {
	kind := registry(image)
	wait := 10 * time.Second
	if w.registryUp && kind.err == nil {
		wait = kind.pullTime
		w.after(wait, func() { w.images[image] = true })
	}
	p.backoff[key] = w.now.Add(wait)
	w.kick(p)
}

// writeStatus is kubelet's status of a Pod.
func (w *world) writeStatus(p *simPod) {
	pod := p.pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = nil
	all := true
	for _, spec := range pod.Spec.Containers {
		c := p.newest(spec.Name)
		s := corev1.ContainerStatus{Name: spec.Name, ContainerID: "containerd://" + c.ID, RestartCount: int32(c.RestartCount)} //nolint:gosec // small
		s.Ready = c.State == cri.Running && p.up[c.ID]
		if c.State == cri.Running {
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.StartedAt)}
		} else {
			s.State.Terminated = &corev1.ContainerStateTerminated{}
		}
		if last, ok := p.ends[spec.Name]; ok {
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ContainerID: "containerd://" + last.ID, ExitCode: last.ExitCode, StartedAt: metav1.NewTime(last.StartedAt.Truncate(time.Second)),
			}
		}
		all = all && s.Ready
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
	}
	gate := conditionOf(pod, v1alpha1.InService)
	isReady := all && gate != nil && gate.Status == corev1.ConditionTrue
	why := ""
	if all && !isReady {
		why = "ReadinessGatesNotReady"
	}
	w.setCondition(pod, corev1.ContainersReady, statusOf(all), "")
	if was := conditionOf(p.pod, corev1.PodReady); was != nil && was.Status == corev1.ConditionTrue && !isReady && p.idle.Before(w.now) {
		p.idle = w.now.Add(w.jitter(20 * time.Second)) // its last requests
	}
	w.setCondition(pod, corev1.PodReady, statusOf(isReady), why)
	if !equality.Semantic.DeepEqual(pod.Status, p.pod.Status) {
		w.store(p, pod)
	}
}
