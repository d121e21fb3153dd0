package diagnose

import (
	"encoding/json"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/golden"
	"pitstop.dev/readiness"
)

func at(seconds float64) time.Time {
	return time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// serving are the facts of a Pod in service at second 100, with a live agent and no order.
func serving() Facts {
	return Facts{
		Now: at(100),
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "engine-0", UID: "pod-uid", Annotations: map[string]string{}},
			Spec: corev1.PodSpec{
				NodeName:       "node-a",
				ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}},
			},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: v1alpha1.InService, Status: corev1.ConditionTrue},
			}},
		},
		Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at(95)}}},
	}
}

func (f Facts) closed() Facts {
	f.Pod.Status.Conditions[0].Status = corev1.ConditionFalse
	f.Pod.Status.Conditions[1].Status = corev1.ConditionFalse
	return f
}

// lowered has the gate say which attempt lowered it and when kubelet answered.
func (f Facts) lowered() Facts {
	patch, err := readiness.Lower(f.Pod, "ipu-uid/2", at(40))
	apply(f.Pod, patch, err)
	patch, err = readiness.Acknowledge(f.Pod, "ipu-uid/2", at(40.25))
	apply(f.Pod, patch, err)
	return f
}

func apply(pod *corev1.Pod, patch []byte, err error) {
	if err != nil {
		panic(err)
	}
	before, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, pod)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(after, pod); err != nil {
		panic(err)
	}
}

func (f Facts) held(holder, value string) Facts {
	f.Pod.Annotations[v1alpha1.HoldPrefix+holder] = value
	return f
}

func (f Facts) ordered(stage v1alpha1.Stage, reason v1alpha1.Reason, message string) Facts {
	f.Update = &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "engine-0", UID: "ipu-uid"},
		Spec: v1alpha1.InPlaceUpdateSpec{
			PodUID: "pod-uid", NodeName: "node-a", Attempt: 2,
			Containers: []v1alpha1.ContainerImage{{Name: "engine", Image: "r/engine:v2"}},
			Drain:      &v1alpha1.Drain{Mode: v1alpha1.DrainEngineMetrics, TimeoutSeconds: ptr.To[int32](300)},
		},
		Status: v1alpha1.InPlaceUpdateStatus{
			Attempt: 2, Stage: stage, Reason: reason, Message: message, StageSince: &metav1.MicroTime{Time: at(40)},
		},
	}
	return f
}

func (f Facts) with(change func(*Facts)) Facts {
	change(&f)
	return f
}

// ailing has the agent say that a GPU of the Pod is sick.
func ailing(reason v1alpha1.GPUReason, message string) func(*Facts) {
	return func(f *Facts) { ail(f.Pod, reason, message) }
}

func ail(p *corev1.Pod, reason v1alpha1.GPUReason, message string) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: v1alpha1.GPUHealthy, Status: corev1.ConditionFalse, Reason: string(reason), Message: message,
	})
}

// grouped makes the Pod one of prefill-0 of a group, beside one of decode-0 on another node whose GPU is sick.
func grouped(holds ...string) func(*Facts) {
	return func(f *Facts) {
		f.Group = &v1alpha1.ServingGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "chat-0", UID: "sg-uid"},
			Spec:       v1alpha1.ServingGroupSpec{GPUHolds: holds},
			Status: v1alpha1.ServingGroupStatus{Instances: []v1alpha1.InstanceStatus{
				{Role: "prefill", Ordinal: ptr.To[int32](0)},
				{Role: "decode", Ordinal: ptr.To[int32](0), GPUFault: "Pod chat-0-decode-0-0 on node node-b: FatalXID: GPU 2 (GPU-c): XID 79, which asks for a reboot"},
			}},
		}
		other := f.Pod.DeepCopy()
		other.Name, other.UID, other.Spec.NodeName = "chat-0-decode-0-0", "other-uid", "node-b"
		f.Pod.Name = "chat-0-prefill-0-0"
		for pod, role := range map[*corev1.Pod]string{f.Pod: "prefill", other: "decode"} {
			pod.Labels = map[string]string{v1alpha1.LabelRole: role, v1alpha1.LabelInstance: "0"}
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pitstop.dev/v1alpha1", Kind: "ServingGroup", Name: "chat-0", UID: "sg-uid", Controller: new(true)}}
		}
		ail(other, v1alpha1.GPUFalseXID, "GPU 2 (GPU-c): XID 79, which asks for a reboot")
		f.Mates = []*corev1.Pod{other, f.Pod}
	}
}

func patched(f *Facts) {
	f.Pod.Annotations[v1alpha1.PatchedAt] = "ipu-uid/2 2026-01-02T15:00:50.000Z 30s"
}

func agentDead(f *Facts)    { f.Lease.Spec.RenewTime.Time = at(20) }
func agentNone(f *Facts)    { f.Lease = nil }
func agentUnknown(f *Facts) { f.Lease, f.LeaseUnknown = nil, true }

func TestDiagnose(t *testing.T) {
	closed := func() Facts { return serving().closed() }
	for name, f := range map[string]Facts{
		"in service without an order": serving(),
		"in service after an update":  serving().ordered(v1alpha1.StageInService, "", ""),
		"in service, late":            serving().ordered(v1alpha1.StageInService, v1alpha1.EndedLateSuccess, "missed its deadline"),
		"after a cancel":              serving().ordered(v1alpha1.StageCancelled, v1alpha1.EndedCancelled, ""),
		"pulling":                     serving().ordered(v1alpha1.StagePreparing, v1alpha1.WaitingPull, "r/engine:v2: 12 of 40 MiB"),
		"not permitted":               serving().ordered(v1alpha1.StagePrepared, v1alpha1.WaitingPermit, "waits for permit Drain"),
		"draining":                    serving().lowered().ordered(v1alpha1.StageDraining, v1alpha1.WaitingDrain, "running 3, waiting 1"),
		"propagating":                 serving().lowered().ordered(v1alpha1.StageDraining, v1alpha1.WaitingPropagation, "").with(func(f *Facts) { f.Now = at(42) }),
		"driver released":             serving().ordered(v1alpha1.StagePrepared, v1alpha1.WaitingDriver, "the GPU driver is released until 2026-01-02T15:30:00Z"),
		"GPUs unread":                 serving().ordered(v1alpha1.StagePrepared, v1alpha1.WaitingUnread, "no answer; the update goes on without it at 2026-01-02T15:02:00Z"),
		"engine restarting":           closed().held("inplace", "ipu-uid/2").ordered(v1alpha1.StageProved, v1alpha1.WaitingRestart, "container engine has ended"),
		"loading":                     closed().held("inplace", "ipu-uid/2").ordered(v1alpha1.StageProved, v1alpha1.WaitingLoad, ""),
		"deadline over":               closed().held("inplace", "ipu-uid/2").ordered(v1alpha1.StageProved, v1alpha1.WaitingLoad, "").with(func(f *Facts) { f.Now = at(1900); f.Lease.Spec.RenewTime.Time = at(1899) }),
		"agent dead in the middle":    closed().held("inplace", "ipu-uid/2").ordered(v1alpha1.StageDraining, v1alpha1.WaitingDrain, "running 3").with(agentDead),
		"not taken up":                serving().ordered(v1alpha1.StageInService, "", "").with(func(f *Facts) { f.Update.Spec.Attempt = 3 }),
		"not taken up, no agent":      serving().ordered(v1alpha1.StageInService, "", "").with(func(f *Facts) { f.Update.Spec.Attempt = 3 }).with(agentNone),
		"refused":                     serving().ordered(v1alpha1.StageRefused, v1alpha1.RefusedNotFound, "r/engine:v2: not found"),
		"refused and held":            closed().held("alice", "benchmark").ordered(v1alpha1.StageRefused, v1alpha1.RefusedNotFound, ""),
		"gate closed, not reported":   serving().lowered().ordered(v1alpha1.StagePrepared, "", "").with(func(f *Facts) { f.Now = at(42) }),
		"patched":                     serving().lowered().ordered(v1alpha1.StageDrained, "", "").with(patched),
		"patched and crashing": serving().ordered(v1alpha1.StageDrained, "", "").with(patched).with(func(f *Facts) {
			f.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "engine", RestartCount: 4,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			}}
		}),
		"patched and held by another": closed().held("operator", "looking into it").ordered(v1alpha1.StageDrained, "", "").with(patched),
		"patched and opened":          serving().ordered(v1alpha1.StageDrained, "", "").with(patched),
		"failed":                      closed().held("inplace", "ipu-uid/2").ordered(v1alpha1.StageFailed, v1alpha1.FailedCrashLooping, "engine crashed 3 times, last with exit code 1"),
		"GPU memory held": closed().held("inplace", "ipu-uid/2").ordered(v1alpha1.StageProved, v1alpha1.WaitingRelease, "GPU-1: process 7 (python) of Pod ns/engine-0 with 70000 MiB still holds memory, and belongs to no running container of the Pod").with(func(f *Facts) {
			f.Update.Status.GPUs = []v1alpha1.GPUReport{{UUID: "GPU-1", Before: ptr.To[int64](70000), After: ptr.To[int64](70000)}, {UUID: "GPU-2", Before: ptr.To[int64](70000), After: ptr.To[int64](0), Verdict: v1alpha1.VerdictReleased}}
		}),
		"GPU memory leaked": closed().held("inplace", "ipu-uid/2").ordered(v1alpha1.StageFailed, v1alpha1.FailedLeaked, "GPU-1: process 7 (python) of Pod ns/engine-0 with 70000 MiB still holds memory, and belongs to no running container of the Pod").with(func(f *Facts) {
			f.Update.Status.GPUs = []v1alpha1.GPUReport{{UUID: "GPU-1", Before: ptr.To[int64](70000), After: ptr.To[int64](70000), Verdict: v1alpha1.VerdictLeaked}}
		}),
		"reason of a later version": closed().held("inplace", "ipu-uid/2").ordered(v1alpha1.StageDrained, "SomethingNew", "never heard of"),
		"order for a former Pod":    serving().ordered(v1alpha1.StageInService, "", "").with(func(f *Facts) { f.Update.Spec.PodUID = "former" }),
		"deleted in the middle":     closed().ordered(v1alpha1.StageDraining, v1alpha1.WaitingDrain, "").with(func(f *Facts) { f.Pod.DeletionTimestamp = new(metav1.NewTime(at(99))) }),
		"held by an operator":       closed().held("operator", "looking into it"),
		"held by two":               closed().held("alice", "benchmark").held("gpu-health", "XID 79"),
		"held after its update":     closed().held("alice", "benchmark").ordered(v1alpha1.StageVerified, v1alpha1.WaitingHeld, "kept out of traffic by another hold: alice"),
		"hold left, order gone":     closed().held("inplace", "ipu-uid/2"),
		"of a ServingGroup": serving().with(func(f *Facts) {
			f.Pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pitstop.dev/v1alpha1", Kind: "ServingGroup", Name: "llm-0"}}
		}),
		"in service on a sick GPU":                    serving().with(ailing(v1alpha1.GPUFalseRecovery, "GPU 1 (GPU-b): needs a reset")),
		"in service on a sick GPU, of a ServingGroup": serving().with(grouped()).with(ailing(v1alpha1.GPUFalseECC, "GPU 1 (GPU-b): uncorrected memory errors keep coming")),
		"held for a lost GPU":                         closed().held("device", "lost GPU-b").with(ailing(v1alpha1.GPUFalseLost, "GPU 1 (GPU-b): does not answer any more")),
		"held for the GPU of another Pod":             closed().held("gpu-health", "true").with(grouped("")),
		"held for the GPU of another Pod, which may not be seen": closed().held("gpu-health", "true").with(grouped("")).with(func(f *Facts) {
			f.Mates = nil
		}),
		"held for its own GPU, and not for that of another unit": closed().held("gpu-health", "true").with(grouped("decode-0", "prefill-0")).
			with(ailing(v1alpha1.GPUFalseRecovery, "GPU 1 (GPU-b): needs a reset")),
		"held for a GPU that is well again": closed().held("gpu-health", "true").with(grouped("prefill-0")),
		"prepared, and its GPU is sick": serving().ordered(v1alpha1.StagePrepared, "", "").with(ailing(v1alpha1.GPUFalseRecovery, "GPU 1 (GPU-b): needs a reset")).
			with(func(f *Facts) { f.Update.Spec.Permit = v1alpha1.PermitServe }),
		"no gate on a node with a sick GPU": serving().with(func(f *Facts) {
			f.Pod.Spec.ReadinessGates = nil
			f.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: v1alpha1.GPUHealthy, Status: corev1.ConditionFalse, Reason: "DeviceLost", Message: "GPU 3 (GPU-d): does not answer any more"},
			}}}
		}),
		"no gate":                    serving().with(func(f *Facts) { f.Pod.Spec.ReadinessGates = nil }),
		"gate not set, no agent":     closed().with(func(f *Facts) { f.Pod.Status.Conditions = f.Pod.Status.Conditions[:1] }).with(agentNone),
		"gate closed, agent alive":   closed(),
		"gate closed, agent unknown": closed().with(agentUnknown),
		"not scheduled":              serving().with(func(f *Facts) { f.Pod.Spec.NodeName = "" }),
		"engine down": serving().with(func(f *Facts) {
			f.Pod.Status.Conditions[0].Status = corev1.ConditionFalse
			f.Pod.Spec.ReadinessGates = append(f.Pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "example.com/other"})
			f.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "engine", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
				{Name: "proxy"},
				{Name: "logs", Ready: true},
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, name+".txt", Diagnose(f).Text())
		})
	}
}
