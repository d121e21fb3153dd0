package order_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// engine is a Pod that can be updated in place.
func engine() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "engine-0", UID: "pod-uid", Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName:       "node-a",
			RestartPolicy:  corev1.RestartPolicyAlways,
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}},
			InitContainers: []corev1.Container{{Name: "warm"}},
			Containers: []corev1.Container{
				{Name: "engine", Image: "r/engine:v1", ImagePullPolicy: corev1.PullIfNotPresent},
				{Name: "proxy", Image: "r/proxy:v1", ImagePullPolicy: corev1.PullIfNotPresent},
			},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// last is an order for engine at its second attempt, as the agent reported it.
func last(stage v1alpha1.Stage) *v1alpha1.InPlaceUpdate {
	return &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "engine-0", UID: "ipu-uid", ResourceVersion: "7",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "engine-0", UID: "pod-uid"}},
		},
		Spec: v1alpha1.InPlaceUpdateSpec{
			PodUID: "pod-uid", NodeName: "node-a", Attempt: 2, OpenAt: v1alpha1.OpenAtProved, Permit: v1alpha1.PermitServe,
			Containers: []v1alpha1.ContainerImage{{Name: "engine", Image: "r/engine:v2"}},
		},
		Status: v1alpha1.InPlaceUpdateStatus{
			Attempt: 2, Stage: stage,
			Containers: []v1alpha1.ContainerReport{{Name: "engine", Before: &v1alpha1.ContainerState{Image: "r/engine:v1"}}},
		},
	}
}

func request(names ...string) order.Request {
	r := order.Request{
		Drain: v1alpha1.DrainEngineMetrics, DrainFor: 300 * time.Second,
		Propagation: ptr.To(3 * time.Second), StopTimeout: ptr.To(30 * time.Second), Deadline: ptr.To(time.Minute),
	}
	for _, name := range names {
		r.Containers = append(r.Containers, v1alpha1.ContainerImage{Name: name, Image: "r/" + name + ":v3"})
	}
	return r
}

func TestUpdateMakesANewOrder(t *testing.T) {
	got, err := order.Update(engine(), nil, request("engine"))
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.InPlaceUpdate{
		TypeMeta: metav1.TypeMeta{APIVersion: "pitstop.dev/v1alpha1", Kind: "InPlaceUpdate"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "engine-0",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "engine-0", UID: "pod-uid"}},
		},
		Spec: v1alpha1.InPlaceUpdateSpec{
			PodUID: "pod-uid", NodeName: "node-a", Attempt: 1, OpenAt: v1alpha1.OpenAtProved, Permit: v1alpha1.PermitServe,
			Containers:              []v1alpha1.ContainerImage{{Name: "engine", Image: "r/engine:v3"}},
			Drain:                   &v1alpha1.Drain{Mode: v1alpha1.DrainEngineMetrics, TimeoutSeconds: ptr.To[int32](300)},
			PropagationSeconds:      ptr.To[int32](3),
			StopTimeoutSeconds:      ptr.To[int32](30),
			ProgressDeadlineSeconds: ptr.To[int32](60),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Update() (-want +got):\n%s", diff)
	}
}

func TestUpdateRaisesTheAttempt(t *testing.T) {
	before := last(v1alpha1.StageSwapping)
	kept := before.DeepCopy()
	got, err := order.Update(engine(), before, request("engine"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.Attempt != 3 || got.ResourceVersion != "7" || got.Spec.Containers[0].Image != "r/engine:v3" || len(got.OwnerReferences) != 1 {
		t.Errorf("Update() = %+v", got)
	}
	if diff := cmp.Diff(kept, before); diff != "" {
		t.Errorf("Update() changed its argument (-want +got):\n%s", diff)
	}
}

func TestUpdateRaisesTheAttemptPastTheReport(t *testing.T) {
	before := last(v1alpha1.StageInService)
	before.Status.Attempt = 9 // the spec was restored from a backup
	got, err := order.Update(engine(), before, request("engine"))
	if err != nil || got.Spec.Attempt != 10 {
		t.Errorf("Update() = %+v, %v", got, err)
	}
}

func TestUpdateAdoptsAnOrderWithoutOwner(t *testing.T) {
	before := last(v1alpha1.StageInService)
	before.OwnerReferences = nil
	got, err := order.Update(engine(), before, request("engine"))
	if err != nil || len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "pod-uid" {
		t.Errorf("Update() = %+v, %v", got, err)
	}
}

func TestUpdateRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.Pod, *v1alpha1.InPlaceUpdate)
		ask    []string
		want   []string // words of the error
	}{
		"a container that is not there, and lists those that are": {
			ask:  []string{"engin"},
			want: []string{"pod ns/engine-0", `"engin"`, "engine, proxy"},
		},
		"an init container": {
			ask:  []string{"warm"},
			want: []string{`"warm"`, "init container", "engine, proxy"},
		},
		"an ephemeral container": {
			ask:  []string{"debug"},
			want: []string{`"debug"`, "ephemeral", "engine, proxy"},
		},
		"pull policy Always": {
			change: func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) {
				p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
			},
			want: []string{`container "engine" of pod ns/engine-0`, "Always", "IfNotPresent"},
		},
		"a container that does not restart": {
			change: func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) {
				p.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
			},
			want: []string{`container "engine"`, "Never"},
		},
		"a Pod that does not restart": {
			change: func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure },
			want:   []string{"pod ns/engine-0", "OnFailure"},
		},
		"a Pod without gate": {
			change: func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) { p.Spec.ReadinessGates = nil },
			want:   []string{"pod ns/engine-0", "pitstop.dev/InService", "recreate"},
		},
		"a Pod without node": {
			change: func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) { p.Spec.NodeName = "" },
			want:   []string{"not scheduled"},
		},
		"a Pod that has ended": {
			change: func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) { p.Status.Phase = corev1.PodFailed },
			want:   []string{"phase Failed", "recreate"},
		},
		"a Pod that is being deleted": {
			change: func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) { p.DeletionTimestamp = new(metav1.Now()) },
			want:   []string{"being deleted"},
		},
		"a Pod that a ServingGroup owns": {
			change: func(p *corev1.Pod, _ *v1alpha1.InPlaceUpdate) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pitstop.dev/v1alpha1", Kind: "ServingGroup", Name: "llm-0"}}
			},
			want: []string{`ServingGroup "llm-0"`, "ModelServing"},
		},
		"a Pod that the coordinator gave an order for": {
			change: func(_ *corev1.Pod, u *v1alpha1.InPlaceUpdate) { u.Spec.ServingGroupUID = "sg-uid" },
			want:   []string{"sg-uid", "ModelServing"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod, before := engine(), last(v1alpha1.StageInService)
			if tt.change != nil {
				tt.change(pod, before)
			}
			if tt.ask == nil {
				tt.ask = []string{"engine"}
			}
			_, err := order.Update(pod, before, request(tt.ask...))
			if _, ok := errors.AsType[*order.RefusalError](err); !ok {
				t.Fatalf("Update() error %v, want a refusal", err)
			}
			contains(t, err, tt.want)
		})
	}
}

// A ServingGroup of another group is somebody else's.
func TestUpdateIsNotConcernedByForeignOwners(t *testing.T) {
	pod := engine()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "workload.example/v1", Kind: "ServingGroup", Name: "x"}, {APIVersion: "apps/v1", Kind: "StatefulSet", Name: "engine"}}
	if _, err := order.Update(pod, nil, request("engine")); err != nil {
		t.Error(err)
	}
}

func TestUpdateConflicts(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.InPlaceUpdate)
		want   []string
	}{
		"with an order for a former Pod": {
			func(u *v1alpha1.InPlaceUpdate) { u.Spec.PodUID = "former" },
			[]string{"former", "pod-uid", "kubectl -n ns delete inplaceupdate engine-0"},
		},
		"with an order that is being deleted": {
			func(u *v1alpha1.InPlaceUpdate) { u.DeletionTimestamp = new(metav1.Now()) },
			[]string{"being deleted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := last(v1alpha1.StageInService)
			tt.change(before)
			_, err := order.Update(engine(), before, request("engine"))
			if _, ok := errors.AsType[*order.ConflictError](err); !ok {
				t.Fatalf("Update() error %v, want a conflict", err)
			}
			contains(t, err, tt.want)
		})
	}
}

func TestCancelBeforeThePatch(t *testing.T) {
	for _, stage := range []v1alpha1.Stage{
		"", v1alpha1.StagePending, v1alpha1.StagePreparing, v1alpha1.StagePrepared, v1alpha1.StageDraining, v1alpha1.StageDrained,
	} {
		got, err := order.Cancel(engine(), last(stage))
		if err != nil || got.Spec.Attempt != 3 || len(got.Spec.Containers) != 0 || got.Spec.Permit != v1alpha1.PermitServe {
			t.Errorf("at %q: Cancel() = %+v, %v", stage, got, err)
		}
	}
}

func TestCancelOfAnAttemptThatTheReportIsNotAbout(t *testing.T) {
	before := last(v1alpha1.StageFailed) // of attempt 2
	before.Spec.Attempt = 3
	if got, err := order.Cancel(engine(), before); err != nil || got.Spec.Attempt != 4 {
		t.Errorf("Cancel() = %+v, %v", got, err)
	}
}

func TestCancelRefuses(t *testing.T) {
	patched := engine()
	patched.Annotations[v1alpha1.PatchedAt] = "ipu-uid/2 2026-01-01T00:00:00.000Z 30s"
	patchedBefore := engine()
	patchedBefore.Annotations[v1alpha1.PatchedAt] = "ipu-uid/1 2026-01-01T00:00:00.000Z 30s"
	withoutContainers := last(v1alpha1.StagePending)
	withoutContainers.Spec.Containers = nil
	foreign := last(v1alpha1.StagePending)
	foreign.Spec.ServingGroupUID = "sg-uid"
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		last *v1alpha1.InPlaceUpdate
		want []string
	}{
		"without an order":           {engine(), nil, []string{"no in-place update"}},
		"in service":                 {engine(), last(v1alpha1.StageInService), []string{"ended as InService"}},
		"refused":                    {engine(), last(v1alpha1.StageRefused), []string{"ended as Refused"}},
		"cancelled":                  {engine(), last(v1alpha1.StageCancelled), []string{"ended as Cancelled"}},
		"a cancel":                   {engine(), withoutContainers, []string{"cancel already"}},
		"of the coordinator":         {engine(), foreign, []string{"sg-uid"}},
		"patched, by the annotation": {patched, last(v1alpha1.StageDrained), []string{"attempt 2", "kubectl pitstop update engine-0 -n ns engine=r/engine:v1"}},
		"swapping":                   {patchedBefore, last(v1alpha1.StageSwapping), []string{"engine=r/engine:v1"}},
		"proved":                     {engine(), last(v1alpha1.StageProved), []string{"engine=r/engine:v1"}},
		"verified":                   {engine(), last(v1alpha1.StageVerified), []string{"engine=r/engine:v1"}},
		"failed":                     {engine(), last(v1alpha1.StageFailed), []string{"engine=r/engine:v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := order.Cancel(tt.pod, tt.last)
			if _, ok := errors.AsType[*order.RefusalError](err); !ok {
				t.Fatalf("Cancel() error %v, want a refusal", err)
			}
			contains(t, err, tt.want)
		})
	}
}

func contains(t *testing.T, err error, words []string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q lacks %q", err, word)
		}
	}
}
