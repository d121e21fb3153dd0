package verb_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"pitstop.dev/api/v1alpha1"
)

func TestUndo(t *testing.T) {
	for _, args := range [][]string{{"undo", "llm"}, {"undo", "ms/llm", "--to-revision", "1"}} {
		b := newServingBench(t)
		b.want(t, b.run(t.Context(), args...), 0)
		b.printed(t, `modelserving ns/llm goes back to revision 1 (llm-1):
  decode.entry.containers[engine].image: r/engine:v2 -> r/engine:v1
follow it with `+"`kubectl pitstop get llm -n ns`\n")
		if ms := b.declared(t); image(ms) != "r/engine:v1" || *ms.Spec.Template.Roles[0].Replicas != 3 || len(ms.Status.Updating) != 1 {
			t.Errorf("%v declared %+v", args, ms)
		}
	}
}

func TestUndoAsJSON(t *testing.T) {
	b := newServingBench(t, func(ms *v1alpha1.ModelServing) { ms.Spec.Paused = true })
	b.want(t, b.run(t.Context(), "undo", "llm", "-o", "json"), 0)
	b.printed(t, `{
  "namespace": "ns",
  "modelServing": "llm",
  "toRevision": 1,
  "name": "llm-1",
  "changes": [
    {
      "path": "roles[decode].entryTemplate.spec.containers[engine].image",
      "before": "r/engine:v2",
      "after": "r/engine:v1"
    }
  ],
  "notes": [
    "the ModelServing is paused: the rollout starts with `+"`kubectl pitstop resume llm`"+`"
  ]
}
`)
}

func TestUndoOnlyShows(t *testing.T) {
	b := newServingBench(t)
	var options metav1.PatchOptions
	b.dynamic.PrependReactor("patch", "modelservings", func(a clienttesting.Action) (bool, runtime.Object, error) {
		options = a.(clienttesting.PatchActionImpl).PatchOptions
		return true, unstructuredOf(t, serving("r/engine:v1")), nil
	})
	b.want(t, b.run(t.Context(), "undo", "llm", "--dry-run"), 0)
	if len(options.DryRun) != 1 || options.DryRun[0] != metav1.DryRunAll || !strings.Contains(b.out.String(), "would go back to revision 1") {
		t.Errorf("options %+v, output %s", options, b.out)
	}
}

// A conflict with the coordinator's status is nobody's fault and passes; one with another declaration
// ends the command.
func TestUndoAtTheSameTime(t *testing.T) {
	conflict := apierrors.NewConflict(v1alpha1.ModelServings.GroupResource(), "llm", nil)
	for name, tt := range map[string]struct {
		change func(*v1alpha1.ModelServing)
		times  int
		code   int
		want   string
	}{
		"a new status":         {func(ms *v1alpha1.ModelServing) { ms.ResourceVersion, ms.Status.ReadyReplicas = "10", 1 }, 1, 0, ""},
		"a new spec":           {func(ms *v1alpha1.ModelServing) { ms.ResourceVersion, ms.Generation = "10", 3 }, 1, 3, "changed or replaced by someone else"},
		"another of its name":  {func(ms *v1alpha1.ModelServing) { ms.UID = "new-uid" }, 1, 3, "changed or replaced by someone else"},
		"a status without end": {func(*v1alpha1.ModelServing) {}, 100, 3, "changed or replaced by someone else"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newServingBench(t)
			var sent []string
			b.dynamic.PrependReactor("patch", "modelservings", func(a clienttesting.Action) (bool, runtime.Object, error) {
				var patch struct {
					Metadata struct{ ResourceVersion string }
				}
				if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
					t.Error(err)
				}
				sent = append(sent, patch.Metadata.ResourceVersion)
				if len(sent) > tt.times {
					return false, nil, nil
				}
				ms := serving("r/engine:v2")
				tt.change(ms)
				if err := b.dynamic.Tracker().Update(v1alpha1.ModelServings, unstructuredOf(t, ms), "ns"); err != nil {
					t.Error(err)
				}
				return true, nil, conflict
			})
			b.want(t, b.run(t.Context(), "undo", "llm"), tt.code, tt.want)
			if sent[0] != "9" || tt.code == 0 && sent[1] != "10" || len(sent) > 5 {
				t.Errorf("sent resourceVersions %v", sent)
			}
		})
	}
}

// A webhook's answer is "forbidden" too, and no right helps against it.
func TestUndoThatAWebhookRefuses(t *testing.T) {
	b := newServingBench(t)
	b.forbid("patch", "modelservings")
	b.core.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		want := &authorizationv1.ResourceAttributes{Verb: "patch", Group: "pitstop.dev", Resource: "modelservings", Namespace: "ns"}
		if diff := cmp.Diff(want, review.Spec.ResourceAttributes); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
		review.Status.Allowed = true
		return true, review, nil
	})
	b.want(t, b.run(t.Context(), "undo", "llm"), 1, "a policy or webhook objects")
	if strings.Contains(b.err.String(), "you may not") {
		t.Errorf("errors: %s", b.err)
	}
}

func TestUndoThatIsInvalid(t *testing.T) {
	b := newServingBench(t)
	b.dynamic.PrependReactor("patch", "modelservings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Group: "pitstop.dev", Kind: "ModelServing"}, "llm", field.ErrorList{
			field.Invalid(field.NewPath("spec", "template"), "x", "a budget of zero"),
		})
	})
	b.want(t, b.run(t.Context(), "undo", "llm"), 1, "a budget of zero")
}
