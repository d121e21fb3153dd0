package verb_test

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"pitstop.dev/api/v1alpha1"
)

// answers has a coordinator answer the next request, and keeps what was patched.
func (b *bench) answers(t *testing.T, outcome v1alpha1.RequestOutcome, message string) *map[string]any {
	t.Helper()
	patch := map[string]any{}
	b.dynamic.PrependReactor("patch", "modelservings", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := action.(clienttesting.PatchAction)
		if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		stored, err := b.dynamic.Tracker().Get(v1alpha1.ModelServings, "ns", "llm") // the client is locked meanwhile
		if err != nil {
			return true, nil, err
		}
		var ms v1alpha1.ModelServing
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.(*unstructured.Unstructured).Object, &ms); err != nil {
			return true, nil, err
		}
		for name, value := range patch["metadata"].(map[string]any)["annotations"].(map[string]any) {
			id, unit, _ := v1alpha1.ParseRequest(value.(string))
			ms.Status.Requests = append(ms.Status.Requests, v1alpha1.RequestStatus{
				Verb: v1alpha1.Verb(strings.TrimPrefix(name, v1alpha1.DoPrefix)), ID: id, Unit: unit, Outcome: outcome, Message: message, Answered: metav1.NewTime(now),
			})
		}
		object := unstructuredOf(t, &ms)
		err = b.dynamic.Tracker().Update(v1alpha1.ModelServings, object, "ns")
		return true, object, err
	})
	return &patch
}

// shows has every watch of ServingGroups deliver these states.
func (b *bench) shows(t *testing.T, states ...*v1alpha1.ServingGroup) {
	t.Helper()
	b.dynamic.PrependWatchReactor("servinggroups", func(clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFakeWithChanSize(len(states), false)
		for _, g := range states {
			w.Modify(unstructuredOf(t, g))
		}
		return true, w, nil
	})
}

const done = "its Pods are drained, deleted and created anew at revision llm-1"

func TestRecreate(t *testing.T) {
	b := newServingBench(t)
	patch := b.answers(t, v1alpha1.RequestBegun, done)
	b.want(t, b.run(t.Context(), "recreate", "llm-0"), 0)
	b.printed(t, "llm-0: "+done+"\nfollow it with `kubectl pitstop get llm -n ns`\n")
	got, err := json.Marshal(*patch)
	want := `{"metadata":{"annotations":{"pitstop.dev/do.recreate":"request-1 llm-0"},"resourceVersion":"9","uid":"ms-uid"}}`
	if err != nil || string(got) != want {
		t.Errorf("patch %s, want %s", got, want)
	}
}

func TestRecreatePrintsJSON(t *testing.T) {
	b := newServingBench(t)
	b.answers(t, v1alpha1.RequestBegun, done)
	b.want(t, b.run(t.Context(), "recreate", "llm-0/decode-0", "-o", "json"), 0)
	b.printed(t, `{
  "namespace": "ns",
  "modelServing": "llm",
  "verb": "recreate",
  "unit": "llm-0/decode-0",
  "id": "request-1",
  "outcome": "Begun",
  "message": "`+done+`"
}
`)
}

func TestRecreateThatIsRefused(t *testing.T) {
	b := newServingBench(t)
	b.answers(t, v1alpha1.RequestRefused, "it serves, and without it fewer would be available")
	b.want(t, b.run(t.Context(), "recreate", "llm-0"), 1, "recreate llm-0 is refused: it serves")
}

// A unit is shown through its stages to its end, good or bad.
func TestRecreateWaits(t *testing.T) {
	at := func(stage v1alpha1.UnitStage) *v1alpha1.ServingGroup {
		g := group()
		g.Spec.Updates[0].Request = &v1alpha1.UnitRequest{Verb: v1alpha1.VerbRecreate, ID: "request-1"}
		g.Status.Updates[0].Stage, g.Status.Updates[0].Message = stage, "Pod llm-0-decode-0-0 is not ready"
		return g
	}
	closed := func(ready bool) *v1alpha1.ServingGroup {
		g := group()
		g.Spec.Updates, g.Status.Updates = nil, nil
		g.Status.Instances[0].Ready, g.Status.Instances[0].Message = ready, "Pod llm-0-decode-0-0 is not ready"
		return g
	}
	stale, other := closed(false), group()
	stale.Generation = 7
	for name, tt := range map[string]struct {
		states []*v1alpha1.ServingGroup
		code   int
		says   []string
	}{
		"to its end":               {[]*v1alpha1.ServingGroup{at(v1alpha1.UnitDraining), at(v1alpha1.UnitSwapping), stale, closed(true)}, 0, []string{"15:00:00 Draining", "15:00:00 Swapping"}},
		"until it fails":           {[]*v1alpha1.ServingGroup{at(v1alpha1.UnitSwapping), at(v1alpha1.UnitFailed)}, 1, []string{"failed: Pod llm-0-decode-0-0"}},
		"closed, and not ready":    {[]*v1alpha1.ServingGroup{at(v1alpha1.UnitSwapping), closed(false)}, 1, []string{"is not ready", "explain modelserving/llm"}},
		"until another attempt is": {[]*v1alpha1.ServingGroup{at(v1alpha1.UnitDraining), other}, 3, []string{"has gone on to attempt 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newServingBench(t)
			b.answers(t, v1alpha1.RequestBegun, done)
			if err := b.dynamic.Tracker().Update(v1alpha1.ServingGroups, unstructuredOf(t, tt.states[0]), "ns"); err != nil {
				t.Fatal(err)
			}
			b.shows(t, tt.states[1:]...)
			b.want(t, b.run(t.Context(), "recreate", "llm-0", "--wait"), tt.code, tt.says...)
		})
	}
}

func TestARequestThatNobodyAnswers(t *testing.T) {
	b := newServingBench(t)
	b.want(t, b.run(t.Context(), "recreate", "llm-0", "--timeout", "50ms"), 1,
		"no coordinator has answered", "kubectl -n ns annotate modelserving/llm pitstop.dev/do.recreate-")
	if got := b.declared(t).Annotations["pitstop.dev/do.recreate"]; got != "request-1 llm-0" {
		t.Errorf("asked %q", got)
	}
	b.want(t, b.run(t.Context(), "recreate", "llm-0"), 3, "not answered yet: request-1 llm-0")
}

func TestAnArgumentThatIsNoUnit(t *testing.T) {
	for arg, code := range map[string]int{"llm-0/decode": 2, "a/b/c": 2, "pod/engine-0": 2, "": 2, "llm-9": 1} {
		b := newServingBench(t)
		b.want(t, b.run(t.Context(), "recreate", arg), code)
	}
}

func TestCancelOfAUnit(t *testing.T) {
	for _, arg := range []string{"llm-0", "sg/llm-0", "servinggroup/llm-0"} {
		b := newServingBench(t)
		b.answers(t, v1alpha1.RequestBegun, "it goes back in service at revision llm-1")
		b.want(t, b.run(t.Context(), "cancel", arg), 0)
		b.printed(t, "llm-0: it goes back in service at revision llm-1\nfollow it with `kubectl pitstop get llm -n ns`\n")
	}
}

func TestCancelOfAUnitThatComesTooLate(t *testing.T) {
	b := newServingBench(t)
	b.answers(t, v1alpha1.RequestRefused, "its Pods are being changed or replaced; revert the template: `kubectl pitstop undo llm`")
	b.want(t, b.run(t.Context(), "cancel", "llm-0/decode-0"), 1, "kubectl pitstop undo llm")
}

// A Pod and a ServingGroup of one name are told apart by what is written before it.
func TestCancelOfWhatHasTwoMeanings(t *testing.T) {
	b := newBench(t, ordered(1, v1alpha1.StagePrepared))
	g := group()
	g.Name = "engine-0"
	if err := b.dynamic.Tracker().Create(v1alpha1.ServingGroups, unstructuredOf(t, g), "ns"); err != nil {
		t.Fatal(err)
	}
	b.want(t, b.run(t.Context(), "cancel", "engine-0"), 2, "pod/engine-0 or sg/engine-0")
	b.want(t, b.run(t.Context(), "cancel", "pod/engine-0"), 0)
	if u := b.stored(t); u.Spec.Attempt != 2 {
		t.Errorf("ordered %+v", u.Spec)
	}
}

func TestCancelOfAPodOfAUnit(t *testing.T) {
	b := newServingBench(t)
	u := ordered(1, v1alpha1.StagePrepared)
	u.Name = "llm-0-decode-0-0"
	if err := b.dynamic.Tracker().Create(v1alpha1.InPlaceUpdates, unstructuredOf(t, u), "ns"); err != nil {
		t.Fatal(err)
	}
	b.want(t, b.run(t.Context(), "cancel", "llm-0-decode-0-0"), 1, "belongs to ServingGroup", "kubectl pitstop cancel llm-0`")
}

func TestRetry(t *testing.T) {
	b := newServingBench(t)
	patch := b.answers(t, v1alpha1.RequestBegun, "nothing stood in the way")
	b.want(t, b.run(t.Context(), "retry", "ms/llm"), 0)
	b.printed(t, "modelserving ns/llm: nothing stood in the way\nfollow it with `kubectl pitstop get llm -n ns`\n")
	if got := (*patch)["metadata"].(map[string]any)["annotations"].(map[string]any)["pitstop.dev/do.retry"]; got != "request-1" {
		t.Errorf("asked %q", got)
	}
}

// A new status of the ModelServing is no conflict; another object of its name is.
func TestARequestIsWrittenAgainAfterANewStatus(t *testing.T) {
	b := newServingBench(t)
	b.answers(t, v1alpha1.RequestBegun, done)
	tries := 0
	b.dynamic.PrependReactor("patch", "modelservings", func(clienttesting.Action) (bool, runtime.Object, error) {
		if tries++; tries < 3 {
			return true, nil, apierrors.NewConflict(v1alpha1.ModelServings.GroupResource(), "llm", nil)
		}
		return false, nil, nil
	})
	b.want(t, b.run(t.Context(), "recreate", "llm-0"), 0)
}
