package tree_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/golden"
	"pitstop.dev/cmd/kubectl-pitstop/pins"
	"pitstop.dev/cmd/kubectl-pitstop/tree"
)

var now = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

const (
	stable = "llm-5f6b1c8d9"
	target = "llm-7d9c5b4f2"
)

// A world is a ModelServing of four groups with a prefill instance of three Pods and a decode
// instance of three Pods each. All serve at the stable revision.
type world struct{ tree.Objects }

func newWorld() *world {
	w := &world{tree.Objects{Now: now, Serving: &v1alpha1.ModelServing{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "ms-uid", Generation: 3},
		Spec:       v1alpha1.ModelServingSpec{Replicas: new(int32(4))},
		Status: v1alpha1.ModelServingStatus{
			ObservedGeneration: 3, Replicas: 4, ReadyReplicas: 4, AvailableReplicas: 4, UpdatedReplicas: 4,
			CurrentRevision: stable, UpdateRevision: stable,
		},
	}}}
	w.condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.AvailableEnough, "4 of 4 groups are available")
	w.condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ProgressingComplete, "all groups are at the target")
	w.condition(v1alpha1.ConditionBlocked, metav1.ConditionFalse, v1alpha1.NotBlocked, "")
	for ordinal := range int32(4) {
		w.addGroup(ordinal)
	}
	return w
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func (w *world) condition(of string, status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) {
	conditions := w.Serving.Status.Conditions[:0:0]
	for _, c := range w.Serving.Status.Conditions {
		if c.Type != of {
			conditions = append(conditions, c)
		}
	}
	w.Serving.Status.Conditions = append(conditions, metav1.Condition{Type: of, Status: status, Reason: string(reason), Message: message, LastTransitionTime: ago(2 * time.Minute)})
}

func (w *world) addGroup(ordinal int32) {
	name := v1alpha1.ServingGroupName("llm", ordinal)
	sg := &v1alpha1.ServingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), OwnerReferences: owner("ms-uid")},
		Spec:       v1alpha1.ServingGroupSpec{Ordinal: new(ordinal), Revision: stable},
		Status:     v1alpha1.ServingGroupStatus{Pods: 6, ReadyPods: 6, LivePods: 6},
	}
	for _, role := range []string{"decode", "prefill"} {
		sg.Spec.Instances = append(sg.Spec.Instances, v1alpha1.RoleInstance{Role: role, Ordinal: new(int32(0))})
		sg.Status.Instances = append(sg.Status.Instances, v1alpha1.InstanceStatus{
			Role: role, Ordinal: new(int32(0)), Phase: v1alpha1.InstanceRunning, Pods: 3, ReadyPods: 3, LivePods: 3, Ready: true, Revision: stable,
		})
		for index := range int32(3) {
			w.Pods = append(w.Pods, pod(sg, role, index))
		}
	}
	w.Groups = append(w.Groups, sg)
}

func owner(uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{UID: uid, Controller: new(true)}}
}

func pod(sg *v1alpha1.ServingGroup, role string, index int32) *corev1.Pod {
	name := v1alpha1.PodName(sg.Name, role, 0, index)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), OwnerReferences: owner(sg.UID), Annotations: map[string]string{},
			Labels: map[string]string{
				v1alpha1.LabelModelServing: "llm", v1alpha1.LabelServingGroup: sg.Name, v1alpha1.LabelRole: role,
				v1alpha1.LabelInstance: "0", v1alpha1.LabelIndex: fmt.Sprint(index), v1alpha1.LabelRevision: stable,
			},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("gpu-%d", *sg.Spec.Ordinal), ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}}},
	}
	serve(p)
	return p
}

func serve(p *corev1.Pod) {
	p.Status.Conditions = nil
	for _, c := range []corev1.PodConditionType{corev1.ContainersReady, v1alpha1.InService, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", Ready: true}}
}

// wait has a container wait for a reason, and the Pod be out of service.
func wait(p *corev1.Pod, reason string) {
	p.Status.Conditions = nil
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
}

func (w *world) pod(name string) *corev1.Pod {
	for _, p := range w.Pods {
		if p.Name == name {
			return p
		}
	}
	panic("no Pod " + name)
}

func (w *world) lose(name string) {
	for i, p := range w.Pods {
		if p.Name == name {
			w.Pods = append(w.Pods[:i:i], w.Pods[i+1:]...)
			return
		}
	}
	panic("no Pod " + name)
}

// notReady has an instance of a group report this.
func (w *world) notReady(ordinal, instance int, phase v1alpha1.InstancePhase, ready int32, message string) {
	sg := w.Groups[ordinal]
	s := &sg.Status.Instances[instance]
	sg.Status.ReadyPods -= s.ReadyPods - ready
	s.Phase, s.Ready, s.ReadyPods, s.Message = phase, false, ready, message
}

// rollout has the target be another revision, at which group 3 is already and which group 2 is
// being brought to.
func (w *world) rollout(stage v1alpha1.UnitStage, reason v1alpha1.UnitReason, message string) {
	w.Serving.Status.UpdateRevision = target
	w.Serving.Status.Updating = []string{"llm-2"}
	w.Serving.Status.ReadyReplicas, w.Serving.Status.AvailableReplicas, w.Serving.Status.UpdatedReplicas = 3, 3, 1
	w.condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ProgressingRollout, "1 of 4 groups is at llm-7d9c5b4f2 and available; llm-2 is being updated")
	w.Groups[3].Spec.Revision = target
	for _, p := range w.Pods {
		if p.Labels[v1alpha1.LabelServingGroup] == "llm-3" {
			p.Labels[v1alpha1.LabelRevision] = target
		}
	}
	w.open(2, v1alpha1.UnitUpdate{Attempt: 4, Method: v1alpha1.UnitRecreate, Target: target, Previous: stable, Permit: v1alpha1.PermitDrain})
	w.report(2, v1alpha1.UnitUpdateStatus{Attempt: 4, Stage: stage, Since: ago(90 * time.Second), Reason: reason, Message: message})
}

// preparing is a rollout in place of which the next group serves.
func (w *world) preparing(stage v1alpha1.UnitStage, reason v1alpha1.UnitReason, message string) {
	w.rollout(stage, reason, message)
	w.Serving.Status.Updating, w.Serving.Status.ReadyReplicas, w.Serving.Status.AvailableReplicas = nil, 4, 4
	u := &w.Groups[2].Spec.Updates[0]
	u.Method, u.Permit = v1alpha1.UnitInPlace, v1alpha1.PermitPrepare
	for _, p := range w.Pods {
		if p.Labels[v1alpha1.LabelServingGroup] == "llm-2" {
			w.order(p.Name, v1alpha1.StagePrepared, "")
		}
	}
}

func (w *world) open(ordinal int, u v1alpha1.UnitUpdate) {
	w.Groups[ordinal].Spec.Updates = append(w.Groups[ordinal].Spec.Updates, u)
}

func (w *world) report(ordinal int, u v1alpha1.UnitUpdateStatus) {
	w.Groups[ordinal].Status.Updates = append(w.Groups[ordinal].Status.Updates, u)
}

func (w *world) order(pod string, stage v1alpha1.Stage, reason v1alpha1.Reason) {
	w.Orders = append(w.Orders, &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod},
		Spec:       v1alpha1.InPlaceUpdateSpec{PodUID: types.UID(pod + "-uid"), Attempt: 2},
		Status: v1alpha1.InPlaceUpdateStatus{
			Attempt: 2, Stage: stage, Reason: reason, StageSince: &metav1.MicroTime{Time: now.Add(-80 * time.Second)},
		},
	})
}

// draining is a rollout of which one Pod still has requests.
func draining(w *world) {
	w.rollout(v1alpha1.UnitDraining, v1alpha1.UnitWaitingDrain, "llm-2-prefill-0-0: running 3, waiting 1")
	w.notReady(2, 0, v1alpha1.InstanceRunning, 0, "")
	w.notReady(2, 1, v1alpha1.InstanceRunning, 0, "")
	for _, p := range w.Pods {
		if p.Labels[v1alpha1.LabelServingGroup] == "llm-2" {
			p.Annotations[v1alpha1.HoldInPlace] = "ipu/2"
			p.Status.Conditions[1].Status, p.Status.Conditions[2].Status = corev1.ConditionFalse, corev1.ConditionFalse
			w.order(p.Name, v1alpha1.StageDrained, "")
		}
	}
	w.Orders[3].Status.Stage, w.Orders[3].Status.Reason = v1alpha1.StageDraining, v1alpha1.WaitingDrain
}

// swapping is a rollout of which the Pods are being made anew.
func swapping(w *world) {
	w.rollout(v1alpha1.UnitSwapping, v1alpha1.UnitWaitingScheduling, "llm-2-prefill-0-0 has no node yet: 0/8 nodes are available, 8 Insufficient nvidia.com/gpu, and no Pod may be preempted")
	w.Groups[2].Spec.Revision, w.Groups[2].Spec.Updates[0].Permit = target, v1alpha1.PermitSwap
	w.notReady(2, 0, v1alpha1.InstanceRunning, 0, "")
	w.notReady(2, 1, v1alpha1.InstanceRunning, 0, "")
	for _, p := range w.Pods {
		if p.Labels[v1alpha1.LabelServingGroup] == "llm-2" {
			p.Labels[v1alpha1.LabelRevision] = target
			p.Annotations[v1alpha1.HoldUnit] = "4"
			wait(p, "ContainerCreating")
		}
	}
	w.pod("llm-2-prefill-0-0").Spec.NodeName = ""
	w.lose("llm-2-prefill-0-2")
	last := w.pod("llm-2-decode-0-2")
	last.DeletionTimestamp, last.DeletionGracePeriodSeconds = new(metav1.NewTime(now.Add(20*time.Second))), new(int64(30))
}

// sick has a GPU of decode-0 of group 1 sick, and the units held that are named.
func (w *world) sick(holds ...string) {
	for _, sg := range w.Groups {
		if sg.Name == "llm-1" {
			sg.Spec.GPUHolds = holds
			sg.Status.Instances[0].GPUFault = "Pod llm-1-decode-0-1 on node gpu-1: FatalXID: GPU 2 (GPU-c): XID 79, which asks for a reboot"
			sg.Status.Instances[0].Ready = len(holds) == 0
		}
	}
}

func TestTree(t *testing.T) {
	for name, change := range map[string]func(*world){
		"as it should be": func(*world) {},
		"draining":        draining,
		"swapping":        swapping,
		"failed": func(w *world) {
			swapping(w)
			w.Groups[2].Status.Updates[0].Stage = v1alpha1.UnitFailed
			wait(w.pod("llm-2-decode-0-0"), "ImagePullBackOff")
			w.condition(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.BlockedFailed, "llm-2 Failed 90s ago: correct the template or undo")
			w.condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.AvailableTooFew, "3 of 4 groups are available")
		},
		"failed, and its Pods serve": func(w *world) { w.rollout(v1alpha1.UnitFailed, v1alpha1.UnitWaitingReady, "") },
		"not taken up yet": func(w *world) {
			draining(w)
			w.Groups[2].Spec.Updates[0].Attempt = 5
			w.Serving.Generation = 4
		},
		"booked": func(w *world) { w.Serving.Status.Updating = []string{"llm-1"} },
		"held for a sick GPU": func(w *world) {
			w.Serving.Status.Updating = []string{"llm-1"}
			w.sick("")
			for _, p := range w.Pods {
				if strings.HasPrefix(p.Name, "llm-1-") {
					metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.HoldGPUHealth, "true")
				}
			}
		},
		"an instance held for a sick GPU": func(w *world) {
			w.Serving.Status.Updating = []string{"llm-1/decode-0"}
			w.sick("decode-0")
		},
		"a sick GPU and no budget": func(w *world) { w.sick() },
		"backing out":              func(w *world) { draining(w); w.Groups[2].Spec.Updates[0].Target = stable },
		"paused":                   func(w *world) { draining(w); w.Serving.Spec.Paused = true },
		"no groups":                func(w *world) { w.Groups, w.Pods, w.Serving.Status = nil, nil, v1alpha1.ModelServingStatus{} },
		"group leaves": func(w *world) {
			w.Groups[3].DeletionTimestamp = new(ago(15 * time.Second))
			w.open(3, v1alpha1.UnitUpdate{Attempt: 1, Method: v1alpha1.UnitRemove, Permit: v1alpha1.PermitDrain})
			w.lose("llm-3-decode-0-1")
		},
		"group is removed": func(w *world) {
			w.open(3, v1alpha1.UnitUpdate{Attempt: 1, Method: v1alpha1.UnitRemove, Permit: v1alpha1.PermitDrain})
			w.report(3, v1alpha1.UnitUpdateStatus{Attempt: 1, Stage: v1alpha1.UnitDraining, Since: ago(15 * time.Second)})
		},
		"group is new": func(w *world) {
			w.Groups[3].Status = v1alpha1.ServingGroupStatus{}
			for index := range 3 {
				w.lose(fmt.Sprintf("llm-3-decode-0-%d", index))
			}
			wait(w.pod("llm-3-prefill-0-0"), "")
		},
		"Pod lost, failed and crashing": func(w *world) {
			w.notReady(0, 0, v1alpha1.InstanceRunning, 1, "llm-0-decode-0-1 is missing")
			w.lose("llm-0-decode-0-1")
			wait(w.pod("llm-0-decode-0-2"), "CrashLoopBackOff")
			w.pod("llm-0-decode-0-2").Status.ContainerStatuses[0].RestartCount = 7
			w.notReady(1, 1, v1alpha1.InstanceRecreating, 2, "")
			w.pod("llm-1-prefill-0-0").Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
		},
		"Pod held by an operator": func(w *world) {
			w.notReady(0, 0, v1alpha1.InstanceRunning, 2, "llm-0-decode-0-1 is held by alice")
			p := w.pod("llm-0-decode-0-1")
			p.Annotations[v1alpha1.HoldPrefix+"alice"] = "looking into it"
			p.Status.Conditions = p.Status.Conditions[:1]
			w.pod("llm-0-decode-0-2").Status.Conditions = w.pod("llm-0-decode-0-2").Status.Conditions[:1]
		},
		"group blocked": func(w *world) {
			w.notReady(0, 0, v1alpha1.InstanceCreating, 2, "")
			w.lose("llm-0-decode-0-2")
			w.Groups[0].Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: string(v1alpha1.BlockedName),
				Message: "pod llm-0-decode-0-2 belongs to Deployment other: delete it", LastTransitionTime: ago(5 * time.Minute),
			}}
		},
		"role by role": func(w *world) {
			w.Serving.Status.UpdateRevision = target
			w.Groups[1].Spec.Instances[1].Revision = target
			w.Serving.Status.Updating = []string{"llm-1/decode-0"}
			w.open(1, v1alpha1.UnitUpdate{Unit: "decode-0", Attempt: 9, Method: v1alpha1.UnitRecreate, Target: target, Permit: v1alpha1.PermitDrain})
			w.report(1, v1alpha1.UnitUpdateStatus{Unit: "decode-0", Attempt: 9, Stage: v1alpha1.UnitDrained, Since: ago(2 * time.Second), Reason: v1alpha1.UnitWaitingPermit})
			w.notReady(1, 0, v1alpha1.InstanceRunning, 0, "")
		},
		"preparing in place": func(w *world) {
			w.preparing(v1alpha1.UnitPreparing, v1alpha1.UnitReason(v1alpha1.WaitingPull), "Pod llm-2-prefill-0-0 on node gpu-2: pulls e:2")
		},
		"prepared, and a Pod is down": func(w *world) {
			w.preparing(v1alpha1.UnitPrepared, v1alpha1.UnitWaitingPermit, "")
			w.notReady(2, 0, v1alpha1.InstanceRunning, 2, "llm-2-decode-0-1 is not Ready")
			w.pod("llm-2-decode-0-1").Status.Conditions = nil
		},
		"refused in place": func(w *world) {
			w.preparing(v1alpha1.UnitRefused, v1alpha1.UnitReason(v1alpha1.RefusedNotFound), "Pod llm-2-prefill-0-0 on node gpu-2: no e:2")
		},
		"cancelled in place": func(w *world) {
			w.preparing(v1alpha1.UnitRefused, v1alpha1.UnitCancelled, "a person took its update back")
			w.Groups[2].Spec.Updates[0].Request = &v1alpha1.UnitRequest{Verb: v1alpha1.VerbCancel, ID: "r1"}
		},
		"recreated on request": func(w *world) {
			w.open(1, v1alpha1.UnitUpdate{Attempt: 9, Method: v1alpha1.UnitRecreate, Target: stable, Previous: stable, Permit: v1alpha1.PermitDrain})
			w.Groups[1].Spec.Updates[0].Request = &v1alpha1.UnitRequest{Verb: v1alpha1.VerbRecreate, ID: "r1"}
			w.report(1, v1alpha1.UnitUpdateStatus{Attempt: 9, Stage: v1alpha1.UnitDraining, Since: ago(2 * time.Second), Reason: v1alpha1.UnitWaitingDrain})
		},
		"an instance prepared": func(w *world) {
			w.Serving.Status.UpdateRevision = target
			w.open(1, v1alpha1.UnitUpdate{Unit: "decode-0", Attempt: 9, Method: v1alpha1.UnitInPlace, Target: target, Permit: v1alpha1.PermitPrepare})
			w.report(1, v1alpha1.UnitUpdateStatus{Unit: "decode-0", Attempt: 9, Stage: v1alpha1.UnitPrepared, Since: ago(2 * time.Second), Reason: v1alpha1.UnitWaitingPermit})
			w.notReady(1, 0, v1alpha1.InstanceRunning, 2, "llm-1-decode-0-1 is not Ready")
			w.pod("llm-1-decode-0-1").Status.Conditions = nil
		},
		"a role that stays the same": func(w *world) {
			w.Serving.Status.UpdateRevision = target
			w.Pins = pins.Pins{"ns/" + stable: {"decode": "a", "prefill": "b"}, "ns/" + target: {"decode": "a", "prefill": "c"}}
			w.Serving.Status.Updating = []string{"llm-1/prefill-0"}
		},
		"forged labels": func(w *world) { w.pod("llm-0-decode-0-1").OwnerReferences = owner("other-uid") },
		"words of a terminal": func(w *world) {
			w.rollout(v1alpha1.UnitSwapping, v1alpha1.UnitWaitingReady, "bad\x1b[2Jnews\nand more")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			change(w)
			grown := tree.Grow(w.Objects)
			if !slices.Contains([]string{"as it should be", "draining", "swapping", "failed"}, name) {
				grown.Groups = slices.DeleteFunc(grown.Groups, func(g tree.Group) bool { return g.Mark == tree.Fine })
			}
			text := grown.Text()
			golden.Compare(t, name+".txt", text)
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(line) - 1; n > 120 || strings.ContainsRune(line, '\x1b') {
					t.Errorf("a line of %d columns: %q", n, line)
				}
			}
		})
	}
}

// The JSON form is a contract: scripts read it.
func TestTreeAsJSON(t *testing.T) {
	w := newWorld()
	swapping(w)
	w.Groups, w.Pods = w.Groups[2:3], append(w.Pods[:0:0], w.pod("llm-2-decode-0-0"), w.pod("llm-2-prefill-0-0"))
	w.order("llm-2-prefill-0-0", v1alpha1.StageDrained, "")
	data, err := json.MarshalIndent(tree.Grow(w.Objects), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "tree.json", string(data)+"\n")
}

func TestObjectsOfOthersAreNotOurs(t *testing.T) {
	w := newWorld()
	want := tree.Grow(w.Objects)
	w.addGroup(4) // of another ModelServing of the same name, which was deleted
	w.Groups[4].OwnerReferences = owner("former-uid")
	for _, p := range w.Pods[24:] {
		p.Labels[v1alpha1.LabelModelServing] = "other"
	}
	if diff := cmp.Diff(want, tree.Grow(w.Objects)); diff != "" {
		t.Errorf("Grow() (-want +got):\n%s", diff)
	}
}
