package modelserving_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// The caches show all units closed. Only what a live read confirms leaves the ledger.
func TestStrikeReadsLive(t *testing.T) {
	entry := "ms-0"
	instance := "ms-0/prefill-0"
	for name, tt := range map[string]struct {
		entry  string
		change func(w *world)
		stays  bool
	}{
		"closed":           {entry, func(*world) {}, false},
		"closed, instance": {instance, func(*world) {}, false},
		"open": {entry, func(w *world) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Spec.Updates = []v1alpha1.UnitUpdate{{Unit: "", Attempt: 1}} })
		}, true},
		"open, instance": {instance, func(w *world) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) {
				sg.Spec.Updates = []v1alpha1.UnitUpdate{{Unit: "prefill-0", Attempt: 1}}
			})
		}, true},
		"held for a GPU": {entry, func(w *world) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Spec.GPUHolds = []string{""} })
		}, true},
		"held for a GPU, instance": {instance, func(w *world) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Spec.GPUHolds = []string{"prefill-0"} })
		}, true},
		"another instance is held": {instance, func(w *world) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Spec.GPUHolds = []string{"prefill-1"} })
		}, false},
		"another instance is open": {instance, func(w *world) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) {
				sg.Spec.Updates = []v1alpha1.UnitUpdate{{Unit: "prefill-1", Attempt: 1}}
			})
		}, false},
		"the group is going": {entry, func(w *world) {
			if err := w.api.Delete(w.t.Context(), get[v1alpha1.ServingGroup](w, "ms-0")); err != nil {
				w.t.Fatal(err)
			}
		}, true},
		"the group is gone": {entry, func(w *world) {
			if err := w.api.Delete(w.t.Context(), get[v1alpha1.ServingGroup](w, "ms-0")); err != nil {
				w.t.Fatal(err)
			}
			w.obey()
		}, false},
		"the name is another owner's by now": {entry, func(w *world) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) {
				sg.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "x", UID: "x", Controller: new(true)}}
				sg.Spec.Updates = []v1alpha1.UnitUpdate{{Unit: "", Attempt: 1}}
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t, 1)
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = []string{tt.entry, "ms-9"} })
			w.freeze()
			tt.change(w)
			w.decide = do(plan.Action{Kind: plan.Strike, Entries: []string{tt.entry}})
			w.mustPass()
			want := []string{"ms-9"}
			if tt.stays {
				want = []string{tt.entry, "ms-9"}
			}
			if diff := cmp.Diff(want, w.serving().Status.Updating); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
		})
	}
}

// A leader books a unit and sleeps. The next one strikes the unit, since no update is open. When the
// first wakes, its write must not take the unit out of service, as the unit's place is free by then.
func TestAFormerLeaderOpensNothingThatWasStruck(t *testing.T) {
	w := running(t, 2)
	sg := get[v1alpha1.ServingGroup](w, "ms-0")
	w.decide = do(plan.Action{Kind: plan.Book, Entries: []string{"ms-0"}}, open(sg))
	w.cut = 2 // the leader sleeps
	if _, err := w.pass(); err == nil {
		t.Fatal("the leader did not sleep")
	}
	w.cut = 0
	if diff := cmp.Diff([]string{"ms-0"}, w.serving().Status.Updating); diff != "" {
		t.Fatalf("ledger (-want +got):\n%s", diff)
	}
	w.decide = do(plan.Action{Kind: plan.Strike, Entries: []string{"ms-0"}})
	w.mustPass()
	if n := len(w.serving().Status.Updating); n > 0 {
		t.Fatalf("%d entries", n)
	}
	late := sg.DeepCopy()
	late.Spec = open(sg).Spec
	if err := w.client.Update(t.Context(), late); err == nil {
		t.Error("the former leader's write went through")
	}
}

func TestAPassMayStrikeAUnitAndWriteItsGroup(t *testing.T) {
	w := running(t, 1)
	change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = []string{"ms-0/prefill-0", "ms-0/prefill-1"} })
	sg := get[v1alpha1.ServingGroup](w, "ms-0")
	w.decide = do(plan.Action{Kind: plan.Strike, Entries: []string{"ms-0/prefill-0", "ms-0/prefill-1"}}, open(sg))
	w.mustPass()
	now := get[v1alpha1.ServingGroup](w, "ms-0")
	if len(now.Spec.Updates) != 1 || len(w.serving().Status.Updating) != 0 || now.Annotations[v1alpha1.LedgerMark] == "" {
		t.Errorf("group %+v %+v, ledger %v", now.Annotations, now.Spec.Updates, w.serving().Status.Updating)
	}
	marks := 0
	for _, write := range w.writes {
		if write == "update ServingGroup ms-0" {
			marks++
		}
	}
	if marks != 2 {
		t.Errorf("%d writes of the group, want one mark and the spec", marks)
	}
}

// What the API server answers to the write that closes a unit is as good as a live read, and a later
// version than a former leader can have seen the unit open at.
func TestAPassStrikesWhatItCloses(t *testing.T) {
	for name, tt := range map[string]struct {
		leaves v1alpha1.ServingGroupSpec
		want   []string
	}{
		"closed":              {v1alpha1.ServingGroupSpec{}, nil},
		"left open, it stays": {v1alpha1.ServingGroupSpec{Updates: []v1alpha1.UnitUpdate{{Attempt: 1}}}, []string{"ms-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t, 1)
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = []string{"ms-0"} })
			sg := get[v1alpha1.ServingGroup](w, "ms-0")
			spec := *sg.Spec.DeepCopy()
			spec.Updates = tt.leaves.Updates
			w.writes = nil
			w.decide = do(
				plan.Action{Kind: plan.Write, Group: sg.Name, UID: sg.UID, ResourceVersion: sg.ResourceVersion, Spec: spec},
				plan.Action{Kind: plan.Strike, Entries: []string{"ms-0"}},
			)
			w.mustPass()
			if diff := cmp.Diff(tt.want, w.serving().Status.Updating); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"update ServingGroup ms-0", "update status ModelServing ms"}, w.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// What was struck leaves the ledger although the rest of the pass was in vain.
func TestAStrikeOutlastsAPassOnAnOutdatedView(t *testing.T) {
	w := running(t, 2)
	change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.Updating = []string{"ms-0", "ms-9"} })
	late := open(get[v1alpha1.ServingGroup](w, "ms-1"))
	change(w, "ms-1", func(sg *v1alpha1.ServingGroup) { sg.Spec.LastAttempt++ })
	w.decide = do(plan.Action{Kind: plan.Strike, Entries: []string{"ms-0"}}, late)
	w.mustPass()
	if diff := cmp.Diff([]string{"ms-9"}, w.serving().Status.Updating); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

// A booking of what is booked already changes the object all the same: it refuses the strike of a leader
// that has not seen it.
func TestABookingIsAlwaysAWrite(t *testing.T) {
	w := running(t, 1)
	w.decide = do(plan.Action{Kind: plan.Book, Entries: []string{"ms-0"}})
	for want := range int64(3) {
		w.mustPass()
		if got := w.serving().Status.Bookings; got != want+1 {
			t.Errorf("%d bookings, want %d", got, want+1)
		}
	}
	want := []string{"ms-0"}
	if diff := cmp.Diff(want, w.serving().Status.Updating); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}
