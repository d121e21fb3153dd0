package modelserving_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// asks has a person ask for something.
func (w *world) asks(verb v1alpha1.Verb, value string) {
	w.t.Helper()
	change(w, "ms", func(ms *v1alpha1.ModelServing) {
		metav1.SetMetaDataAnnotation(&ms.ObjectMeta, verb.Annotation(), value)
	})
}

func (w *world) asked(verb v1alpha1.Verb) bool {
	w.t.Helper()
	_, stands := w.serving().Annotations[verb.Annotation()]
	return stands
}

// attempts are those that the groups had so far.
func (w *world) attempts() map[string]int64 {
	out := map[string]int64{}
	for name, g := range w.groups() {
		out[name] = g.Spec.LastAttempt
	}
	return out
}

func TestARequestIsRecordedThenDoneThenRemoved(t *testing.T) {
	w := newWorld(t, declared(2))
	w.settle()
	w.writes = nil
	w.asks(v1alpha1.VerbRecreate, "r1 ms-1")
	w.mustPass()
	want := []string{
		"update status ModelServing ms", // the answer
		"update status ModelServing ms", // the ledger
		"update ServingGroup ms-1",
		"update status ModelServing ms", // it has begun
		"patch ModelServing ms",
	}
	if diff := cmp.Diff(want, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	answer := []v1alpha1.RequestStatus{{Verb: v1alpha1.VerbRecreate, ID: "r1", Unit: "ms-1", Outcome: v1alpha1.RequestBegun}}
	ignored := cmpopts.IgnoreFields(v1alpha1.RequestStatus{}, "Message", "Answered")
	if diff := cmp.Diff(answer, w.serving().Status.Requests, ignored); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	w.settle()
	if got := w.groups()["ms-1"].Spec; got.LastAttempt != 1 || len(got.Updates) > 0 || w.asked(v1alpha1.VerbRecreate) {
		t.Errorf("at the end: %+v", got)
	}
}

func TestARefusalIsRecordedAndRemoved(t *testing.T) {
	w := newWorld(t, declared(1))
	w.settle()
	for value, says := range map[string]string{"r1 ms-7": "no such unit", "r2 ms-0 please": "<id> <unit>", "": "<id> <unit>", strings.Repeat("é", 60): "<id> <unit>"} {
		w.asks(v1alpha1.VerbCancel, value)
		w.settle()
		r := w.serving().Status.Requests
		if len(r) != 1 || r[0].Outcome != v1alpha1.RequestRefused || !strings.Contains(r[0].Message, says) || w.asked(v1alpha1.VerbCancel) {
			t.Errorf("%q: %+v", value, r)
		}
	}
}

func TestARequestOfTheSameIDDoesNothing(t *testing.T) {
	w := newWorld(t, declared(2))
	w.settle()
	w.asks(v1alpha1.VerbRecreate, "r1 ms-1")
	w.settle()
	w.asks(v1alpha1.VerbRecreate, "r1 ms-1")
	w.settle()
	if diff := cmp.Diff(map[string]int64{"ms-0": 0, "ms-1": 1}, w.attempts()); diff != "" || w.asked(v1alpha1.VerbRecreate) {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// A coordinator whose view is from before its predecessor's writes does nothing that was done.
func TestAnOutdatedViewOfARequestDoesNothing(t *testing.T) {
	w := newWorld(t, declared(2))
	w.settle()
	w.asks(v1alpha1.VerbRecreate, "r1 ms-1")
	w.freeze()
	stale := w.cache
	w.thaw()
	w.settle()
	w.cache, w.leader = stale, nil
	w.mustPass()
	w.thaw()
	w.settle()
	if diff := cmp.Diff(map[string]int64{"ms-0": 0, "ms-1": 1}, w.attempts()); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// An API server whose schema is older drops what it does not know.
func TestNothingIsDoneThatCannotBeRecorded(t *testing.T) {
	w := newWorld(t, declared(2))
	w.settle()
	w.onWrite = func(_ string, obj client.Object) {
		if ms, ok := obj.(*v1alpha1.ModelServing); ok {
			ms.Status.Requests = nil
		}
	}
	w.asks(v1alpha1.VerbRecreate, "r1 ms-1")
	if _, err := w.pass(); err == nil || !strings.Contains(err.Error(), "CustomResourceDefinition") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(map[string]int64{"ms-0": 0, "ms-1": 0}, w.attempts()); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

func TestRetryClearsWhatWasRejected(t *testing.T) {
	w := newWorld(t, declared(1))
	w.settle()
	change(w, "ms", func(ms *v1alpha1.ModelServing) { ms.Status.RejectedRevision = ms.Status.UpdateRevision })
	w.asks(v1alpha1.VerbRetry, "r1")
	w.settle()
	if st := w.serving().Status; st.RejectedRevision != "" || st.Requests[0].Outcome != v1alpha1.RequestBegun {
		t.Errorf("status: %+v", st)
	}
}

// A coordinator dies at every request of a recreation, before or after it took effect. Whoever comes next comes to
// the same end, and the unit is recreated once.
func TestARequestSurvivesADeathAtEveryWrite(t *testing.T) {
	life := func(w *world) {
		w.settle()
		w.requests = 0
		w.asks(v1alpha1.VerbRecreate, "r1 ms-1")
		w.settle()
		r := w.serving().Status.Requests
		if len(r) != 1 || r[0].Outcome != v1alpha1.RequestBegun || w.asked(v1alpha1.VerbRecreate) || len(w.serving().Status.Updating) > 0 {
			t.Errorf("at the end: %+v", w.serving())
		}
		if diff := cmp.Diff(map[string]int64{"ms-0": 0, "ms-1": 1}, w.attempts()); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	}
	whole := newWorld(t, declared(2))
	life(whole)
	for cut := 1; cut <= whole.requests; cut++ {
		for _, after := range []bool{false, true} {
			w := newWorld(t, declared(2))
			w.settle()
			w.cut, w.after = cut, after
			life(w)
			if t.Failed() {
				t.Fatalf("cut at request %d, after=%t:\n%s", cut, after, strings.Join(w.writes, "\n"))
			}
		}
	}
}
