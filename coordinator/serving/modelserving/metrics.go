package modelserving

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
)

// metrics are gauges by ModelServing, never by Pod: what they say is read off the status that was
// reported last. How long a pass takes is controller-runtime's
// controller_runtime_reconcile_time_seconds{controller="modelserving"}.
type metrics struct {
	groups   *prometheus.GaugeVec
	progress *prometheus.GaugeVec
	duration *prometheus.GaugeVec
	blocked  *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	names := []string{"namespace", "modelserving"}
	m := &metrics{
		groups: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pitstop_modelserving_units",
			Help: "ServingGroups by state: declared, live, ready, available, updated; and units in update: updating, failed.",
		}, append(names, "state")),
		progress: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pitstop_modelserving_rollout_progress_ratio",
			Help: "Part of the live ServingGroups that is at the target.",
		}, names),
		duration: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pitstop_modelserving_rollout_duration_seconds",
			Help: "How long the ModelServing has been, or was last, on its way to what is declared.",
		}, names),
		blocked: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pitstop_modelserving_blocked",
			Help: "1 for the reason that stands in the way; no series where none does.",
		}, append(names, "reason")),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.groups, m.progress, m.duration, m.blocked} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// show sets the series of the pass's ModelServing to what its status says.
func (m *metrics) show(p *pass) {
	key := p.name()
	s := p.ms.Status
	states := map[string]int32{
		"declared": ptr.Deref(p.ms.Spec.Replicas, 1), "live": s.Replicas, "ready": s.ReadyReplicas, "available": s.AvailableReplicas,
		"updated": s.UpdatedReplicas, "updating": int32(len(s.Updating)), "failed": p.failed(),
	}
	for state, n := range states {
		m.groups.WithLabelValues(key.Namespace, key.Name, state).Set(float64(n))
	}
	ratio := 1.0
	if s.Replicas > 0 {
		ratio = float64(s.UpdatedReplicas) / float64(s.Replicas)
	}
	m.progress.WithLabelValues(key.Namespace, key.Name).Set(ratio)
	m.showConditions(key, p)
}

func (m *metrics) showConditions(key types.NamespacedName, p *pass) {
	if c := p.condition(v1alpha1.ConditionProgressing); c != nil && c.Status == metav1.ConditionTrue {
		m.duration.WithLabelValues(key.Namespace, key.Name).Set(p.now.Sub(c.LastTransitionTime.Time).Seconds())
	}
	m.blocked.DeletePartialMatch(labelsOf(key))
	if c := p.condition(v1alpha1.ConditionBlocked); c != nil && c.Status == metav1.ConditionTrue {
		m.blocked.WithLabelValues(key.Namespace, key.Name, c.Reason).Set(1)
	}
}

// forget removes the series of a ModelServing that is gone.
func (m *metrics) forget(key types.NamespacedName) {
	for _, v := range []*prometheus.GaugeVec{m.groups, m.progress, m.duration, m.blocked} {
		v.DeletePartialMatch(labelsOf(key))
	}
}

func labelsOf(key types.NamespacedName) prometheus.Labels {
	return prometheus.Labels{"namespace": key.Namespace, "modelserving": key.Name}
}
