package verb_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

func TestExplain(t *testing.T) {
	b := newBench(t, because(ordered(1, v1alpha1.StageRefused), v1alpha1.RefusedNotFound, "r/engine:v2: not found"))
	b.want(t, b.run(t.Context(), "explain", "engine-0"), 0)
	for _, word := range []string{"ImageNotFound", "r/engine:v2: not found", "alive, seen 5s ago"} {
		if !strings.Contains(b.out.String(), word) {
			t.Errorf("output lacks %q:\n%s", word, b.out)
		}
	}
	b.want(t, b.run(t.Context(), "explain", "engine-0", "-o", "json"), 0)
	var printed struct{ Reason, Stage, Gate string }
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || printed.Reason != "ImageNotFound" || printed.Stage != "Refused" || printed.Gate != "open" {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestExplainServing(t *testing.T) {
	b := newServingBench(t)
	for _, arg := range []string{"modelserving/llm", "ms/llm", "ModelServings/llm"} {
		b.want(t, b.run(t.Context(), "explain", arg), 0)
		b.printed(t, `ModelServing: ns/llm
Now:          0 of 1 groups are available; 0 of 1 are at the target llm-2 and in no update
Coordinator:  alive, seen 1s ago

Unit:         llm-0: attempt 3 brings it to llm-2
Stage:        Draining for 60s (since 2026-01-02T14:59:00Z), permit Drain
Reason:       Draining: requests are still running in a Pod of the unit, or their number is unknown
It says:      running 3
Way on:       the last request ends, or the drain timeout of the ModelServing comes and cuts what is left
`)
	}
	b.want(t, b.run(t.Context(), "explain", "ms/llm", "-o", "json"), 0)
	var printed struct {
		Waits []struct{ Unit, Stage, Reason string }
	}
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || len(printed.Waits) != 1 || printed.Waits[0].Unit != "llm-0" || printed.Waits[0].Stage != "Draining" {
		t.Errorf("printed %s, %v", b.out, err)
	}
	b.want(t, b.run(t.Context(), "explain", "pod/llm-0-decode-0-0"), 0)
	if !strings.Contains(b.out.String(), `ServingGroup "llm-0"`) {
		t.Errorf("output: %s", b.out)
	}
}

// newSickBench is a node bench whose Pod is held for the GPU of another Pod of its ServingGroup.
func newSickBench(t *testing.T) *bench {
	t.Helper()
	b := newNodeBench(t)
	sg := &v1alpha1.ServingGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "pitstop.dev/v1alpha1", Kind: "ServingGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm-0", UID: "sg-uid"},
		Spec:       v1alpha1.ServingGroupSpec{Ordinal: new(int32(0)), GPUHolds: []string{""}},
		Status: v1alpha1.ServingGroupStatus{Instances: []v1alpha1.InstanceStatus{
			{Role: "decode", Ordinal: new(int32(0)), GPUFault: "Pod engine-1 on node node-b: the coordinator's words"},
		}},
	}
	if err := b.dynamic.Tracker().Add(unstructuredOf(t, sg)); err != nil {
		t.Fatal(err)
	}
	held, sick := pod(), pod()
	held.Annotations = map[string]string{v1alpha1.HoldGPUHealth: "true"}
	sick.Name, sick.UID, sick.Spec.NodeName = "engine-1", "other-uid", "node-b"
	sick.Status.Conditions = append(sick.Status.Conditions, corev1.PodCondition{
		Type: v1alpha1.GPUHealthy, Status: corev1.ConditionFalse, Reason: "RecoveryRequired", Message: "GPU 3 (GPU-d): needs a reset",
	})
	for _, p := range []*corev1.Pod{held, sick} {
		p.Labels = map[string]string{v1alpha1.LabelModelServing: "llm"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pitstop.dev/v1alpha1", Kind: "ServingGroup", Name: "llm-0", UID: "sg-uid", Controller: new(true)}}
	}
	if err := b.core.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), held, "ns"); err != nil {
		t.Fatal(err)
	}
	if err := b.core.Tracker().Add(sick); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExplainNamesTheSickGPUOfAnotherPod(t *testing.T) {
	b := newSickBench(t)
	b.want(t, b.run(t.Context(), "explain", "engine-0"), 0)
	for _, want := range []string{
		"Sick GPU:     Pod engine-1 on node node-b: RecoveryRequired: GPU 3 (GPU-d): needs a reset",
		"`nvidia-smi --gpu-reset -i 3`", "`kubectl pitstop gpu release node-b --for 10m`",
	} {
		if !strings.Contains(b.out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, b.out)
		}
	}
	b.wroteNothing(t)
	b.forbid("list", "pods")
	b.want(t, b.run(t.Context(), "explain", "engine-0"), 0)
	if want := "Pod engine-1 on node node-b: the coordinator's words"; !strings.Contains(b.out.String(), want) {
		t.Errorf("output lacks %q:\n%s", want, b.out)
	}
	b.forbid("get", "servinggroups")
	b.want(t, b.run(t.Context(), "explain", "engine-0"), 0)
}

func TestExplainLooksAtTheNodeOfAPodWithoutACondition(t *testing.T) {
	b := newNodeBench(t)
	n, err := b.core.CoreV1().Nodes().Get(t.Context(), "node-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason, n.Status.Conditions[0].Message = corev1.ConditionFalse, "DeviceLost", "GPU 0 (GPU-a): does not answer any more"
	if err := b.core.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""); err != nil {
		t.Fatal(err)
	}
	b.want(t, b.run(t.Context(), "explain", "engine-0"), 0)
	if want := "GPUs of its node are sick (DeviceLost: GPU 0 (GPU-a): does not answer any more)"; !strings.Contains(b.out.String(), want) {
		t.Errorf("output lacks %q:\n%s", want, b.out)
	}
	b.forbid("get", "nodes")
	b.want(t, b.run(t.Context(), "explain", "engine-0"), 0)
}
