package node

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/golden"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

func node(status corev1.ConditionStatus, reason, message string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2"), "cpu": resource.MustParse("96"), "nvidia.com/mig-1g.18gb": resource.MustParse("0")},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: v1alpha1.GPUHealthy, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(2 * time.Minute), LastHeartbeatTime: ago(time.Minute)},
			},
		},
	}
}

// pluginGone is a node of which kubelet remembers that it had GPUs to offer.
func pluginGone() *corev1.Node {
	n := node(corev1.ConditionTrue, "Healthy", "2 GPUs")
	n.Status.Capacity, n.Status.Allocatable = n.Status.Allocatable, corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")}
	return n
}

func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: "gpu-0", ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}}, Containers: []corev1.Container{{
			Name: "engine", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: v1alpha1.GPUHealthy, Status: corev1.ConditionTrue, Reason: "Healthy"},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "engine", RestartCount: 3}},
		},
	}
	change(p)
	return p
}

func update(name string) *v1alpha1.InPlaceUpdate {
	return &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name},
		Spec:       v1alpha1.InPlaceUpdateSpec{PodUID: types.UID(name), NodeName: "gpu-0"},
		Status: v1alpha1.InPlaceUpdateStatus{Stage: v1alpha1.StageInService, Containers: []v1alpha1.ContainerReport{
			{Name: "engine", Planned: 2, Crashes: 1}, {Name: "peer", Peer: 1},
		}},
	}
}

func device(i int, d states.Device) states.Device {
	d.Verdict.Index, d.Verdict.UUID = i, "GPU-"+string(rune('a'+i))
	d.Memory = &gpu.Memory{Total: 143771, Used: 70090}
	if d.Verdict.Status == "" {
		d.Verdict.Status, d.Verdict.Reason = corev1.ConditionTrue, v1alpha1.GPUTrueHealthy
	}
	return d
}

func agent(devices ...states.Device) *states.States {
	return &states.States{
		Checks: []states.Check{{Name: "runtime", Status: states.OK}, {Name: "kubelet", Status: states.OK}},
		GPUs:   states.GPUs{State: gpu.Up, Driver: "570.124.06", PodsKnown: true, ResidentsKnown: true, Devices: devices},
	}
}

// released is an agent that has let go of the driver.
func released() *states.States {
	verdict := health.Verdict{Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownReleased, Message: "the driver is released until 2026-01-02T03:10:00Z"}
	a := agent(device(0, states.Device{Verdict: verdict}), device(1, states.Device{Verdict: verdict}))
	a.GPUs.State, a.GPUs.Driver, a.GPUs.Message = gpu.Released, "", "until 2026-01-02T03:10:00Z"
	return a
}

func TestANodeIsShown(t *testing.T) {
	engine := states.Resident{PID: 4242, Name: "python3", Pod: "prod/engine-0", Container: "engine", UsedMiB: 69800}
	for name, o := range map[string]Objects{
		"all is well": {
			Node: node(corev1.ConditionTrue, "Healthy", "2 GPUs"),
			Pods: []*corev1.Pod{
				pod("engine-0", func(*corev1.Pod) {}),
				pod("web", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }),
				pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "gpu-1" }),
				pod("over", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			},
			Orders: []*v1alpha1.InPlaceUpdate{update("engine-0"), update("elsewhere")},
			Agent:  agent(device(0, states.Device{Pods: []string{"prod/engine-0"}, Residents: []states.Resident{engine}}), device(1, states.Device{})),
		},
		"a GPU is sick": {
			Node: node(corev1.ConditionFalse, "RecoveryRequired", "GPU 1 (GPU-b): needs a reset"),
			Pods: []*corev1.Pod{pod("engine-1", func(p *corev1.Pod) {
				p.Annotations = map[string]string{v1alpha1.HoldGPUHealth: "x", v1alpha1.HoldDevice: "y"}
				p.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.GPUHealthy, Status: corev1.ConditionFalse, Reason: "RecoveryRequired"}}
			})},
			Agent: func() *states.States {
				a := agent(
					device(0, states.Device{
						Pods:      []string{"prod/a", "prod/b"},
						Residents: []states.Resident{engine, {PID: 7, UsedMiB: -1, Doubt: "the process is gone"}},
						Verdict: health.Verdict{Notes: []string{"rows of memory wait for a reset to be replaced"}, Errors: []health.Error{
							{Kind: gpu.EventXID, XID: 31, Class: health.Application, Count: 3, Last: now(), Expected: true},
						}},
					}),
					device(1, states.Device{Verdict: health.Verdict{
						Status: corev1.ConditionFalse, Reason: v1alpha1.GPUFalseRecovery, Message: "needs a reset",
						Errors: []health.Error{{Kind: gpu.EventUnavailable, Class: health.Reboot, Count: 1, Last: now()}},
					}}),
				)
				a.Checks = append(a.Checks, states.Check{Name: "GPUs", Status: states.Problem, Message: "RecoveryRequired: GPU 1: needs a reset"})
				a.Checks = append(a.Checks, states.Check{Name: "disk", Status: states.Problem, Message: "1.0 GiB free for images, 10.0 GiB are needed"})
				a.GPUs.ResidentsKnown, a.GPUs.Missed = false, now().Add(-time.Hour)
				return a
			}(),
		},
		"a Pod without the gate serves on a lost GPU": {
			Node: node(corev1.ConditionFalse, "DeviceLost", "GPU 1 (GPU-b): does not answer any more"),
			Pods: []*corev1.Pod{
				pod("plain-0", func(p *corev1.Pod) { p.Spec.ReadinessGates, p.Status.Conditions = nil, p.Status.Conditions[:1] }),
				pod("engine-0", func(p *corev1.Pod) {
					p.Status.Conditions[1] = corev1.PodCondition{Type: v1alpha1.GPUHealthy, Status: corev1.ConditionFalse, Reason: "RecoveryRequired", Message: "GPU 0 (GPU-a): needs a reset"}
				}),
			},
			Agent: agent(
				device(0, states.Device{Pods: []string{"prod/engine-0"}, Verdict: health.Verdict{Status: corev1.ConditionFalse, Reason: v1alpha1.GPUFalseRecovery, Message: "needs a reset"}}),
				device(1, states.Device{Pods: []string{"prod/plain-0"}, Verdict: health.Verdict{Status: corev1.ConditionFalse, Reason: v1alpha1.GPUFalseLost, Message: "does not answer any more", Lost: true}}),
			),
		},
		"the driver is taken again and the condition is older": {
			Node: node(corev1.ConditionUnknown, "DriverReleased", "the driver is released until 2026-01-02T03:10:00Z"),
			Agent: func() *states.States {
				a := agent(device(0, states.Device{Verdict: health.Verdict{Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownUnjudged}}))
				a.Checks = append(a.Checks, states.Check{Name: "GPUs", Status: states.Unknown, Message: "NotYetJudged: "})
				a.GPUs.Missed = now().Add(-5 * time.Second)
				return a
			}(),
		},
		"the driver is released": {
			Node: func() *corev1.Node {
				n := node(corev1.ConditionUnknown, "DriverReleased", "the driver is released until 2026-01-02T03:10:00Z")
				n.Annotations = map[string]string{v1alpha1.AnnotationGPURelease: "2026-01-02T03:10:00Z"}
				return n
			}(),
			Agent: released(),
		},
		"the release was taken back a moment ago": {
			Node:  node(corev1.ConditionUnknown, "DriverReleased", "the driver is released until 2026-01-02T03:10:00Z"),
			Agent: released(),
		},
		"a sick GPU stays one while nothing is known": {
			Node: func() *corev1.Node {
				n := node(corev1.ConditionFalse, "FatalXID", "GPU 0 (GPU-a): XID 79, which asks for a reboot")
				n.Annotations = map[string]string{v1alpha1.AnnotationGPURelease: "2026-01-02T03:10:00Z"}
				return n
			}(),
			Agent: func() *states.States {
				a := agent(device(0, states.Device{Verdict: health.Verdict{Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownReleased}}))
				a.GPUs.State, a.GPUs.Message, a.GPUs.Missed = gpu.Released, "until 2026-01-02T03:10:00Z", now().Add(-22*time.Second)
				return a
			}(),
		},
		"an update has failed and its engine crashes on": {
			Node: node(corev1.ConditionTrue, "Healthy", "2 GPUs"),
			Pods: []*corev1.Pod{pod("leaky-0", func(p *corev1.Pod) {
				p.Status.Conditions[0].Status = corev1.ConditionFalse
				p.Status.ContainerStatuses[0].RestartCount = 7
			})},
			Orders: []*v1alpha1.InPlaceUpdate{func() *v1alpha1.InPlaceUpdate {
				u := update("leaky-0")
				u.Status.Stage = v1alpha1.StageFailed
				u.Status.Containers[0].Before = &v1alpha1.ContainerState{RestartCount: 1}
				return u
			}()},
			Agent: agent(device(0, states.Device{Residents: []states.Resident{{PID: 1986, UsedMiB: 600, Doubt: "it has ended, or is in another PID namespace"}, {PID: 0, UsedMiB: 600, Doubt: "the driver gives no PID"}, {PID: 9, Name: "nvsm", UsedMiB: 1}}})),
		},
		"the message of the condition is older, and the annotation is no time": {
			Node: func() *corev1.Node {
				n := node(corev1.ConditionFalse, "DeviceLost", "GPU 0 (GPU-a): does not answer any more; the driver is released until 2026-01-02T03:03:00Z")
				n.Annotations = map[string]string{v1alpha1.AnnotationGPURelease: "garbage"}
				return n
			}(),
			Agent: agent(device(0, states.Device{Verdict: health.Verdict{Status: corev1.ConditionFalse, Reason: v1alpha1.GPUFalseLost, Message: "does not answer any more", Lost: true}})),
		},
		"the device plugin is gone": {
			Node: pluginGone(),
		},
		"the agent cannot be asked": {
			Node: func() *corev1.Node {
				n := node(corev1.ConditionUnknown, "DriverReleased", "")
				n.Annotations = map[string]string{v1alpha1.AnnotationGPURelease: "2026-01-02T03:10:00Z"}
				n.Status.Conditions[1].LastHeartbeatTime = ago(time.Hour)
				return n
			}(),
			Pods:    []*corev1.Pod{pod("engine-0", func(p *corev1.Pod) { p.Status.Conditions = nil })},
			Problem: "the node has no agent Pod",
		},
		"a node without GPUs": {
			Node:  &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cpu-0"}},
			Agent: &states.States{Checks: []states.Check{{Name: "runtime", Status: states.OK}}, GPUs: states.GPUs{State: gpu.Absent}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o.Now = now()
			v := See(o)
			text := v.Text()
			data, err := json.MarshalIndent(v, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, name+".txt", text+"\n"+string(data)+"\n")
		})
	}
}

func TestNodesAreListed(t *testing.T) {
	var views []View
	for _, n := range []*corev1.Node{
		node(corev1.ConditionTrue, "Healthy", "2 GPUs"),
		node(corev1.ConditionFalse, "DeviceLost", "GPU 0 (GPU-a): does not answer any more"),
		pluginGone(),
		{ObjectMeta: metav1.ObjectMeta{Name: "gpu-by-claims"}, Status: corev1.NodeStatus{Conditions: node(corev1.ConditionTrue, "Healthy", "8 GPUs").Status.Conditions}},
		{ObjectMeta: metav1.ObjectMeta{Name: "gpu-silent"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}},
	} {
		views = append(views, See(Objects{Node: n, Now: now()}))
	}
	golden.Compare(t, "list.txt", Table(views))
}
