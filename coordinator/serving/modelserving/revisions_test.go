package modelserving_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/coordinator/revision"
)

func TestAnEarlierDeclarationTakesItsRevisionAgain(t *testing.T) {
	w := running(t, 1)
	first := w.serving().Status.CurrentRevision
	for _, image := range []string{"engine:2", "engine:1"} {
		change(w, "ms", setImage(image))
		w.settle()
	}
	if n := len(w.revisions()); n != 2 {
		t.Errorf("%d revisions of two declarations", n)
	}
	if cr := get[appsv1.ControllerRevision](w, first); cr.Revision != 3 || w.serving().Status.UpdateRevision != first {
		t.Errorf("revision %s has number %d, want 3; the target is %s", first, cr.Revision, w.serving().Status.UpdateRevision)
	}
}

// The name that the first revision would have is taken, which the cache may show or not.
func TestATakenNameOfARevisionIsLeftToItsOwner(t *testing.T) {
	for _, labelled := range []bool{true, false} {
		t.Run(fmt.Sprintf("labelled=%t", labelled), func(t *testing.T) {
			ms := declared(1)
			data, err := revision.Project(&ms.Spec)
			if err != nil {
				t.Fatal(err)
			}
			other, err := revision.New(ms, data, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			other.OwnerReferences = nil
			if !labelled {
				other.Labels = nil
			}
			w := newWorld(t, ms, other)
			w.decide = simplePlan
			w.settle()
			st := w.serving().Status
			if st.UpdateRevision == other.Name || *st.CollisionCount != 1 {
				t.Errorf("target %s, collisions %v", st.UpdateRevision, st.CollisionCount)
			}
			w.checkAt(st.UpdateRevision)
			if now := get[appsv1.ControllerRevision](w, other.Name); len(now.OwnerReferences) > 0 || now.Revision != 1 {
				t.Errorf("the other's revision was touched: %+v", now)
			}
		})
	}
}

// lastSnapshot returns what the plan is asked in the next pass.
func (w *world) lastSnapshot() plan.Snapshot {
	w.t.Helper()
	var got plan.Snapshot
	decide := w.decide
	defer func() { w.decide = decide }()
	w.decide = func(s plan.Snapshot) plan.Plan {
		got = s
		return plan.Plan{Report: idle()}
	}
	w.mustPass()
	return got
}

func TestWhatARevisionSaysIsReadOrMissing(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world, old string)
		known  bool
	}{
		"readable":             {func(*world, string) {}, true},
		"not in the cache yet": {func(w *world, old string) { w.freeze(old) }, true},
		"not in the cache, and deleted": {func(w *world, old string) {
			w.freeze(old)
			w.mustPass()
			w.deleteRevision(old)
		}, false},
		"its label was taken": {func(w *world, old string) { change(w, old, func(cr *appsv1.ControllerRevision) { cr.Labels = nil }) }, true},
		"deleted":             {func(w *world, old string) { w.deleteRevision(old) }, false},
		"no longer its owner's": {func(w *world, old string) {
			change(w, old, func(cr *appsv1.ControllerRevision) { cr.OwnerReferences = nil })
		}, false},
		"written by a later one": {func(w *world, old string) {
			change(w, old, func(cr *appsv1.ControllerRevision) { cr.Data.Raw = []byte(`{"version":"v9"}`) })
		}, false},
		"not JSON": {func(w *world, old string) {
			change(w, old, func(cr *appsv1.ControllerRevision) { cr.Data.Raw = []byte(`""`) })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t, 1)
			old := w.serving().Status.CurrentRevision
			change(w, "ms", setImage("engine:2"))
			w.decide = say(idle())
			w.mustPass()
			w.mustPass() // what was read now is remembered
			tt.change(w, old)
			s := w.lastSnapshot()
			if _, ok := s.Layouts[old]; ok != tt.known {
				t.Errorf("layout of the pinned revision known: %t, want %t", ok, tt.known)
			}
			if _, ok := s.Layouts[s.Target]; !ok || s.Target == old {
				t.Errorf("the target is %s, its layout known: %t", s.Target, ok)
			}
			if s.Layouts[s.Target]["prefill"].Digest == s.Layouts[old]["prefill"].Digest {
				t.Error("two images have one digest")
			}
		})
	}
}

func (w *world) deleteRevision(name string) {
	w.t.Helper()
	if err := w.api.Delete(w.t.Context(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) revisionNames() []string {
	w.t.Helper()
	var names []string
	for _, cr := range w.revisions() {
		names = append(names, cr.Name)
	}
	slices.Sort(names)
	return names
}

// history declares four images one after the other, without a rollout, and returns their revisions.
func (w *world) history() []string {
	w.t.Helper()
	var names []string
	for i := range 4 {
		change(w, "ms", setImage("engine:"+number(i+1)))
		w.decide = say(idle())
		w.mustPass()
		names = append(names, w.serving().Status.UpdateRevision)
	}
	return names
}

func TestTheHistoryIsLimitedAndKeepsWhatIsNeeded(t *testing.T) {
	for name, tt := range map[string]struct {
		limit  int32
		change func(w *world, names []string)
		gone   []int
	}{
		"as many as there are": {2, func(*world, []string) {}, nil},
		"the oldest goes":      {1, func(*world, []string) {}, []int{1}},
		"none is kept but what is current and what is the target": {0, func(*world, []string) {}, []int{1, 2}},
		"an instance's pin is kept": {0, func(w *world, names []string) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Spec.Instances[0].Revision = names[1] })
		}, []int{2}},
		"what an update comes from and leads to is kept": {0, func(w *world, names []string) {
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) {
				sg.Spec.Updates = []v1alpha1.UnitUpdate{{Attempt: 1, Previous: names[1], Target: names[2]}}
			})
		}, nil},
		"a pin that the cache does not show is kept": {0, func(w *world, names []string) {
			w.freeze()
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Spec.Revision = names[1] })
		}, []int{2}},
		"a pin that the cache does not show, of a group without labels, is kept": {0, func(w *world, names []string) {
			w.freeze()
			change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Labels, sg.Spec.Revision = nil, names[2] })
		}, []int{1}},
		"what another owner's group names is not kept": {1, func(w *world, names []string) {
			sg := &v1alpha1.ServingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
			sg.Spec.Ordinal, sg.Spec.Revision = ordinal(0), names[1]
			if err := w.api.Create(w.t.Context(), sg); err != nil {
				w.t.Fatal(err)
			}
		}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t, 1)
			names := w.history()
			change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.RevisionHistoryLimit = &tt.limit })
			tt.change(w, names)
			w.mustPass()
			want := slices.Clone(names)
			for _, i := range tt.gone {
				want = slices.DeleteFunc(want, func(n string) bool { return n == names[i] })
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, w.revisionNames()); diff != "" {
				t.Errorf("revisions %v (-want +got):\n%s", names, diff)
			}
		})
	}
}

func TestNothingIsTrimmedOnAnOutdatedStatus(t *testing.T) {
	w := running(t, 1)
	names := w.history()
	change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.RevisionHistoryLimit = new(int32(0)) })
	change(w, "ms-0", func(sg *v1alpha1.ServingGroup) {
		sg.Spec.Updates = []v1alpha1.UnitUpdate{{Attempt: 1, Previous: names[1], Target: names[2]}}
	})
	w.mustPass()
	change(w, "ms-0", func(sg *v1alpha1.ServingGroup) { sg.Spec.Updates = nil })
	w.freeze()
	change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.CurrentRevision = names[1] })
	w.mustPass()
	if n := len(w.revisions()); n != 4 {
		t.Errorf("%d revisions are left of 4", n)
	}
	w.thaw()
	w.mustPass()
	left := []string{names[0], names[1], names[3]} // the pin, what is current, the target
	slices.Sort(left)
	if diff := cmp.Diff(left, w.revisionNames()); diff != "" {
		t.Errorf("revisions %v (-want +got):\n%s", names, diff)
	}
}

func TestARevisionThatWasRaisedSinceIsNotTrimmed(t *testing.T) {
	w := running(t, 1)
	names := w.history()
	change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.RevisionHistoryLimit = new(int32(1)) })
	w.freeze()
	change(w, names[1], func(cr *appsv1.ControllerRevision) { cr.Revision = 9 })
	w.mustPass()
	if !slices.Contains(w.revisionNames(), names[1]) {
		t.Error("the revision is gone")
	}
}

// With no history the revision of an earlier declaration goes at once. A cache that shows it still, and
// none of the later ones, must not make it the target.
func TestATargetThatWasTrimmedIsStoredAgain(t *testing.T) {
	w := running(t, 1)
	first := w.serving().Status.CurrentRevision
	w.freeze()
	old := w.cache
	w.thaw()
	change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.RevisionHistoryLimit = new(int32(0)) })
	change(w, "ms", setImage("engine:2"))
	w.settle()
	if names := w.revisions(); len(names) != 1 || names[0].Name == first {
		t.Fatalf("revisions %v", names)
	}
	change(w, "ms", setImage("engine:1"))
	w.freeze()
	w.cache = lateRevisions{w.cache, old}
	w.onWrite = func(verb string, o client.Object) {
		if ms, ok := o.(*v1alpha1.ModelServing); ok && verb == "update status" {
			get[appsv1.ControllerRevision](w, ms.Status.UpdateRevision)
		}
	}
	w.mustPass()
	if w.serving().Status.UpdateRevision != first {
		t.Errorf("the target is %s, want %s again", w.serving().Status.UpdateRevision, first)
	}
}

// lateRevisions is a cache that is late for ControllerRevisions alone.
type lateRevisions struct {
	client.Reader
	late client.Reader
}

func (c lateRevisions) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, revisions := list.(*appsv1.ControllerRevisionList); revisions {
		return c.late.List(ctx, list, opts...)
	}
	return c.Reader.List(ctx, list, opts...)
}
