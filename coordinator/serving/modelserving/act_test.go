package modelserving_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// do makes the plan these actions.
func do(actions ...plan.Action) func(plan.Snapshot) plan.Plan {
	return func(plan.Snapshot) plan.Plan { return plan.Plan{Actions: actions, Report: idle()} }
}

func idle() plan.Report {
	return plan.Report{
		Progressing: plan.Verdict{Reason: v1alpha1.ProgressingComplete}, Enough: plan.Verdict{True: true, Reason: v1alpha1.AvailableEnough},
	}
}

// running is a world with n groups at rest.
func running(t *testing.T, n int32) *world {
	t.Helper()
	w := newWorld(t, declared(n))
	w.decide = simplePlan
	w.settle()
	w.writes, w.events, w.requests = nil, nil, 0
	return w
}

// open is the write that takes a group into an update.
func open(sg *v1alpha1.ServingGroup) plan.Action {
	spec := *sg.Spec.DeepCopy()
	spec.LastAttempt++
	spec.Updates = []v1alpha1.UnitUpdate{{Attempt: spec.LastAttempt, Method: v1alpha1.UnitRecreate, Target: spec.Revision, Permit: v1alpha1.PermitDrain}}
	return plan.Action{Kind: plan.Write, Group: sg.Name, UID: sg.UID, ResourceVersion: sg.ResourceVersion, Spec: spec}
}

func conditionOf(ms *v1alpha1.ModelServing, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(ms.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func TestTheRevisionComesFirst(t *testing.T) {
	w := newWorld(t, declared(2))
	w.decide = simplePlan
	w.refuse = func(verb string, obj client.Object) error {
		if verb == "create" && kindOf(obj) == "ControllerRevision" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, obj.GetName(), errors.New("exceeded quota"))
		}
		return nil
	}
	for range 2 {
		if res := w.mustPass(); res.RequeueAfter <= 0 {
			t.Error("nothing leads to another try")
		}
	}
	if diff := cmp.Diff([]string{"update status ModelServing ms"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if c := conditionOf(w.serving(), v1alpha1.ConditionBlocked); c.Status != metav1.ConditionTrue || c.Reason != "RevisionUnresolved" || !strings.Contains(c.Message, "exceeded quota") {
		t.Errorf("Blocked: %+v", c)
	}
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "Warning RevisionUnresolved: ") {
		t.Errorf("events: %q", w.events)
	}
	w.refuse = nil
	w.settle()
	w.checkAt(w.serving().Status.UpdateRevision)
	if c := conditionOf(w.serving(), v1alpha1.ConditionBlocked); c.Status != metav1.ConditionFalse {
		t.Errorf("Blocked after the refusal ended: %+v", c)
	}
}

func TestAGroupOfAnotherOwnerIsNeverAdopted(t *testing.T) {
	foreign := &v1alpha1.ServingGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "ms-0", Labels: map[string]string{v1alpha1.LabelModelServing: "ms"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "pitstop.dev/v1alpha1", Kind: "ModelServing", Name: "ms", UID: "former", Controller: new(true)}},
		},
		Spec: v1alpha1.ServingGroupSpec{Ordinal: ordinal(0), Revision: "theirs"},
	}
	w := newWorld(t, declared(2), foreign)
	w.decide = simplePlan
	for range 3 {
		if res := w.mustPass(); res.RequeueAfter <= 0 {
			t.Error("nothing leads to another look at the name")
		}
	}
	if diff := cmp.Diff(foreign.Spec, get[v1alpha1.ServingGroup](w, "ms-0").Spec); diff != "" {
		t.Errorf("the other owner's group was touched:\n%s", diff)
	}
	get[v1alpha1.ServingGroup](w, "ms-1") // the other groups are made
	c := conditionOf(w.serving(), v1alpha1.ConditionBlocked)
	if c.Reason != "NameTaken" || !strings.Contains(c.Message, "ServingGroup ms-0 exists and belongs to ModelServing ms (UID former)") {
		t.Errorf("Blocked: %+v", c)
	}
	if n := len(slices.DeleteFunc(w.events, func(e string) bool { return !strings.Contains(e, "Blocked: NameTaken") })); n != 1 {
		t.Errorf("%d events of the name in three passes", n)
	}
	if err := w.api.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.checkAt(w.serving().Status.UpdateRevision)
	if c := conditionOf(w.serving(), v1alpha1.ConditionBlocked); c.Reason != "NothingBlocks" {
		t.Errorf("Blocked once the name is free: %+v", c)
	}
}

func TestWhatIsRefusedDoesNotStopTheRest(t *testing.T) {
	w := newWorld(t, declared(3))
	w.decide = simplePlan
	w.refuse = func(verb string, obj client.Object) error {
		if verb == "create" && obj.GetName() == "ms-1" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "servinggroups"}, "ms-1", errors.New("exceeded quota"))
		}
		return nil
	}
	if res := w.mustPass(); res.RequeueAfter <= 0 {
		t.Error("nothing leads to another try")
	}
	if n := len(w.groups()); n != 2 {
		t.Errorf("%d groups, want the two that are not refused", n)
	}
	if c := conditionOf(w.serving(), v1alpha1.ConditionBlocked); c.Reason != "CreationRefused" || !strings.Contains(c.Message, "exceeded quota") {
		t.Errorf("Blocked: %+v", c)
	}
}

func TestANamespaceThatGoesIsNoTrouble(t *testing.T) {
	w := newWorld(t, declared(2))
	w.decide = simplePlan
	w.refuse = func(verb string, obj client.Object) error {
		if verb != "create" || kindOf(obj) != "ServingGroup" {
			return nil
		}
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "servinggroups"}, obj.GetName(), errors.New("is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}
	w.mustPass()
	if c := conditionOf(w.serving(), v1alpha1.ConditionBlocked); c.Status != metav1.ConditionFalse {
		t.Errorf("Blocked: %+v", c)
	}
}

func TestAWriteBringsTheFinalizerBack(t *testing.T) {
	w := running(t, 1)
	change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Finalizers = nil })
	w.decide = do(open(get[v1alpha1.ServingGroup](w, "ms-0")))
	w.mustPass()
	if diff := cmp.Diff([]string{v1alpha1.FinalizerOrdinal}, get[v1alpha1.ServingGroup](w, "ms-0").Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

// Each view is older than what is there. The pass must change nothing but end, to be made again.
func TestAnOutdatedViewWritesNothing(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"groups that were just created": func(w *world) {
			w.decide = simplePlan
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.Replicas = new(int32(4)) })
			w.freeze()
			ms := w.cache
			w.thaw()
			w.settle()
			w.cache = ms
		},
		"a group that the cache does not show yet": func(w *world) {
			w.decide = simplePlan
			w.freeze("ms-2")
		},
		"a ModelServing that has fewer replicas now": func(w *world) {
			w.decide = simplePlan
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.Replicas = new(int32(5)) })
			w.freeze()
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.Replicas = new(int32(2)) })
		},
		"a ModelServing that was made anew": func(w *world) {
			w.decide = simplePlan
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.Replicas = new(int32(5)) })
			w.freeze()
			if err := w.api.Delete(w.t.Context(), w.serving()); err != nil {
				w.t.Fatal(err)
			}
			again := declared(5)
			again.UID = "uid-again"
			if err := w.api.Create(w.t.Context(), again); err != nil {
				w.t.Fatal(err)
			}
		},
		"a ledger that has one more entry now": func(w *world) {
			sg := get[v1alpha1.ServingGroup](w, "ms-1")
			w.decide = do(plan.Action{Kind: plan.Book, Entries: []string{"ms-1"}}, open(sg))
			w.freeze()
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = []string{"ms-0"} })
		},
		"a ledger from which the entry has been struck": func(w *world) {
			sg := get[v1alpha1.ServingGroup](w, "ms-1")
			w.decide = do(plan.Action{Kind: plan.Book, Entries: []string{"ms-1"}}, open(sg))
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = []string{"ms-1"} })
			w.freeze()
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = nil })
		},
		"a ledger that was struck already": func(w *world) {
			w.decide = do(plan.Action{Kind: plan.Strike, Entries: []string{"ms-1"}})
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = []string{"ms-1"} })
			w.freeze()
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = nil })
		},
		"a ModelServing that has another template now": func(w *world) {
			sg := get[v1alpha1.ServingGroup](w, "ms-1")
			settle := open(sg)
			settle.Spec.Revision, settle.Spec.Updates = "the-target-then", nil
			w.decide = do(settle)
			w.freeze()
			change(w, "ms", setImage("engine:2"))
		},
		"a group whose Pods were lost": func(w *world) {
			sg := get[v1alpha1.ServingGroup](w, "ms-1")
			w.decide = do(open(sg))
			w.freeze()
			change(w, "ms-1", func(sg *v1alpha1.ServingGroup) { sg.Status.ReadyPods = 0 })
		},
		"a group that is gone": func(w *world) {
			sg := get[v1alpha1.ServingGroup](w, "ms-1")
			w.decide = do(open(sg))
			w.freeze()
			if err := w.api.Delete(w.t.Context(), sg); err != nil {
				w.t.Fatal(err)
			}
			w.obey()
		},
		"a group that serves again and is to be deleted": func(w *world) {
			sg := get[v1alpha1.ServingGroup](w, "ms-1")
			w.decide = do(plan.Action{Kind: plan.Delete, Group: sg.Name, UID: sg.UID, ResourceVersion: sg.ResourceVersion})
			w.freeze()
			change(w, "ms-1", func(sg *v1alpha1.ServingGroup) { sg.Spec.LastAttempt++ })
		},
		"a group that nothing keeps until its Pods are gone": func(w *world) {
			change(w, "ms-1", func(sg *v1alpha1.ServingGroup) { sg.Finalizers = nil })
			sg := get[v1alpha1.ServingGroup](w, "ms-1")
			w.decide = do(plan.Action{Kind: plan.Delete, Group: sg.Name, UID: sg.UID, ResourceVersion: sg.ResourceVersion})
		},
		"a group of the same name that was made anew and is to be deleted": func(w *world) {
			sg := get[v1alpha1.ServingGroup](w, "ms-1")
			w.decide = do(plan.Action{Kind: plan.Delete, Group: sg.Name, UID: "former", ResourceVersion: sg.ResourceVersion})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t, 3)
			change(w)
			w.writes, w.events = nil, nil
			before := w.groups()
			res, err := w.pass()
			if err != nil || res.RequeueAfter <= 0 {
				t.Errorf("pass: %v, %v; want it to be repeated", res, err)
			}
			if len(w.writes) > 0 || len(w.events) > 0 {
				t.Errorf("writes %v, events %v", w.writes, w.events)
			}
			if diff := cmp.Diff(before, w.groups()); diff != "" {
				t.Errorf("groups (-before +after):\n%s", diff)
			}
		})
	}
}

func TestDeletingWhatIsGoneIsDone(t *testing.T) {
	w := running(t, 2)
	w.decide = do(
		plan.Action{Kind: plan.Delete, Group: "ms-7", UID: "gone", ResourceVersion: "1", Event: v1alpha1.EventScaled, Message: "deleted"},
		plan.Action{Kind: plan.Book, Entries: []string{"ms-0"}},
	)
	w.mustPass()
	if diff := cmp.Diff([]string{"ms-0"}, w.serving().Status.Updating); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if len(w.events) > 0 {
		t.Errorf("events of what this pass did not do: %q", w.events)
	}
}

func TestBookingTwiceIsBookingOnce(t *testing.T) {
	w := running(t, 3)
	w.decide = do(plan.Action{Kind: plan.Book, Entries: []string{"ms-1/prefill-0", "ms-0"}})
	w.mustPass()
	w.mustPass()
	if diff := cmp.Diff([]string{"ms-0", "ms-1/prefill-0"}, w.serving().Status.Updating); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestAnActionThatFailsEndsThePassAndIsReported(t *testing.T) {
	w := running(t, 2)
	sg := get[v1alpha1.ServingGroup](w, "ms-0")
	act := open(sg)
	act.Event, act.Message = v1alpha1.EventUnitStarted, "ms-0 is being updated"
	w.decide = func(plan.Snapshot) plan.Plan {
		r := idle()
		r.Blocked = plan.Verdict{True: true, Reason: v1alpha1.BlockedFailed, Message: "unit ms-1"}
		return plan.Plan{Actions: []plan.Action{act, {Kind: plan.Book, Entries: []string{"ms-1"}}}, Report: r}
	}
	w.refuse = func(_ string, obj client.Object) error {
		if obj.GetName() == "ms-0" {
			return apierrors.NewInternalError(errors.New("no leader"))
		}
		return nil
	}
	if _, err := w.pass(); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "write ms-0: ") {
		t.Errorf("error %v", err)
	}
	ms := w.serving()
	if len(ms.Status.Updating) > 0 {
		t.Errorf("an action after the one that failed was taken: %v", ms.Status.Updating)
	}
	if c := conditionOf(ms, v1alpha1.ConditionBlocked); c.Reason != "UnitFailed" {
		t.Errorf("Blocked: %+v", c)
	}
	if diff := cmp.Diff([]string{"Warning UnitUpdateFailed: UnitFailed: unit ms-1"}, w.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTroubleStaysWhileItCannotBeLookedAt(t *testing.T) {
	foreign := &v1alpha1.ServingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ms-1"}, Spec: v1alpha1.ServingGroupSpec{Ordinal: ordinal(1)}}
	w := newWorld(t, declared(2), foreign)
	w.decide = simplePlan
	w.mustPass()
	w.decide = do(open(get[v1alpha1.ServingGroup](w, "ms-0")))
	w.refuse = func(_ string, obj client.Object) error {
		if kindOf(obj) == "ServingGroup" {
			return apierrors.NewInternalError(errors.New("no leader"))
		}
		return nil
	}
	if _, err := w.pass(); err == nil {
		t.Error("no error")
	}
	if c := conditionOf(w.serving(), v1alpha1.ConditionBlocked); c.Reason != "NameTaken" {
		t.Errorf("Blocked: %+v", c)
	}
}
