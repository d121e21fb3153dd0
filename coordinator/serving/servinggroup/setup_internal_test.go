package servinggroup

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

func TestPlace(t *testing.T) {
	type at struct {
		role            string
		instance, index int32
		ok              bool
	}
	for name, want := range map[string]at{
		"llm-0-prefill-0-0":  {"prefill", 0, 0, true},
		"llm-0-prefill-12-3": {"prefill", 12, 3, true},
		"llm-0-a-1-2-3":      {"a-1", 2, 3, true},
		"llm-0-prefill-0":    {},
		"llm-0-prefill-0-01": {},
		"llm-0-prefill-x-0":  {},
		"llm-1-prefill-0-0":  {},
		"llm-0":              {},
	} {
		t.Run(name, func(t *testing.T) {
			var got at
			got.role, got.instance, got.index, got.ok = place("llm-0", name)
			if !want.ok {
				got = at{ok: got.ok}
			}
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func TestLeaseWakesOnlyWhenTheAgentComesBack(t *testing.T) {
	lease := func(at time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(time.Unix(1000, 0).Add(at)))}}
	}
	newer := lease(10 * time.Second)
	newer.Annotations = map[string]string{v1alpha1.AnnotationAgentProtocol: strconv.Itoa(v1alpha1.AgentProtocol)}
	for name, tt := range map[string]struct {
		from, to *coordinationv1.Lease
		want     bool
	}{
		"renewed in time":                   {lease(0), lease(10 * time.Second), false},
		"renewed at the end":                {lease(0), lease(v1alpha1.AgentLeaseDuration), false},
		"renewed too late":                  {lease(0), lease(v1alpha1.AgentLeaseDuration + 1), true},
		"renewed for the first time":        {&coordinationv1.Lease{}, lease(0), true},
		"by an agent that understands more": {lease(0), newer, true},
		"given up":                          {lease(0), &coordinationv1.Lease{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := livenessChanged().Update(event.UpdateEvent{ObjectOld: tt.from, ObjectNew: tt.to}); got != tt.want {
				t.Errorf("%t", got)
			}
		})
	}
}

func TestSettingsThatWakeGroups(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.ModelServing)
		want   bool
	}{
		"recovery":                {func(ms *v1alpha1.ModelServing) { ms.Spec.RecoveryPolicy = v1alpha1.RecoverNone }, true},
		"grace period":            {func(ms *v1alpha1.ModelServing) { ms.Spec.Template.RestartGracePeriodSeconds = 5 }, true},
		"deadline":                {func(ms *v1alpha1.ModelServing) { ms.Spec.ProgressDeadlineSeconds = new(int32(5)) }, true},
		"drain":                   {func(ms *v1alpha1.ModelServing) { ms.Spec.RolloutStrategy.Drain.Mode = v1alpha1.DrainDelay }, true},
		"the same as the default": {func(ms *v1alpha1.ModelServing) { ms.Spec.RecoveryPolicy = v1alpha1.RecoverRole }, false},
		"replicas":                {func(ms *v1alpha1.ModelServing) { ms.Spec.Replicas = new(int32(5)) }, false},
		"status":                  {func(ms *v1alpha1.ModelServing) { ms.Status.Replicas = 5 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var from, to v1alpha1.ModelServing
			tt.change(&to)
			if got := settingsChanged().Update(event.UpdateEvent{ObjectOld: &from, ObjectNew: &to}); got != tt.want {
				t.Errorf("%t", got)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	m := newMetrics()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	see := func(name string, list ...pods.Pod) *sight {
		s := &sight{sg: &v1alpha1.ServingGroup{ObjectMeta: metav1.ObjectMeta{
			Namespace: "models", Name: name,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ModelServing", Name: "llm", Controller: new(true)}},
		}}}
		s.snap.Pods = list
		return s
	}
	plan := pods.Plan{Status: v1alpha1.ServingGroupStatus{Pods: 3}}
	m.observe(see("llm-0", pods.Pod{Ready: true}, pods.Pod{HeldUnit: true}), plan, outcome{})
	plan.Notices = []pods.Notice{{Reason: v1alpha1.EventRecovering}, {Reason: v1alpha1.EventDrainSkipped}}
	m.observe(see("llm-1", pods.Pod{Ready: true}, pods.Pod{Ready: true, Deleting: true}, pods.Pod{}), plan, outcome{})
	want := map[string]float64{
		"pods/deleting": 1, "pods/held": 1, "pods/missing": 1, "pods/not_ready": 1, "pods/ready": 2, "recoveries_total": 1, "drains_skipped_total": 1,
	}
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.forget(see("llm-0").key())
	m.forget(see("llm-1").key())
	if left := gather(t, registry); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// gather returns the series of ModelServings, by name and state.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), "pitstop_modelserving_")
		for _, series := range f.GetMetric() {
			if !ok {
				continue
			}
			key := name
			for _, l := range series.GetLabel() {
				if l.GetName() == "state" {
					key += "/" + l.GetValue()
				}
			}
			out[key] = series.GetGauge().GetValue() + series.GetCounter().GetValue()
		}
	}
	return out
}

func TestRestarted(t *testing.T) {
	start := metav1.NewTime(time.Unix(10_000, 0))
	after := func(d time.Duration) metav1.Time { return metav1.NewTime(start.Add(d)) }
	pod := func(ready corev1.ConditionStatus, c corev1.ContainerStatus) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{
			Conditions:        []corev1.PodCondition{{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: start}},
			ContainerStatuses: []corev1.ContainerStatus{c},
		}}
	}
	up := func(at metav1.Time) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
	}
	died := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: after(time.Second)}}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want time.Time
	}{
		"all is ready":                         {pod(corev1.ConditionTrue, corev1.ContainerStatus{RestartCount: 1}), time.Time{}},
		"never restarted":                      {pod(corev1.ConditionFalse, corev1.ContainerStatus{State: up(after(0))}), time.Time{}},
		"restarted, and ready":                 {pod(corev1.ConditionFalse, corev1.ContainerStatus{RestartCount: 1, Ready: true}), time.Time{}},
		"restarted once":                       {pod(corev1.ConditionFalse, corev1.ContainerStatus{RestartCount: 1, State: up(after(2 * time.Second)), LastTerminationState: died}), after(time.Second).Time},
		"restarted again and again":            {pod(corev1.ConditionFalse, corev1.ContainerStatus{RestartCount: 5, LastTerminationState: died}), start.Time},
		"runs on, and its probe fails":         {pod(corev1.ConditionFalse, corev1.ContainerStatus{RestartCount: 1, State: up(after(-time.Hour))}), time.Time{}},
		"started just before the report of it": {pod(corev1.ConditionFalse, corev1.ContainerStatus{RestartCount: 2, State: up(after(-2 * time.Second))}), start.Time},
	} {
		t.Run(name, func(t *testing.T) {
			if got := restarted(tt.pod, nil); !got.Equal(tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// Kubelet, when it was restarted itself, takes no container for ready until it has probed it.
func TestRestartedForAnUpdate(t *testing.T) {
	start := time.Unix(10_000, 0)
	for name, tt := range map[string]struct {
		change func(*corev1.Pod, *v1alpha1.InPlaceUpdate)
		want   time.Time
	}{
		"the container that the update has put in service": {func(*corev1.Pod, *v1alpha1.InPlaceUpdate) {}, time.Time{}},
		"while the update is verified": {func(_ *corev1.Pod, o *v1alpha1.InPlaceUpdate) {
			o.Status.Stage = v1alpha1.StageVerified
		}, time.Time{}},
		"the next one": {func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) {
			p.Status.ContainerStatuses[0].ContainerID = "containerd://c3"
		}, start},
		"it has ended": {func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}, start},
		"the update has failed":             {func(_ *corev1.Pod, o *v1alpha1.InPlaceUpdate) { o.Status.Stage = v1alpha1.StageFailed }, start},
		"the order is about an earlier Pod": {func(_ *corev1.Pod, o *v1alpha1.InPlaceUpdate) { o.Spec.PodUID = "before" }, start},
		"another container":                 {func(_ *corev1.Pod, o *v1alpha1.InPlaceUpdate) { o.Status.Containers[0].Name = "sidecar" }, start},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}, Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(start)}},
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: "engine", RestartCount: 1, ContainerID: "containerd://c2",
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start.Add(-3 * time.Second))}},
				}},
			}}
			order := &v1alpha1.InPlaceUpdate{Spec: v1alpha1.InPlaceUpdateSpec{PodUID: "pod"}}
			order.Status.Stage = v1alpha1.StageInService
			order.Status.Containers = []v1alpha1.ContainerReport{{Name: "engine", After: &v1alpha1.ContainerState{ContainerID: "c2"}}}
			tt.change(pod, order)
			if got := restarted(pod, order); !got.Equal(tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
