package diagnose

import (
	"encoding/json"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/golden"
	"pitstop.dev/cmd/kubectl-pitstop/pins"
)

// settled are the facts of a ModelServing of four groups at second 100, all at revision llm-old, with a
// live coordinator.
func settled() ServingFacts {
	f := ServingFacts{
		Now: at(100),
		Serving: &v1alpha1.ModelServing{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "ms-uid", Generation: 3},
			Spec:       v1alpha1.ModelServingSpec{Replicas: new(int32(4)), ProgressDeadlineSeconds: new(int32(600))},
			Status: v1alpha1.ModelServingStatus{
				ObservedGeneration: 3, Replicas: 4, ReadyReplicas: 4, AvailableReplicas: 4, UpdatedReplicas: 4,
				CurrentRevision: "llm-old", UpdateRevision: "llm-old",
			},
		},
		Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at(98)}}},
	}
	f.says(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.AvailableEnough, "")
	f.says(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ProgressingComplete, "")
	f.says(v1alpha1.ConditionBlocked, metav1.ConditionFalse, v1alpha1.NotBlocked, "")
	for n := range int32(4) {
		name := v1alpha1.ServingGroupName("llm", n)
		sg := &v1alpha1.ServingGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{{UID: "ms-uid", Controller: new(true)}}},
			Spec:       v1alpha1.ServingGroupSpec{Ordinal: new(n), Revision: "llm-old"},
			Status:     v1alpha1.ServingGroupStatus{Pods: 6, ReadyPods: 6, LivePods: 6},
		}
		for _, role := range []string{"decode", "prefill"} {
			sg.Spec.Instances = append(sg.Spec.Instances, v1alpha1.RoleInstance{Role: role, Ordinal: new(int32(0))})
			sg.Status.Instances = append(sg.Status.Instances, v1alpha1.InstanceStatus{
				Role: role, Ordinal: new(int32(0)), Phase: v1alpha1.InstanceRunning, Pods: 3, ReadyPods: 3, LivePods: 3, Ready: true,
			})
		}
		f.Groups = append([]*v1alpha1.ServingGroup{sg}, f.Groups...) // in no order
	}
	return f
}

func (f ServingFacts) says(of string, status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) {
	c := metav1.Condition{Type: of, Status: status, Reason: string(reason), Message: message, LastTransitionTime: metav1.NewTime(at(40))}
	for i, old := range f.Serving.Status.Conditions {
		if old.Type == of {
			f.Serving.Status.Conditions[i] = c
			return
		}
	}
	f.Serving.Status.Conditions = append(f.Serving.Status.Conditions, c)
}

func (f ServingFacts) group(n int) *v1alpha1.ServingGroup { return f.Groups[len(f.Groups)-1-n] }

// open has an update of a unit reported at a stage; stage "" is not reported at all.
func (f ServingFacts) open(n int, u v1alpha1.UnitUpdate, stage v1alpha1.UnitStage, reason v1alpha1.UnitReason) {
	sg := f.group(n)
	u.Previous = "llm-old"
	sg.Spec.Updates = append(sg.Spec.Updates, u)
	f.Serving.Status.Updating = append(f.Serving.Status.Updating, v1alpha1.LedgerEntry(sg.Name, u.Unit))
	if stage != "" {
		sg.Status.Updates = append(sg.Status.Updates, v1alpha1.UnitUpdateStatus{
			Unit: u.Unit, Attempt: u.Attempt, Stage: stage, Since: metav1.NewTime(at(70)), Reason: reason, Message: "Pod llm-3-prefill-0-0",
		})
	}
}

// rolling is a rollout to llm-new of which group 3 is at a stage.
func rolling(f ServingFacts, stage v1alpha1.UnitStage, reason v1alpha1.UnitReason) {
	f.Serving.Status.UpdateRevision = "llm-new"
	f.Serving.Status.UpdatedReplicas, f.Serving.Status.AvailableReplicas = 0, 3
	f.says(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ProgressingRollout, "0 of 4 groups are at llm-new")
	f.open(3, v1alpha1.UnitUpdate{Attempt: 4, Method: v1alpha1.UnitRecreate, Target: "llm-new", Permit: v1alpha1.PermitDrain}, stage, reason)
}

func down(f ServingFacts, n int, phase v1alpha1.InstancePhase) {
	s := &f.group(n).Status.Instances[1]
	s.Phase, s.Ready, s.ReadyPods, s.Message = phase, false, 2, "Pod llm-1-prefill-0-2 is not Ready"
	s.DownSince = new(metav1.NewTime(at(10)))
}

// sick has a GPU of a Pod of decode-0 of group 1 sick, and the units held that are named.
func sick(f *ServingFacts, holds ...string) {
	sg := f.group(1)
	sg.Spec.GPUHolds = holds
	for _, unit := range holds {
		f.Serving.Status.Updating = append(f.Serving.Status.Updating, v1alpha1.LedgerEntry(sg.Name, unit))
	}
	sg.UID = "sg-uid"
	sg.Status.Instances[0].GPUFault = "Pod llm-1-decode-0-0 on node node-b: FatalXID: GPU 2 (GPU-c): XID 79, which asks for a reboot"
	if len(holds) > 0 {
		sg.Status.Instances[0].Ready, sg.Status.Instances[0].DownSince = false, new(metav1.NewTime(at(10)))
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "llm-1-decode-0-0", Labels: map[string]string{v1alpha1.LabelRole: "decode", v1alpha1.LabelInstance: "0"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "pitstop.dev/v1alpha1", Kind: "ServingGroup", Name: "llm-1", UID: "sg-uid", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "node-b"},
	}
	ail(p, v1alpha1.GPUFalseXID, "GPU 2 (GPU-c): XID 79, which asks for a reboot")
	f.Pods = append(f.Pods, p)
	f.says(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.BlockedGPU, "llm-1 has a sick GPU")
}

func TestDiagnoseServing(t *testing.T) {
	for name, change := range map[string]func(*ServingFacts){
		"settled": func(*ServingFacts) {},
		"of others": func(f *ServingFacts) {
			f.Groups[0].OwnerReferences[0].UID = "other"
			f.Groups[0].DeletionTimestamp = new(metav1.NewTime(at(1)))
		},
		"never taken up": func(f *ServingFacts) { f.Serving.Status = v1alpha1.ModelServingStatus{}; f.Groups = nil },
		"being deleted":  func(f *ServingFacts) { f.Serving.DeletionTimestamp = new(metav1.NewTime(at(90))) },
		"no coordinator": func(f *ServingFacts) { rolling(*f, "", ""); f.Lease = nil },
		"coordinator gone": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitDrained, v1alpha1.UnitWaitingPermit)
			f.Lease.Spec.RenewTime.Time = at(20)
		},
		"coordinator unknown":       func(f *ServingFacts) { f.Lease, f.LeaseUnknown = nil, true },
		"spec newer than report":    func(f *ServingFacts) { f.Serving.Generation = 4 },
		"draining":                  func(f *ServingFacts) { rolling(*f, v1alpha1.UnitDraining, v1alpha1.UnitWaitingDrain) },
		"draining without a reason": func(f *ServingFacts) { rolling(*f, v1alpha1.UnitDraining, "") },
		"drained":                   func(f *ServingFacts) { rolling(*f, v1alpha1.UnitDrained, v1alpha1.UnitWaitingPermit) },
		"swapping":                  func(f *ServingFacts) { rolling(*f, v1alpha1.UnitSwapping, v1alpha1.UnitWaitingScheduling) },
		"swapping without a reason": func(f *ServingFacts) { rolling(*f, v1alpha1.UnitSwapping, "") },
		"swapping, deadline over": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitSwapping, v1alpha1.UnitWaitingReady)
			f.Serving.Spec.ProgressDeadlineSeconds = new(int32(20))
		},
		"verified": func(f *ServingFacts) { rolling(*f, v1alpha1.UnitVerified, "") },
		"in service": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitInService, "")
			f.Serving.Spec.RolloutStrategy.MinReadySeconds = 60
		},
		"failed": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitFailed, v1alpha1.UnitWaitingReady)
			f.says(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.BlockedFailed, "llm-3 is Failed since 15:01:10 at llm-new")
			f.says(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.AvailableTooFew, "2 of 4 groups are available")
		},
		"taken back": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitDraining, "")
			f.group(3).Spec.Updates[0].Target = "llm-old"
		},
		"a later attempt": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitDraining, v1alpha1.UnitWaitingDrain)
			f.group(3).Spec.Updates[0].Attempt = 5
		},
		"complete, though names differ": func(f *ServingFacts) { f.Serving.Status.UpdateRevision = "llm-new" },
		"complete, of the spec before": func(f *ServingFacts) {
			f.Serving.Status.UpdateRevision, f.Serving.Generation = "llm-new", 4
		},
		"held for a sick GPU":                       func(f *ServingFacts) { sick(f, "") },
		"held for a sick GPU whose Pod is not seen": func(f *ServingFacts) { sick(f, ""); f.Pods = nil },
		"a role instance is held for a sick GPU": func(f *ServingFacts) {
			f.Serving.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate
			sick(f, "decode-0")
		},
		"a sick GPU and no budget": func(f *ServingFacts) { sick(f) },
		"held for a GPU that is well again": func(f *ServingFacts) {
			sick(f, "")
			f.group(1).Status.Instances[0].GPUFault, f.Pods = "", nil
			f.says(v1alpha1.ConditionBlocked, metav1.ConditionFalse, v1alpha1.NotBlocked, "")
		},
		"others wait for the budget that a sick unit takes": func(f *ServingFacts) {
			sick(f, "")
			f.Serving.Status.UpdateRevision, f.Serving.Status.UpdatedReplicas = "llm-new", 0
			f.says(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ProgressingRollout, "0 of 4 groups are at llm-new")
			f.says(v1alpha1.ConditionBlocked, metav1.ConditionFalse, v1alpha1.NotBlocked, "")
		},
		"paused": func(f *ServingFacts) { rolling(*f, v1alpha1.UnitVerified, ""); f.Serving.Spec.Paused = true },
		"nothing started": func(f *ServingFacts) {
			f.Serving.Status.UpdateRevision, f.Serving.Status.UpdatedReplicas = "llm-new", 0
			f.says(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ProgressingRollout, "")
		},
		"partition": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitDraining, "")
			f.Serving.Spec.RolloutStrategy.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{Partition: new(intstr.FromString("30%"))}
		},
		"partition reached": func(f *ServingFacts) {
			f.Serving.Status.UpdateRevision = "llm-new"
			f.group(3).Spec.Revision, f.group(2).Spec.Revision = "llm-new", "llm-new"
			f.Serving.Status.UpdatedReplicas = 2
			f.Serving.Spec.RolloutStrategy.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{Partition: new(intstr.FromInt32(2))}
			f.says(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ProgressingPartition, "groups 2 to 3 are at llm-new")
		},
		"role by role": func(f *ServingFacts) {
			f.Serving.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate
			f.Serving.Spec.Template.Roles = []v1alpha1.Role{
				{Name: "decode", Partition: new(intstr.FromInt32(1))},
				{Name: "prefill", Replicas: new(int32(1)), Partition: new(intstr.FromInt32(0))},
			}
			f.Serving.Status.UpdateRevision, f.Serving.Status.UpdatedReplicas = "llm-new", 0
			f.open(3, v1alpha1.UnitUpdate{Unit: "prefill-0", Attempt: 2, Method: v1alpha1.UnitRecreate, Target: "llm-new", Permit: v1alpha1.PermitSwap}, v1alpha1.UnitSwapping, v1alpha1.UnitWaitingDeletion)
			f.group(2).Spec.Instances[1].Revision = "llm-new"
			down(*f, 3, v1alpha1.InstanceRunning) // in the update
			f.says(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ProgressingRollout, "")
		},
		"a role that stays the same": func(f *ServingFacts) {
			f.Serving.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate
			f.Serving.Status.UpdateRevision, f.Serving.Status.UpdatedReplicas = "llm-new", 0
			f.Pins = pins.Pins{"ns/llm-old": {"decode": "a", "prefill": "b"}, "ns/llm-new": {"decode": "a", "prefill": "c"}}
			f.says(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ProgressingRollout, "")
		},
		"groups that stay the same": func(f *ServingFacts) {
			f.Serving.Status.UpdateRevision = "llm-new"
			f.Pins = pins.Pins{"ns/llm-old": {"decode": "a"}, "ns/llm-new": {"decode": "a"}}
			f.says(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ProgressingReady, "")
		},
		"removed and leaving": func(f *ServingFacts) {
			f.open(3, v1alpha1.UnitUpdate{Attempt: 1, Method: v1alpha1.UnitRemove, Permit: v1alpha1.PermitDrain}, v1alpha1.UnitDraining, v1alpha1.UnitWaitingDrain)
			f.group(2).DeletionTimestamp = new(metav1.NewTime(at(85)))
			down(*f, 2, v1alpha1.InstanceRunning) // goes anyway
			f.says(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ProgressingScale, "")
		},
		"instances down": func(f *ServingFacts) {
			down(*f, 0, v1alpha1.InstanceRunning)
			down(*f, 1, v1alpha1.InstanceRecreating)
			down(*f, 2, v1alpha1.InstanceCreating)
			down(*f, 3, v1alpha1.InstanceRemoving)
		},
		"booked": func(f *ServingFacts) { f.Serving.Status.Updating = []string{"llm-2", "llm-1/decode-0"} },
		"group blocked": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitSwapping, v1alpha1.UnitWaitingReady)
			f.group(3).Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: string(v1alpha1.BlockedCreate),
				Message: "exceeded quota: gpus", LastTransitionTime: metav1.NewTime(at(75)),
			}}
		},
		"words of a later version": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitDraining, "SomethingNew")
			f.open(2, v1alpha1.UnitUpdate{Attempt: 1, Method: v1alpha1.UnitRecreate, Target: "llm-new", Permit: v1alpha1.PermitDrain}, "Polishing", "")
			f.says(v1alpha1.ConditionBlocked, metav1.ConditionUnknown, "NewWord", "never heard of")
		},
		"many groups": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitDraining, "")
			for n := range int32(8) {
				more := f.group(0).DeepCopy()
				more.Name, more.Spec.Ordinal = v1alpha1.ServingGroupName("llm", 4+n), new(4+n)
				f.Groups = append(f.Groups, more)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled()
			change(&f)
			golden.Compare(t, "serving "+name+".txt", Serving(f).Text())
		})
	}
}

// The JSON form is a contract: scripts read it.
func TestServingDiagnosisAsJSON(t *testing.T) {
	f := settled()
	rolling(f, v1alpha1.UnitSwapping, v1alpha1.UnitWaitingScheduling)
	f.Serving.Spec.RolloutStrategy.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{Partition: new(intstr.FromInt32(1))}
	data, err := json.MarshalIndent(Serving(f), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "serving as JSON.txt", string(data)+"\n")
}

// inPlace is a rollout in place of which group 3 has a permit and is at a stage.
func inPlace(f ServingFacts, permit v1alpha1.Permit, stage v1alpha1.UnitStage, reason v1alpha1.UnitReason) {
	rolling(f, stage, reason)
	u := &f.group(3).Spec.Updates[0]
	u.Method, u.Permit = v1alpha1.UnitInPlace, permit
	f.Serving.Spec.RolloutStrategy.UpdateMethod = v1alpha1.UpdateInPlace
	if u.Preparing() {
		f.Serving.Status.Updating, f.Serving.Status.AvailableReplicas = nil, 4
	}
	if stage == v1alpha1.UnitPreparing || stage == v1alpha1.UnitDraining || stage == v1alpha1.UnitSwapping {
		f.group(3).Status.Updates[0].Deadline = new(metav1.NewTime(at(730)))
	}
}

func TestDiagnoseUnitsInPlace(t *testing.T) {
	for name, change := range map[string]func(*ServingFacts){
		"preparing": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitPrepare, v1alpha1.UnitPreparing, v1alpha1.UnitReason(v1alpha1.WaitingPull))
		},
		"prepared": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitPrepare, v1alpha1.UnitPrepared, v1alpha1.UnitWaitingPermit)
			down(*f, 3, v1alpha1.InstanceRunning) // not by the update
		},
		"wrong tag": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitPrepare, v1alpha1.UnitRefused, v1alpha1.UnitReason(v1alpha1.RefusedNotFound))
			f.group(3).Spec.Updates[0].Tries, f.group(3).Spec.Updates[0].NotBefore = 2, new(metav1.NewTime(at(160)))
			f.says(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.BlockedRefused, "llm-3 is not brought to revision llm-new")
		},
		"draining": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitDrain, v1alpha1.UnitDraining, v1alpha1.UnitReason(v1alpha1.WaitingAcknowledge))
		},
		"backed out": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitDrain, v1alpha1.UnitRefused, v1alpha1.UnitAgentMissing)
		},
		"swapping": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitSwap, v1alpha1.UnitSwapping, v1alpha1.UnitReason(v1alpha1.WaitingLoad))
		},
		"swapping without a reason": func(f *ServingFacts) { inPlace(*f, v1alpha1.PermitSwap, v1alpha1.UnitSwapping, "") },
		"refused under the hold": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitDrain, v1alpha1.UnitRefused, v1alpha1.UnitReason(v1alpha1.RefusedPlatform))
			f.group(3).Spec.Updates[0].Swapped = true
		},
		"crashing": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitSwap, v1alpha1.UnitFailed, v1alpha1.UnitReason(v1alpha1.FailedCrashLooping))
			f.says(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.BlockedFailed, "llm-3 failed at revision llm-new")
		},
		"late": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitSwap, v1alpha1.UnitFailed, v1alpha1.UnitReason(v1alpha1.FailedDeadline))
		},
		"cancelled": func(f *ServingFacts) {
			inPlace(*f, v1alpha1.PermitPrepare, v1alpha1.UnitRefused, v1alpha1.UnitCancelled)
			u := &f.group(3).Spec.Updates[0]
			u.NotBefore, u.Request = new(metav1.NewTime(at(160))), &v1alpha1.UnitRequest{Verb: v1alpha1.VerbCancel, ID: "r1"}
		},
		"recreated on request": func(f *ServingFacts) {
			rolling(*f, v1alpha1.UnitSwapping, v1alpha1.UnitWaitingScheduling)
			u := &f.group(3).Spec.Updates[0]
			u.Permit, u.Target, u.Previous, u.Request = v1alpha1.PermitSwap, "llm-old", "llm-old", &v1alpha1.UnitRequest{Verb: v1alpha1.VerbRecreate, ID: "r1"}
		},
		"rejected": func(f *ServingFacts) {
			f.Serving.Status.UpdateRevision, f.Serving.Status.RejectedRevision, f.Serving.Status.UpdatedReplicas = "llm-new", "llm-new", 0
			f.says(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.BlockedRejected, "a unit failed at revision llm-new and was taken back")
		},
		"not possible": func(f *ServingFacts) {
			f.Serving.Status.UpdateRevision, f.Serving.Status.UpdatedReplicas = "llm-new", 0
			f.says(v1alpha1.ConditionBlocked, metav1.ConditionTrue, v1alpha1.BlockedNotInPlace, "4 units cannot be updated in place: role decode is added")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled()
			change(&f)
			golden.Compare(t, "serving in place "+name+".txt", Serving(f).Text())
		})
	}
}

// Whatever stage and reason an update reports, the answer says what is waited for and what ends it.
func TestEveryStageIsExplained(t *testing.T) {
	stages := append(words[v1alpha1.UnitStage](t, "UnitStage", 9), "")
	reasons := append(words[v1alpha1.UnitReason](t, "UnitReason", 11), "")
	reasons = append(reasons, words[v1alpha1.UnitReason](t, "Reason", 40)...) // those of agents
	for _, permit := range []v1alpha1.Permit{v1alpha1.PermitPrepare, v1alpha1.PermitDrain, v1alpha1.PermitSwap} {
		for _, stage := range stages {
			for _, reason := range reasons {
				f := settled()
				inPlace(f, permit, stage, reason)
				d := Serving(f)
				if len(d.Waits) != 1 || d.Waits[0].Why == "" || d.Waits[0].Way == "" || strings.Contains(d.Text(), "does not know") {
					t.Errorf("%s %s: %+v", stage, reason, d.Waits)
				}
				if stage != "" && !d.Waits[0].Since.Equal(new(metav1.NewTime(at(70)))) {
					t.Errorf("%s %s: since %v", stage, reason, d.Waits[0].Since)
				}
			}
		}
	}
}
