package readiness

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"pitstop.dev/api/v1alpha1"
)

const (
	testUID   = types.UID("7d3c8b1e-0c3e-4b8e-9f0e-2f6f5a1c9d11")
	testToken = "0b6f6e5a-50f1-4d3c-8a35-8d0b8a8f0a77/3"
)

// t0 has milliseconds, as clocks have.
func t0() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC) }

type podOption func(*corev1.Pod)

// newPod returns a Pod with our gate and one container that has a port "http".
func newPod(options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "engine", Namespace: "default", UID: testUID, ResourceVersion: "41"},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}},
			Containers: []corev1.Container{{
				Name:  "engine",
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8000}},
			}},
		},
	}
	for _, o := range options {
		o(pod)
	}
	return pod
}

func withCondition(t corev1.PodConditionType, s corev1.ConditionStatus, reason, message string) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: t, Status: s, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(t0().Add(-time.Hour)),
		})
	}
}

func withGate(s corev1.ConditionStatus, message string) podOption {
	reason := ReasonHeld
	if s == corev1.ConditionTrue {
		reason = ReasonNoHold
	}
	return withCondition(v1alpha1.InService, s, reason, message)
}

func withHold(holder, value string) podOption {
	return func(pod *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.HoldPrefix+holder, value)
	}
}

func withAnnotation(key, value string) podOption {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
}

func withoutGate(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }

func withOtherGate(pod *corev1.Pod) {
	pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "example.com/balancer"})
}

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// apply does to the Pod what the API server does with the patch: UID and resourceVersion are
// preconditions.
func apply(t tester, pod *corev1.Pod, data []byte) *corev1.Pod {
	t.Helper()
	var want struct {
		Metadata struct {
			UID             types.UID
			ResourceVersion string
		}
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("patch is no JSON: %v", err)
	}
	if want.Metadata.UID != pod.UID {
		t.Fatalf("patch for UID %q met %q", want.Metadata.UID, pod.UID)
	}
	if v := want.Metadata.ResourceVersion; v != "" && v != pod.ResourceVersion {
		t.Fatalf("patch for resourceVersion %q met %q", v, pod.ResourceVersion)
	}
	old, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(old, data, corev1.Pod{})
	if err != nil {
		t.Fatalf("apply %s: %v", data, err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(merged, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// must returns the patch of a call that may not fail.
func must(t tester) func(data []byte, err error) []byte {
	t.Helper()
	return func(data []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
