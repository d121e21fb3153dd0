package modelserving_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// beside are writes that open the groups, none of which waits for another.
func beside(w *world, names ...string) []plan.Action {
	out := make([]plan.Action, 0, len(names))
	for _, name := range names {
		a := open(get[v1alpha1.ServingGroup](w, name))
		a.Beside = len(out) > 0
		out = append(out, a)
	}
	return out
}

// opened are the groups that have an open update.
func opened(w *world) []string {
	var out []string
	for _, name := range []string{"ms-0", "ms-1", "ms-2", "ms-3"} {
		if g := w.groups()[name]; g != nil && len(g.Spec.Updates) > 0 {
			out = append(out, name)
		}
	}
	return out
}

func TestWritesOfOneStepGoSideBySide(t *testing.T) {
	w := running(t, 4)
	w.abreast, w.leader = 3, nil
	w.decide = do(beside(w, "ms-0", "ms-1", "ms-2", "ms-3")...)
	var together sync.WaitGroup
	together.Add(3)
	w.onWrite = func(_ string, o client.Object) {
		if name := o.GetName(); name != "ms-3" && name != "ms" {
			together.Done()
			together.Wait() // for ever, if one waits for another
		}
	}
	w.mustPass()
	if diff := cmp.Diff([]string{"ms-0", "ms-1", "ms-2", "ms-3"}, opened(w)); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
}

// One of them that is outdated ends the pass after the others are made.
func TestAnOutdatedWriteEndsThePassAfterThoseBesideIt(t *testing.T) {
	w := running(t, 4)
	w.abreast, w.leader = 3, nil
	actions := beside(w, "ms-0", "ms-1", "ms-2", "ms-3")
	actions[1].ResourceVersion = "1"
	w.decide = do(actions...)
	w.mustPass()
	if diff := cmp.Diff([]string{"ms-0", "ms-2"}, opened(w)); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
}

func TestAWriteThatIsNotBesideWaits(t *testing.T) {
	w := running(t, 2)
	w.abreast, w.leader = 3, nil
	actions := beside(w, "ms-0", "ms-1")
	actions[0].ResourceVersion, actions[1].Beside = "1", false
	w.decide = do(actions...)
	w.mustPass()
	if got := opened(w); len(got) > 0 {
		t.Errorf("opened %v after a write that failed", got)
	}
}
