package readiness

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

func TestDrain(t *testing.T) {
	type step struct {
		ms  int64
		r   Requests
		err error
	}
	idle, busy, unknown := Requests{}, Requests{Running: 1}, errors.New("refused")
	for name, tt := range map[string]struct {
		steps   []step
		drained bool
		last    Requests
		known   bool
	}{
		"nothing was asked":           {},
		"one scrape is none":          {[]step{{0, idle, nil}}, false, idle, true},
		"two at 0":                    {[]step{{0, busy, nil}, {1000, idle, nil}, {2000, idle, nil}}, true, idle, true},
		"two at once are one":         {[]step{{0, idle, nil}, {1, idle, nil}}, false, idle, true},
		"many within the time":        {[]step{{0, idle, nil}, {250, idle, nil}, {499, idle, nil}}, false, idle, true},
		"many over the time":          {[]step{{0, idle, nil}, {250, idle, nil}, {500, idle, nil}}, true, idle, true},
		"a request between":           {[]step{{0, idle, nil}, {1000, busy, nil}, {2000, idle, nil}}, false, idle, true},
		"a waiting request between":   {[]step{{0, idle, nil}, {1000, Requests{Waiting: 1}, nil}, {2000, idle, nil}}, false, idle, true},
		"unknown between":             {[]step{{0, idle, nil}, {1000, idle, unknown}, {2000, idle, nil}}, false, idle, true},
		"unknown keeps the reading":   {[]step{{0, busy, nil}, {1000, idle, unknown}}, false, busy, true},
		"never known":                 {[]step{{0, idle, unknown}, {1000, idle, unknown}, {2000, idle, unknown}}, false, idle, false},
		"work was done between":       {[]step{{0, Requests{Work: 4}, nil}, {1000, Requests{Work: 5}, nil}}, false, Requests{Work: 5}, true},
		"work has come to its end":    {[]step{{0, Requests{Work: 4}, nil}, {1000, Requests{Work: 5}, nil}, {2000, Requests{Work: 5}, nil}}, true, Requests{Work: 5}, true},
		"a restarted engine":          {[]step{{0, Requests{Work: 4}, nil}, {1000, Requests{Work: 0}, nil}}, false, idle, true},
		"a request after the proof":   {[]step{{0, idle, nil}, {1000, idle, nil}, {2000, busy, nil}}, false, busy, true},
		"an error after the proof":    {[]step{{0, idle, nil}, {1000, idle, nil}, {2000, idle, unknown}}, false, idle, true},
		"a clock that was set back":   {[]step{{5000, idle, nil}, {1000, idle, nil}}, false, idle, true},
		"stays drained while it is 0": {[]step{{0, idle, nil}, {1000, idle, nil}, {2000, idle, nil}}, true, idle, true},
	} {
		t.Run(name, func(t *testing.T) {
			var d Drain
			for _, s := range tt.steps {
				d = d.Next(t0().Add(time.Duration(s.ms)*time.Millisecond), s.r, s.err)
			}
			if d.Drained() != tt.drained || d.Last != tt.last || d.Known != tt.known {
				t.Errorf("drained = %t, %+v, known = %t", d.Drained(), d.Last, d.Known)
			}
		})
	}
}

func TestNothingToDrain(t *testing.T) {
	served := withGate(corev1.ConditionFalse, "held by inplace (token "+testToken+"): lowered 2026-01-02T03:00:00.000Z")
	status := func(name string, s corev1.ContainerState) podOption {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: s})
		}
	}
	running := func(name string, at time.Time) podOption {
		return status(name, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}})
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	sidecar := func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar"})
	}
	noPorts := func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports = nil }
	index := func(v string) podOption {
		return func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.LabelIndex, v) }
	}
	// withCondition's transition is an hour before t0.
	notReady := withCondition(corev1.PodReady, corev1.ConditionFalse, reasonGatesNotReady, ourGateFalse)
	then, later := t0().Add(-2*time.Hour), t0().Add(-time.Minute)
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want Nothing // empty: there may be something
	}{
		"an engine that was Ready":             {newPod(served, notReady, running("engine", then)), ""},
		"a worker":                             {newPod(served, notReady, running("engine", then), index("1")), NothingWorker},
		"an entry Pod":                         {newPod(served, notReady, running("engine", then), index("0")), ""},
		"a Pod that was never opened":          {newPod(withGate(corev1.ConditionFalse, "held by inplace, unit (token a/1): lowered 2026-01-02T03:00:00.000Z, never served"), running("engine", then)), NothingNeverServed},
		"a Pod whose gate is absent":           {newPod(running("engine", then)), NothingNeverServed},
		"a Pod without the gate":               {newPod(withoutGate, running("engine", then)), ""},
		"an engine that is loading":            {newPod(served, notReady, running("engine", later)), NothingNeverServed},
		"Ready lost in the second of a start":  {newPod(served, notReady, running("engine", t0().Add(-time.Hour))), ""},
		"a Ready Pod":                          {newPod(served, withCondition(corev1.PodReady, corev1.ConditionTrue, "", ""), running("engine", later)), ""},
		"a sidecar that was restarted":         {newPod(sidecar, served, notReady, running("engine", then), running("sidecar", later)), ""},
		"a crashed engine":                     {newPod(served, notReady, status("engine", waiting)), NothingNotRunning},
		"an engine that ended":                 {newPod(served, notReady, status("engine", ended)), NothingNotRunning},
		"a crashed engine, a live sidecar":     {newPod(sidecar, served, notReady, status("engine", waiting), running("sidecar", then)), NothingNotRunning},
		"a live engine, a crashed sidecar":     {newPod(sidecar, served, notReady, running("engine", then), status("sidecar", waiting)), ""},
		"no port says which is the engine":     {newPod(sidecar, noPorts, served, notReady, status("engine", waiting), running("sidecar", then)), ""},
		"no port, and none runs":               {newPod(sidecar, noPorts, served, notReady, status("engine", waiting), status("sidecar", ended)), NothingNotRunning},
		"kubelet has not said":                 {newPod(served, notReady), ""},
		"kubelet has said nothing of it":       {newPod(served, notReady, status("engine", corev1.ContainerState{})), ""},
		"the port is a number of no container": {newPod(withAnnotation(v1alpha1.MetricsPort, "7"), served, notReady, status("engine", waiting)), NothingNotRunning},
	} {
		t.Run(name, func(t *testing.T) {
			got, nothing := NothingToDrain(tt.pod)
			if got != tt.want || nothing != (tt.want != "") {
				t.Errorf("NothingToDrain() = %q, %t", got, nothing)
			}
		})
	}
}
