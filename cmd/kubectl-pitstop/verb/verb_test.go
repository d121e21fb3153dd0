package verb_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"pitstop.dev/api/v1alpha1"
)

func TestRefusedAndConflicting(t *testing.T) {
	for name, tt := range map[string]struct {
		updates []*v1alpha1.InPlaceUpdate
		args    []string
		code    int
		want    []string
	}{
		"update of no Pod":          {nil, []string{"update", "nobody", "a=b"}, 1, []string{"pod ns/nobody does not exist"}},
		"update of no container":    {nil, []string{"update", "engine-0", "nothing=b"}, 1, []string{`no container "nothing"`, "it has: engine"}},
		"update over a former Pod":  {[]*v1alpha1.InPlaceUpdate{former()}, []string{"update", "engine-0", "engine=b"}, 3, []string{"former Pod"}},
		"cancel of nothing":         {nil, []string{"cancel", "engine-0"}, 1, []string{"no in-place update"}},
		"cancel after the patch":    {[]*v1alpha1.InPlaceUpdate{ordered(1, v1alpha1.StageSwapping)}, []string{"cancel", "engine-0"}, 1, []string{"patched", "kubectl pitstop update engine-0"}},
		"status of no update":       {nil, []string{"status", "engine-0"}, 1, []string{"no in-place update"}},
		"watch of no update":        {nil, []string{"status", "engine-0", "--watch"}, 1, []string{"no in-place update"}},
		"explain of no Pod":         {nil, []string{"explain", "nobody"}, 1, []string{"does not exist"}},
		"hold as the agent":         {nil, []string{"hold", "engine-0", "--reason", "x", "--holder", "inplace"}, 1, []string{"agent's"}},
		"release of what is free":   {nil, []string{"release", "engine-0"}, 1, []string{"nobody holds it"}},
		"no verb of ours":           {nil, []string{"upgrade"}, 2, []string{`unknown command "upgrade"`}},
		"no such flag":              {nil, []string{"status", "--colour"}, 2, []string{"unknown flag"}},
		"no such format":            {nil, []string{"status", "-o", "yaml"}, 2, []string{"there is: json"}},
		"no Pod":                    {nil, []string{"explain"}, 2, []string{"is missing: kubectl pitstop explain"}},
		"no image":                  {nil, []string{"update", "engine-0"}, 2, []string{"at least 2 arg"}},
		"half an image":             {nil, []string{"update", "engine-0", "engine"}, 2, []string{"CONTAINER=IMAGE"}},
		"a container twice":         {nil, []string{"update", "engine-0", "a=b", "a=c"}, 2, []string{"named twice"}},
		"a drain that is none":      {nil, []string{"update", "engine-0", "a=b", "--drain", "Hope"}, 2, []string{"EngineMetrics, Router and Delay"}},
		"half a second":             {nil, []string{"update", "engine-0", "a=b", "--propagation", "500ms"}, 2, []string{"--propagation", "whole seconds"}},
		"too long":                  {nil, []string{"update", "engine-0", "a=b", "--stop-timeout", "25h"}, 2, []string{"--stop-timeout"}},
		"hold without a reason":     {nil, []string{"hold", "engine-0"}, 2, []string{"--reason"}},
		"a name and all namespaces": {nil, []string{"status", "engine-0", "-A"}, 2, []string{"exclude each other"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.updates...)
			b.want(t, b.run(t.Context(), tt.args...), tt.code, tt.want...)
			b.wroteNothing(t)
		})
	}
}

func former() *v1alpha1.InPlaceUpdate {
	u := ordered(1, v1alpha1.StageInService)
	u.Spec.PodUID = "former"
	return u
}

func TestNotInstalled(t *testing.T) {
	b := newBench(t)
	unknownPath := apierrors.NewGenericServerResponse(404, "get", v1alpha1.InPlaceUpdates.GroupResource(), "engine-0", "404 page not found", 0, true)
	b.dynamic.PrependReactor("*", "inplaceupdates", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, unknownPath })
	for _, args := range [][]string{{"update", "engine-0", "engine=b"}, {"status"}, {"status", "--watch"}, {"explain", "engine-0"}, {"cancel", "engine-0"}} {
		b.want(t, b.run(t.Context(), args...), 1, "Pitstop is not installed", "kubectl apply --server-side -k")
	}
}

func TestVersion(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "--version"), 0)
	if got := b.out.String(); got != "kubectl pitstop v1.2.3\n" {
		t.Errorf("output %q", got)
	}
}

func TestHelp(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{}, {"--help"}, {"update", "--help"}} {
		b.want(t, b.run(t.Context(), args...), 0)
		if !strings.Contains(b.out.String(), "kubectl pitstop") {
			t.Errorf("help of %v: %s", args, b.out)
		}
	}
}
