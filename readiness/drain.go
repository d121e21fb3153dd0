package readiness

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// Requests are what an engine has to do.
type Requests struct {
	Running int64
	Waiting int64
	// Work grows as long as the engine works on anything; its unit is the engine's. An engine
	// that publishes its gauges now and then only may work on a request while they say 0.
	// 0 where the engine has no such count.
	Work float64
}

// None reports whether the engine is idle.
func (r Requests) None() bool { return r.Running == 0 && r.Waiting == 0 }

// drainSpacing is the least time between two scrapes that count as two.
const drainSpacing = 500 * time.Millisecond

// A Drain follows the scrapes of one attempt. The zero value has seen none. It is a value: a
// restarted agent begins anew.
type Drain struct {
	// Last is the latest known reading; it is meaningful where Known.
	Last  Requests
	Known bool

	idleSince time.Time // first of the unbroken scrapes at 0; zero if the latest was not
	drained   bool
}

// Next returns the Drain after one scrape at that time, as Scraper.Requests returned it. Two
// scrapes at 0, one after the other, half a second apart and with no work done in between,
// prove the drain. A scrape that failed is unknown: it proves nothing, and the count starts
// again. A request after the proof undoes it.
func (d Drain) Next(at time.Time, r Requests, err error) Drain {
	switch {
	case err != nil:
		return Drain{Last: d.Last, Known: d.Known}
	case !r.None():
		return Drain{Last: r, Known: true}
	case d.idleSince.IsZero() || r.Work != d.Last.Work:
		return Drain{Last: r, Known: true, idleSince: at}
	}
	d.drained = d.drained || at.Sub(d.idleSince) >= drainSpacing
	return d
}

// Drained reports whether the end of all requests is proved.
func (d Drain) Drained() bool { return d.drained }

// A Nothing says why a Pod has no requests that could be waited for.
type Nothing string

// The reasons for which a Pod has nothing to drain.
const (
	// NothingWorker: requests come in through the entry Pod; its drain is the unit's.
	NothingWorker Nothing = "Worker"
	// NothingNeverServed: no request can have come: the Pod, or what runs in it, never was in service.
	NothingNeverServed Nothing = "NeverServed"
	// NothingNotRunning: no engine container runs.
	NothingNotRunning Nothing = "NotRunning"
)

// NothingToDrain reports whether the Pod has no requests that could be waited for, and why.
// Where that is not certain it reports false.
func NothingToDrain(pod *corev1.Pod) (Nothing, bool) {
	if index, ok := pod.Labels[v1alpha1.LabelIndex]; ok && index != "0" {
		return NothingWorker, true
	}
	if GateOf(pod).NeverServed || startedSinceReady(pod) {
		return NothingNeverServed, true
	}
	if notRunning(pod) {
		return NothingNotRunning, true
	}
	return "", false
}

// startedSinceReady reports whether all containers were started after the Pod was Ready last:
// an engine that is loading has served nobody. Both times are kubelet's, in whole seconds.
func startedSinceReady(pod *corev1.Pod) bool {
	ready := condition(pod, corev1.PodReady)
	if ready == nil || ready.Status != corev1.ConditionFalse || ready.LastTransitionTime.IsZero() {
		return false
	}
	for _, c := range pod.Spec.Containers {
		s := statusOf(pod, c.Name)
		if s == nil || s.State.Running == nil || !ready.LastTransitionTime.Time.Before(s.State.Running.StartedAt.Time) {
			return false
		}
	}
	return len(pod.Spec.Containers) > 0
}

// notRunning reports whether no engine container runs, as far as kubelet has said.
func notRunning(pod *corev1.Pod) bool {
	for _, c := range engines(pod) {
		s := statusOf(pod, c.Name)
		if s == nil || s.State.Running != nil || s.State.Waiting == nil && s.State.Terminated == nil {
			return false
		}
	}
	return len(pod.Spec.Containers) > 0
}

// engines are the containers that may serve requests: the one with the metrics port, or all if
// none declares it.
func engines(pod *corev1.Pod) []corev1.Container {
	port, err := metricsPort(pod)
	if err != nil {
		return pod.Spec.Containers
	}
	for i, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.ContainerPort == port && isTCP(p) {
				return pod.Spec.Containers[i : i+1]
			}
		}
	}
	return pod.Spec.Containers
}

func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}
