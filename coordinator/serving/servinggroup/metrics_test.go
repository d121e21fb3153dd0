package servinggroup_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// series are the outages, and the refusals in place, that the present controller has told of.
func (w *world) series() []string {
	w.t.Helper()
	families, err := w.counts.Gather()
	w.must(err)
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels string
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			switch f.GetName() {
			case "pitstop_modelserving_unit_out_of_service_seconds":
				out = append(out, fmt.Sprintf("out%s: %d in %v s", labels, m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()))
			case "pitstop_modelserving_inplace_refusals_total":
				out = append(out, fmt.Sprintf("refused%s: %v", labels, m.GetCounter().GetValue()))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) tells(when string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.series()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *world) remain(permit v1alpha1.Permit) {
	w.t.Helper()
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Revision, s.Updates[0].Permit = "r2", permit })
	w.live()
}

// TestTellsOfAnOutageOnce has another controller take over in the middle, and the one before it not know.
func TestTellsOfAnOutageOnce(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.live()
	drainGroup(w)
	w.live()
	before, counts := w.r, w.counts
	w.restart()
	w.pass(90 * time.Second)
	w.remain(v1alpha1.PermitSwap)
	w.pass(30 * time.Second)
	w.remain(v1alpha1.PermitServe)
	if got := w.stage(""); got != v1alpha1.UnitInService {
		t.Fatalf("stage %q: %+v", got, w.group().Status)
	}
	w.tells("back in service", "out llm models: 1 in 120 s")
	w.restart()
	w.live()
	w.tells("after a restart")
	w.r, w.counts = before, counts
	w.live()
	w.tells("by the controller before")
}

// TestTellsOfAnOutageOnlyOnceItIsStored cuts the write that says InService.
func TestTellsOfAnOutageOnlyOnceItIsStored(t *testing.T) {
	for after, want := range map[bool][]string{false: {"out llm models: 1 in 60 s"}, true: nil} {
		t.Run(fmt.Sprintf("died after the write: %t", after), func(t *testing.T) {
			w := newWorld(t, declare(t, "r1", "r2")...)
			w.live()
			drainGroup(w)
			w.live()
			w.pass(time.Minute)
			w.remain(v1alpha1.PermitSwap)
			cut := false
			w.refuse = func(verb string, o client.Object) error {
				sg, ok := o.(*v1alpha1.ServingGroup)
				if ok && verb == "report" && !cut && len(sg.Status.Updates) == 1 && sg.Status.Updates[0].Stage == v1alpha1.UnitInService {
					cut, w.cut, w.cutAfter = true, 1, after
				}
				return nil
			}
			w.remain(v1alpha1.PermitServe)
			w.tells("back in service", want...)
			if !cut || w.group().Status.Updates[0].OutSince != nil {
				t.Errorf("cut: %t, status %+v", cut, w.group().Status.Updates)
			}
		})
	}
}

func TestCountsRefusalsByReason(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.settle() // no node has an agent
	u := v1alpha1.UnitUpdate{Attempt: 1, Method: v1alpha1.UnitInPlace, Target: "r2", Previous: "r1", Permit: v1alpha1.PermitPrepare}
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.LastAttempt, s.Updates = 1, []v1alpha1.UnitUpdate{u} })
	w.settle()
	w.pass(time.Hour)
	w.settle()
	if got := w.stage(""); got != v1alpha1.UnitRefused {
		t.Fatalf("stage %q: %+v", got, w.group().Status)
	}
	w.tells("refused", "refused llm models AgentMissing: 1")
	w.must(w.api.Delete(t.Context(), w.group()))
	w.settle()
	w.tells("the group is gone")
}
