package servinggroup_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// TestSurvivesACrashAtEveryWrite has the coordinator die at each write of a group's life: made,
// recreated, removed.
func TestSurvivesACrashAtEveryWrite(t *testing.T) {
	life := func(w *world) {
		w.settle()
		swapGroup(w)
		checkServes(w, "r2")
		sg := w.group()
		w.must(w.api.Delete(w.t.Context(), sg))
		w.settle()
	}
	whole := newWorld(t, declare(t, "r1", "r2")...)
	life(whole)
	for cut := 1; cut <= len(whole.trace); cut++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d after=%t", cut, after), func(t *testing.T) {
				w := newWorld(t, declare(t, "r1", "r2")...)
				w.cut, w.cutAfter = cut, after
				life(w)
				checkGone(w)
				for _, name := range all() {
					if n := slices.DeleteFunc(slices.Clone(w.trace), func(s string) bool { return s != "create Pod "+name }); len(n) != 2 {
						t.Errorf("%s was made %d times: %s", name, len(n), strings.Join(w.trace, ", "))
					}
				}
			})
		}
	}
}

func checkGone(w *world) {
	w.t.Helper()
	var groups v1alpha1.ServingGroupList
	var services corev1.ServiceList
	w.must(errors.Join(w.api.List(w.t.Context(), &groups), w.api.List(w.t.Context(), &services)))
	if len(groups.Items) != 0 || len(services.Items) != 0 || len(w.pods()) != 0 {
		w.t.Errorf("left: %d groups, %d services, %d pods", len(groups.Items), len(services.Items), len(w.pods()))
	}
}

func (w *world) blocked() (reason, message string) {
	w.t.Helper()
	for _, c := range w.group().Status.Conditions {
		if c.Type == v1alpha1.ConditionBlocked && c.Status == metav1.ConditionTrue {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

func TestNeverAdopts(t *testing.T) {
	other := metav1.ObjectMeta{
		Namespace: space, UID: "foreign", Labels: placed(),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "other", UID: "other", Controller: new(true)}},
	}
	pod, service := &corev1.Pod{ObjectMeta: other}, &corev1.Service{ObjectMeta: other}
	pod.Name, service.Name = "llm-0-decode-0-0", "llm-0-prefill-0-0"
	for name, foreign := range map[string]client.Object{"a Pod": pod, "a Service": service} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(declare(t, "r1"), foreign)...)
			before := foreign.GetResourceVersion()
			w.reconcile()
			reason, message := w.blocked()
			if reason != string(v1alpha1.BlockedName) || !strings.Contains(message, foreign.GetName()) {
				t.Errorf("blocked: %q %q", reason, message)
			}
			w.trace = nil
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.reconcile()
			if len(w.trace) != 0 {
				t.Errorf("what is still so was written again: %s", strings.Join(w.trace, ", "))
			}
			w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
			if foreign.GetResourceVersion() != before {
				t.Error("the foreign object was touched")
			}
			foreign.SetFinalizers(nil)
			w.must(w.api.Update(t.Context(), foreign))
			w.must(w.api.Delete(t.Context(), foreign))
			w.settle()
			checkServes(w, "r1")
			if reason, _ := w.blocked(); reason != "" {
				t.Errorf("still blocked: %s", reason)
			}
		})
	}
}

func placed() map[string]string {
	return map[string]string{
		v1alpha1.LabelModelServing: "llm", v1alpha1.LabelServingGroup: "llm-0", v1alpha1.LabelRole: "decode",
		v1alpha1.LabelInstance: "0", v1alpha1.LabelIndex: "0",
	}
}

func TestSaysWhatTheServerRefuses(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.refuse = func(verb string, o client.Object) error {
		if _, ok := o.(*corev1.Pod); ok && verb == "create" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("exceeded quota: gpus"))
		}
		return nil
	}
	_, err := w.r.Reconcile(t.Context(), request())
	if !apierrors.IsForbidden(err) {
		t.Errorf("no error that is retried with back-off: %v", err)
	}
	if reason, message := w.blocked(); reason != string(v1alpha1.BlockedCreate) || !strings.Contains(message, "exceeded quota: gpus") {
		t.Errorf("blocked: %q %q", reason, message)
	}
	w.refuse = nil
	w.settle()
	checkServes(w, "r1")
}

func request() ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: space, Name: "llm-0"}}
}

func TestAConflictIsARequeue(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.refuse = func(verb string, o client.Object) error {
		if verb == "report" {
			return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("modified"))
		}
		return nil
	}
	result, err := w.r.Reconcile(t.Context(), request())
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestDoesNotActOnALateCache: the cache has no Pods, or those of before, right after a start.
func TestDoesNotActOnALateCache(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.settle()
	old := w.pods()
	w.trace, w.stale = nil, []corev1.Pod{}
	_, err := w.r.Reconcile(t.Context(), request())
	w.must(err)
	if len(w.trace) != 0 {
		t.Errorf("an empty cache led to: %s", strings.Join(w.trace, ", "))
	}
	w.stale = nil
	swapGroup(w)
	w.trace, w.stale = nil, old
	_, err = w.r.Reconcile(t.Context(), request())
	w.must(err)
	if len(w.trace) != 0 {
		t.Errorf("Pods of before led to: %s", strings.Join(w.trace, ", "))
	}
}

func TestGivesPodsTheirLabelsBack(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.settle()
	p := w.pod("llm-0-decode-0-0")
	delete(p.Labels, v1alpha1.LabelServingGroup)
	p.Labels[v1alpha1.LabelRole] = "router"
	w.must(w.api.Update(t.Context(), &p))
	w.settle()
	after := w.pod("llm-0-decode-0-0")
	if after.UID != p.UID || after.Labels[v1alpha1.LabelServingGroup] != "llm-0" || after.Labels[v1alpha1.LabelRole] != "decode" {
		t.Errorf("pod: %+v", after.ObjectMeta)
	}
	checkServes(w, "r1")
}

func TestPutsTheFinalizerBack(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.settle()
	sg := w.group()
	sg.Finalizers = nil
	w.must(w.api.Update(t.Context(), sg))
	w.settle()
	if got := w.group().Finalizers; !slices.Equal(got, []string{v1alpha1.FinalizerOrdinal}) {
		t.Errorf("finalizers %v", got)
	}
	checkServes(w, "r1")
}

func TestFreezesWhatCannotBeRead(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.settle()
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Revision = "lost" })
	lost := w.pod("llm-0-decode-0-0")
	lost.Finalizers = nil
	w.must(w.api.Update(t.Context(), &lost))
	w.must(w.api.Delete(t.Context(), &lost))
	w.trace = nil
	w.reconcile()
	if reason, message := w.blocked(); reason != string(v1alpha1.BlockedRevision) || !strings.Contains(message, "lost") {
		t.Errorf("blocked: %q %q", reason, message)
	}
	for _, s := range w.trace {
		if !strings.HasPrefix(s, "report ") && !strings.HasPrefix(s, "update ") {
			t.Errorf("did %q", s)
		}
	}
}

func TestLeavesForeignRevisions(t *testing.T) {
	objects := declare(t, "r1")
	objects[1].SetOwnerReferences(nil)
	w := newWorld(t, objects...)
	w.reconcile()
	if reason, _ := w.blocked(); reason != string(v1alpha1.BlockedRevision) || len(w.pods()) != 0 {
		t.Errorf("blocked: %q, %d pods", reason, len(w.pods()))
	}
}

func TestReportsOnceWhatDoesNotChange(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.settle()
	w.trace = nil
	for range 3 {
		w.reconcile()
	}
	if len(w.trace) != 0 {
		t.Errorf("wrote: %s", strings.Join(w.trace, ", "))
	}
}

// TestJudgesByASpecNoOlderThanThePods: a pass that is held up between its two readings does not take
// new Pods for old ones.
func TestJudgesByASpecNoOlderThanThePods(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.settle()
	led := w.pod("llm-0-decode-0-0")
	delete(led.Labels, v1alpha1.LabelLeader) // it gives the pass a reason to look again
	w.must(w.api.Update(t.Context(), &led))
	w.meanwhile = func() { swapGroup(w) }
	_, err := w.r.Reconcile(t.Context(), request())
	w.must(err)
	if w.meanwhile != nil {
		t.Fatal("there was no second look")
	}
	after := uids(w)
	w.settle()
	if got := uids(w); got != after {
		t.Errorf("healthy Pods were replaced: %s, before %s", got, after)
	}
	checkServes(w, "r2")
}
