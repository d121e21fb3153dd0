package verb_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
)

func TestPauseAndResume(t *testing.T) {
	b := newServingBench(t)
	for _, tt := range []struct {
		args   []string
		want   string
		paused bool
	}{
		{[]string{"resume", "llm"}, "modelserving ns/llm is not paused\n", false},
		{[]string{"pause", "llm"}, "modelserving ns/llm paused\nunder way, and going on to their end: llm-0\n", true},
		{[]string{"pause", "ms/llm"}, "modelserving ns/llm is paused already\nunder way, and going on to their end: llm-0\n", true},
		{[]string{"resume", "llm", "-o", "json"}, "{\n  \"namespace\": \"ns\",\n  \"modelServing\": \"llm\",\n  \"paused\": false,\n  \"changed\": true,\n  \"updating\": [\n    \"llm-0\"\n  ]\n}\n", false},
	} {
		b.want(t, b.run(t.Context(), tt.args...), 0)
		b.printed(t, tt.want)
		if ms := b.declared(t); ms.Spec.Paused != tt.paused || image(ms) != "r/engine:v2" {
			t.Errorf("%v declared %+v", tt.args, ms.Spec)
		}
	}
	var writes int
	for _, a := range b.dynamic.Actions() {
		if a.GetVerb() != "get" {
			writes++
		}
	}
	if writes != 2 {
		t.Errorf("%d writes, want one for each change", writes)
	}
}

// The API server answers "invalid" to a patch with another UID.
func TestPauseOfAnotherOfItsName(t *testing.T) {
	b := newServingBench(t)
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "pitstop.dev", Kind: "ModelServing"}, "llm", field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), "ms-uid", "field is immutable"),
	})
	b.dynamic.PrependReactor("patch", "modelservings", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if patch := string(a.(clienttesting.PatchAction).GetPatch()); patch != `{"metadata":{"uid":"ms-uid"},"spec":{"paused":true}}` {
			t.Errorf("patch %s", patch)
		}
		return true, nil, invalid
	})
	b.want(t, b.run(t.Context(), "pause", "llm"), 3, "changed or replaced by someone else")
}
