package modelserving_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/api/v1alpha1"
)

func TestRolloutWritesInOrder(t *testing.T) {
	w := newWorld(t, declared(2))
	w.decide = simplePlan
	w.settle()
	old := w.serving().Status.CurrentRevision
	if diff := cmp.Diff([]string{
		"create ControllerRevision " + old,
		"update status ModelServing ms", // what protected groups are rebuilt at
		"create ServingGroup ms-0",
		"create ServingGroup ms-1",
		"update status ModelServing ms",
	}, w.writes[:5]); diff != "" {
		t.Errorf("first pass (-want +got):\n%s", diff)
	}

	w.writes = nil
	change(w, "ms", setImage("engine:2"))
	w.settle()
	target := w.serving().Status.UpdateRevision
	want := []string{"create ControllerRevision " + target}
	want = append(want, "update status ModelServing ms", "update ServingGroup ms-0") // booked with the new target, opened
	want = append(want, "update ServingGroup ms-0", "update ServingGroup ms-0")      // swap, close
	want = append(want, "update ServingGroup ms-0", "update status ModelServing ms") // fenced, struck
	want = append(want, "update status ModelServing ms", "update ServingGroup ms-1") // booked, opened
	if diff := cmp.Diff(want, w.writes[:len(want)]); diff != "" {
		t.Errorf("first unit of the rollout (-want +got):\n%s", diff)
	}
	w.checkAt(target)
	if target == old {
		t.Error("the target did not change")
	}
}

// checkAt checks the end of a rollout.
func (w *world) checkAt(target string) {
	w.t.Helper()
	st := w.serving().Status
	if st.CurrentRevision != target || st.UpdateRevision != target || len(st.Updating) > 0 {
		w.t.Errorf("status at the end: %+v", st)
	}
	for name, sg := range w.groups() {
		if sg.Spec.Revision != target || len(sg.Spec.Updates) > 0 || sg.Spec.LastAttempt > 1 {
			w.t.Errorf("%s at the end: %+v", name, sg.Spec)
		}
	}
}

// A coordinator dies at every request of two scalings and a rollout, before or after the request took
// effect. Whoever comes next comes to the same end, by the same writes.
func TestEveryRequestMayBeTheLast(t *testing.T) {
	whole := newWorld(t, declared(2))
	whole.life()
	if whole.requests < 20 {
		t.Fatalf("%d requests: %v", whole.requests, whole.writes)
	}
	for cut := 1; cut <= whole.requests; cut++ {
		for _, after := range []bool{false, true} {
			w := newWorld(t, declared(2))
			w.cut, w.after = cut, after
			w.life()
			if t.Failed() {
				t.Fatalf("cut at request %d, after=%t:\n%s", cut, after, strings.Join(w.writes, "\n"))
			}
			if diff := cmp.Diff(effects(whole.writes), effects(w.writes)); diff != "" {
				t.Fatalf("cut at request %d, after=%t (-whole +cut):\n%s", cut, after, diff)
			}
		}
	}
}

// life is a ModelServing that starts, is updated and shrinks.
func (w *world) life() {
	w.t.Helper()
	w.settle()
	change(w, "ms", setImage("engine:2"))
	w.settle()
	w.checkAt(w.serving().Status.UpdateRevision)
	change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Spec.Replicas = new(int32(1)) })
	w.settle()
	if n := len(w.groups()); n != 1 {
		w.t.Errorf("%d groups", n)
	}
	if n := len(w.revisions()); n != 2 {
		w.t.Errorf("%d revisions", n)
	}
}

// effects counts the writes that must happen once. A status is written anew after a crash, and a
// mark is left on a group once more.
func effects(writes []string) map[string]int {
	n := map[string]int{}
	for _, w := range writes {
		if !strings.HasPrefix(w, "update ") {
			n[w]++
		}
	}
	return n
}
