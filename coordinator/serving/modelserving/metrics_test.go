package modelserving_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/coordinator/serving/modelserving"
)

// series are the values of all metrics by name and labels.
func series(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			slices.Sort(labels)
			all[fmt.Sprintf("%s%v", f.GetName(), labels)] = m.GetGauge().GetValue()
		}
	}
	return all
}

func TestMetricsFollowTheStatusAndGoWithIt(t *testing.T) {
	w := newWorld(t, declared(4))
	registry := prometheus.NewRegistry()
	report := plan.Report{
		Replicas: 4, Ready: 3, Available: 2, Updated: 1, Enough: plan.Verdict{Reason: v1alpha1.AvailableTooFew},
		Progressing: plan.Verdict{True: true, Reason: v1alpha1.ProgressingRollout},
		Blocked:     plan.Verdict{True: true, Reason: v1alpha1.BlockedFailed},
	}
	r, err := modelserving.New(modelserving.Config{
		Client: w.client, Live: w.api, Clock: w.clock, Events: w, Metrics: registry,
		Decide: func(plan.Snapshot) plan.Plan { return plan.Plan{Report: report} },
	})
	if err != nil {
		t.Fatal(err)
	}
	pass := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "ms"}}); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	w.clock.SetTime(w.clock.Now().Add(90 * time.Second))
	report.Blocked.Reason = v1alpha1.BlockedDeadline
	pass()
	want := map[string]float64{
		"pitstop_modelserving_blocked[modelserving=ms namespace=ns reason=ProgressDeadlineExceeded]": 1,
		"pitstop_modelserving_rollout_duration_seconds[modelserving=ms namespace=ns]":                90,
		"pitstop_modelserving_rollout_progress_ratio[modelserving=ms namespace=ns]":                  0.25,
		"pitstop_modelserving_units[modelserving=ms namespace=ns state=declared]":                    4,
		"pitstop_modelserving_units[modelserving=ms namespace=ns state=live]":                        4,
		"pitstop_modelserving_units[modelserving=ms namespace=ns state=ready]":                       3,
		"pitstop_modelserving_units[modelserving=ms namespace=ns state=available]":                   2,
		"pitstop_modelserving_units[modelserving=ms namespace=ns state=updated]":                     1,
		"pitstop_modelserving_units[modelserving=ms namespace=ns state=updating]":                    0,
		"pitstop_modelserving_units[modelserving=ms namespace=ns state=failed]":                      0,
	}
	if diff := cmp.Diff(want, series(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if err := w.api.Delete(t.Context(), w.serving()); err != nil {
		t.Fatal(err)
	}
	pass()
	if left := series(t, registry); len(left) > 0 {
		t.Errorf("left after the deletion: %v", left)
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	w := newWorld(t)
	whole := modelserving.Config{Client: w.client, Live: w.api, Clock: w.clock, Events: w}
	if _, err := modelserving.New(whole); err != nil {
		t.Errorf("all there: %v", err)
	}
	for name, lack := range map[string]func(*modelserving.Config){
		"client": func(c *modelserving.Config) { c.Client = nil }, "live reader": func(c *modelserving.Config) { c.Live = nil },
		"clock": func(c *modelserving.Config) { c.Clock = nil }, "events": func(c *modelserving.Config) { c.Events = nil },
	} {
		c := whole
		lack(&c)
		if _, err := modelserving.New(c); err == nil {
			t.Errorf("no error without %s", name)
		}
	}
	registry := prometheus.NewRegistry()
	whole.Metrics = registry
	_, first := modelserving.New(whole)
	if _, second := modelserving.New(whole); first != nil || !errors.As(second, &prometheus.AlreadyRegisteredError{}) {
		t.Errorf("registered twice: %v, %v", first, second)
	}
}
