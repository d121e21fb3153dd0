package agent

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// An image that the agent may not pull is kubelet's to bring: the coordinator is told at once, and what has come is
// seen within seconds, without a pull.
func TestAnImageThatKubeletBrings(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	process, here := NewProcess("n", clock), false
	key := types.NamespacedName{Namespace: "models", Name: "llm-0-decode-0-0"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "pod", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ServingGroup", UID: "sg",
		}}},
		Spec: corev1.PodSpec{
			NodeName: "n", ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}}, RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "engine", Image: "engine:1", ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
	order := &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "order"},
		Spec: v1alpha1.InPlaceUpdateSpec{
			PodUID: "pod", NodeName: "n", ServingGroupUID: "sg", Attempt: 1, Permit: v1alpha1.PermitPrepare, OpenAt: v1alpha1.OpenAtVerified,
			Containers: []v1alpha1.ContainerImage{{Name: "engine", Image: "private:2"}}, ProgressDeadlineSeconds: new(int32(600)),
		},
	}
	look := func() *Look {
		return process.Look(Reading{
			Key: key, Pod: pod, Order: order, Node: Node{RuntimeUp: true, KubeletUp: true, JournalOpen: true},
			Image: func(string) (Proof, bool) { return Proof{State: Proved, ID: "sha"}, here },
			Hash:  func(_, image string) string { return image },
		})
	}

	l := look()
	if l.Step.Do != ActPull {
		t.Fatalf("first it tries to pull: %+v", l.Step)
	}
	l.Pulls()(cri.ErrUnauthorized)
	until, status := look().Waits()
	if status == nil || status.Reason != v1alpha1.WaitingUnauthorized || status.Stage != v1alpha1.StagePreparing {
		t.Fatalf("the coordinator is not told: %+v", status)
	}
	order.Status = *status
	for range 4 { // whatever the pause before the next pull is
		if wait := until.Sub(clock.Now()); wait <= 0 || wait > broughtBy {
			t.Fatalf("it looks again after %s", wait)
		}
		clock.SetTime(until)
		l = look()
		if l.Step.Do == ActPull {
			l.Pulls()(cri.ErrUnauthorized)
			l = look()
		}
		if l.Step.Reason != v1alpha1.WaitingUnauthorized {
			t.Fatalf("it waits for something else: %+v", l.Step)
		}
		if until, status = l.Waits(); status != nil {
			t.Fatalf("the same is told again: %+v", status)
		}
	}
	here = true
	if l = look(); l.Step.Do != ActReport || l.Step.Stage != v1alpha1.StagePrepared {
		t.Errorf("the image has come: %+v", l.Step)
	}
}
