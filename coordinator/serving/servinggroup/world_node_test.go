package servinggroup_test

import (
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// kubelet starts and stops Pods, and reports whether it did anything.
func (w *world) kubelet() bool {
	w.t.Helper()
	var moved bool
	for _, p := range w.pods() {
		switch {
		case p.DeletionTimestamp != nil:
			p.Finalizers = nil
			w.must(w.api.Update(w.t.Context(), &p))
			moved = true
		case p.Spec.NodeName == "":
			p.Spec.NodeName = node
			w.must(w.api.Update(w.t.Context(), &p))
			moved = true
		case p.Status.Phase == corev1.PodFailed:
		default:
			moved = w.ready(p) || moved
		}
	}
	return moved
}

func (w *world) ready(p corev1.Pod) bool {
	w.t.Helper()
	open, status := readiness.GateOf(&p).Open, corev1.ConditionFalse
	if readiness.ContainersReady(&p) && readiness.Ready(&p) == open {
		return false
	}
	if open {
		status = corev1.ConditionTrue
	}
	set(&p, corev1.ContainersReady, corev1.ConditionTrue, w.clock.Now())
	set(&p, corev1.PodReady, status, w.clock.Now())
	p.Status.Phase = corev1.PodRunning
	w.must(w.api.Status().Update(w.t.Context(), &p))
	return true
}

func set(p *corev1.Pod, t corev1.PodConditionType, status corev1.ConditionStatus, now time.Time) {
	c := corev1.PodCondition{Type: t, Status: status, LastTransitionTime: metav1.NewTime(now)}
	p.Status.Conditions = append(slices.DeleteFunc(p.Status.Conditions, func(old corev1.PodCondition) bool { return old.Type == t }), c)
}

// lease renews that of the node's agent.
func (w *world) lease() {
	w.t.Helper()
	l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: v1alpha1.AgentLeaseName(node)}}
	err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(&l), &l)
	l.Annotations = map[string]string{v1alpha1.AnnotationAgentProtocol: strconv.Itoa(v1alpha1.AgentProtocol)}
	l.Spec.RenewTime = new(metav1.NewMicroTime(w.clock.Now()))
	if apierrors.IsNotFound(err) {
		w.must(w.api.Create(w.t.Context(), &l))
		return
	}
	w.must(err)
	w.must(w.api.Update(w.t.Context(), &l))
}
