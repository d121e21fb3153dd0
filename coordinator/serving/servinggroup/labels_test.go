package servinggroup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// strip takes all labels from an object, as somebody does who wants it out of every Service.
func (w *world) strip(o client.Object, name string) {
	w.t.Helper()
	w.must(w.api.Get(w.t.Context(), types.NamespacedName{Namespace: space, Name: name}, o))
	o.SetLabels(nil)
	w.must(w.api.Update(w.t.Context(), o))
}

// rests has the controller come to rest, which it does not while it takes its readings for outdated.
func (w *world) rests() {
	w.t.Helper()
	w.reconcile()
	result, err := w.r.Reconcile(w.t.Context(), request())
	w.must(err)
	if result.RequeueAfter > 0 && result.RequeueAfter < time.Second {
		w.t.Errorf("looks again after %s, for ever", result.RequeueAfter)
	}
}

func TestFindsAPodWithoutLabelsWhileItsInstanceIsMade(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.reconcile()
	sg := w.group() // as if the Pod had not been seen yet
	for n := range sg.Status.Instances {
		sg.Status.Instances[n].Phase = v1alpha1.InstanceCreating
	}
	w.must(w.api.Status().Update(t.Context(), sg))
	w.strip(&corev1.Pod{}, "llm-0-decode-0-0")
	born := uids(w)
	w.rests()
	if p := w.pod("llm-0-decode-0-0"); p.Labels[v1alpha1.LabelServingGroup] != "llm-0" || p.Labels[v1alpha1.LabelModelServing] != "llm" {
		t.Errorf("labels: %v", p.Labels)
	}
	if got := uids(w); got != born {
		t.Errorf("Pods were replaced: %s, before %s", got, born)
	}
	w.settle()
	if sg := w.group(); sg.Status.ReadyPods != 3 {
		t.Errorf("status: %+v", sg.Status)
	}
}

func TestAGroupStaysUntilAPodWithoutLabelsIsGone(t *testing.T) {
	t.Run("one that was reported", func(t *testing.T) { staysForAPod(t, func(*world) {}) })
	t.Run("one that never was", func(t *testing.T) {
		staysForAPod(t, func(w *world) {
			sg := w.group()
			sg.Status.Instances = nil
			w.must(w.api.Status().Update(t.Context(), sg))
		})
	})
}

// staysForAPod deletes a group of which a Pod has lost its labels.
func staysForAPod(t *testing.T, before func(*world)) {
	t.Helper()
	w := newWorld(t, declare(t, "r1")...)
	w.settle()
	w.strip(&corev1.Pod{}, "llm-0-decode-0-0")
	before(w)
	w.must(w.api.Delete(t.Context(), w.group()))
	w.reconcile()
	for _, p := range w.pods() {
		if p.DeletionTimestamp == nil {
			t.Errorf("%s was not deleted", p.Name)
		}
	}
	for _, p := range w.pods() {
		if p.Finalizers = nil; p.Name != "llm-0-decode-0-0" {
			w.must(w.api.Update(t.Context(), &p))
		}
	}
	w.reconcile()
	var group v1alpha1.ServingGroup
	if err := w.api.Get(t.Context(), request().NamespacedName, &group); err != nil {
		t.Fatalf("the ordinal is free while a Pod lives: %v", err)
	}
	w.kubelet()
	w.reconcile()
	var sg v1alpha1.ServingGroup
	if err := w.api.Get(t.Context(), request().NamespacedName, &sg); !apierrors.IsNotFound(err) {
		t.Errorf("the group is still there: %v", err)
	}
}

func TestFindsAPodWithoutLabelsThoughNothingIsDecided(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.settle()
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Revision = "lost" })
	w.reconcile()
	w.strip(&corev1.Pod{}, "llm-0-decode-0-0")
	w.reconcile()
	if sg := w.group(); sg.Status.LivePods != 3 {
		t.Errorf("status: %+v", sg.Status)
	}
	if p := w.pod("llm-0-decode-0-0"); p.Labels[v1alpha1.LabelServingGroup] != "llm-0" {
		t.Errorf("labels: %v", p.Labels)
	}
}

func TestGivesAServiceItsLabelsBack(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.settle()
	var service corev1.Service
	w.strip(&service, "llm-0-prefill-0-0")
	w.rests()
	uid := service.UID
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(&service), &service))
	if service.UID != uid || service.Labels[v1alpha1.LabelModelServing] != "llm" || service.Labels[v1alpha1.LabelServingGroup] != "llm-0" {
		t.Errorf("service: %+v", service.ObjectMeta)
	}
}

func TestReplacesAnOrderThatLostItsLabel(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.live()
	drainGroup(w)
	w.reconcile()
	var order v1alpha1.InPlaceUpdate
	w.must(w.api.Get(t.Context(), types.NamespacedName{Namespace: space, Name: "llm-0-decode-0-0"}, &order))
	delete(order.Labels, v1alpha1.LabelModelServing)
	w.must(w.api.Update(t.Context(), &order))
	for range 3 {
		w.live()
	}
	if got := w.stage(""); got != v1alpha1.UnitDrained {
		t.Errorf("stage %q: %+v", got, w.group().Status)
	}
}

func TestTakesUpAGroupWhoseModelServingNoCacheShows(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.unseen = "llm"
	w.reconcile()
	if !slices.ContainsFunc(w.trace, func(s string) bool { return strings.HasPrefix(s, "create Pod") }) {
		t.Errorf("did %s", strings.Join(w.trace, ", "))
	}
}
