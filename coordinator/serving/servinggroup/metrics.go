package servinggroup

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// States of Pods, as metrics count them.
const (
	stateReady    = "ready"
	stateNotReady = "not_ready"
	stateHeld     = "held"
	stateDeleting = "deleting"
	stateMissing  = "missing"
)

// metrics counts over the groups of each ModelServing. Its series go when the last group goes.
type metrics struct {
	mu     sync.Mutex
	groups map[types.NamespacedName]tally
	totals map[types.NamespacedName]*totals

	pods, skipped, recoveries *prometheus.Desc
	duration                  prometheus.Histogram
	outages                   *prometheus.HistogramVec
	refusals                  *prometheus.CounterVec
}

// A tally is what one group has now.
type tally struct {
	serving types.NamespacedName
	pods    map[string]int
}

// totals are what has happened to the groups of one ModelServing.
type totals struct{ skipped, recoveries int }

func newMetrics() *metrics {
	of := []string{"namespace", "modelserving"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pitstop_modelserving_"+name, help, append(of, labels...), nil)
	}
	return &metrics{
		groups:     make(map[types.NamespacedName]tally),
		totals:     make(map[types.NamespacedName]*totals),
		pods:       desc("pods", "Pods of a ModelServing by state.", "state"),
		skipped:    desc("drains_skipped_total", "Units whose Pods were deleted without a drain, as no live agent could drain them."),
		recoveries: desc("recoveries_total", "Role instances or groups that were created anew because a Pod was lost or failed."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pitstop_servinggroup_reconcile_seconds", Help: "Duration of one reconciliation of a ServingGroup.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		outages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pitstop_modelserving_unit_out_of_service_seconds", Help: "Time that units were out of service in an update, from the first Pod that left traffic until all were back.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13), // up to an hour and more: engines may drain and load for long
		}, of),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pitstop_modelserving_inplace_refusals_total", Help: "Attempts to update a unit in place that were given up before a container was touched.",
		}, append(of, "reason")),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	c <- m.pods
	c <- m.skipped
	c <- m.recoveries
	m.duration.Describe(c)
	m.outages.Describe(c)
	m.refusals.Describe(c)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	m.duration.Collect(c)
	m.outages.Collect(c)
	m.refusals.Collect(c)
	m.mu.Lock()
	defer m.mu.Unlock()
	sums := make(map[types.NamespacedName]map[string]int)
	for _, g := range m.groups {
		if sums[g.serving] == nil {
			sums[g.serving] = map[string]int{stateReady: 0, stateNotReady: 0, stateHeld: 0, stateDeleting: 0, stateMissing: 0}
		}
		for state, n := range g.pods {
			sums[g.serving][state] += n
		}
	}
	for serving, states := range sums {
		for _, state := range slices.Sorted(maps.Keys(states)) {
			c <- prometheus.MustNewConstMetric(m.pods, prometheus.GaugeValue, float64(states[state]), serving.Namespace, serving.Name, state)
		}
	}
	for serving, t := range m.totals {
		c <- prometheus.MustNewConstMetric(m.skipped, prometheus.CounterValue, float64(t.skipped), serving.Namespace, serving.Name)
		c <- prometheus.MustNewConstMetric(m.recoveries, prometheus.CounterValue, float64(t.recoveries), serving.Namespace, serving.Name)
	}
}

func (s *sight) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.sg.Namespace, Name: s.sg.Name}
}

// observe counts the Pods of a group as they were seen, and what was told of it.
func (m *metrics) observe(s *sight, plan pods.Plan, out outcome) {
	serving := types.NamespacedName{Namespace: s.sg.Namespace, Name: modelServingName(s.sg)}
	states := make(map[string]int)
	for _, p := range s.snap.Pods {
		states[stateOf(p)]++
	}
	states[stateMissing] = max(0, int(plan.Status.Pods)-len(s.snap.Pods)-out.taken[pods.CreatePod])
	m.mu.Lock()
	defer m.mu.Unlock()
	m.groups[s.key()] = tally{serving: serving, pods: states}
	if m.totals[serving] == nil {
		m.totals[serving] = &totals{}
	}
	for _, n := range plan.Notices {
		switch n.Reason {
		case v1alpha1.EventDrainSkipped:
			m.totals[serving].skipped++
		case v1alpha1.EventRecovering:
			m.totals[serving].recoveries++
		}
	}
	for _, d := range plan.Outages {
		m.outages.WithLabelValues(serving.Namespace, serving.Name).Observe(d.Seconds())
	}
	for _, reason := range plan.Refusals {
		m.refusals.WithLabelValues(serving.Namespace, serving.Name, string(reason)).Inc()
	}
}

func stateOf(p pods.Pod) string {
	switch {
	case p.Deleting:
		return stateDeleting
	case p.Ready:
		return stateReady
	case p.HeldUnit || p.HeldInPlace || p.HeldOther:
		return stateHeld
	}
	return stateNotReady
}

// forget drops a group, and with the last one of a ModelServing its series.
func (m *metrics) forget(group types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	serving := m.groups[group].serving
	delete(m.groups, group)
	for _, g := range m.groups {
		if g.serving == serving {
			return
		}
	}
	delete(m.totals, serving)
	labels := prometheus.Labels{"namespace": serving.Namespace, "modelserving": serving.Name}
	m.outages.DeletePartialMatch(labels)
	m.refusals.DeletePartialMatch(labels)
}

func (m *metrics) took(d time.Duration) { m.duration.Observe(d.Seconds()) }
