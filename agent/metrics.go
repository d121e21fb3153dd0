package agent

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
)

// metrics are what the agent counts. Labels are closed lists.
type metrics struct {
	registry *prometheus.Registry
	stages   *prometheus.HistogramVec
	ends     *prometheus.CounterVec
	restarts *prometheus.CounterVec
	commits  prometheus.Histogram
	writes   *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pitstop_agent_stage_duration_seconds", Help: "Time that updates stood at a stage.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800},
		}, []string{"stage"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pitstop_agent_updates_total", Help: "Updates that ended or failed, by stage and reason.",
		}, []string{"stage", "reason"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pitstop_agent_container_restarts_total", Help: "Restarts of containers of gated Pods, by kind: Planned, Crash or Peer.",
		}, []string{"kind"}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pitstop_agent_journal_commit_seconds", Help: "Time that one durable write of the journal took.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pitstop_agent_api_writes_total", Help: "Write requests to the API server, by resource.",
		}, []string{"resource"}),
	}
	m.registry.MustRegister(m.stages, m.ends, m.restarts, m.commits, m.writes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) observeStage(s v1alpha1.Stage, d time.Duration) {
	m.stages.WithLabelValues(string(s)).Observe(d.Seconds())
}

func (m *metrics) observeCommit(d time.Duration) { m.commits.Observe(d.Seconds()) }

func (m *metrics) countEnd(s v1alpha1.Stage, r v1alpha1.Reason) {
	m.ends.WithLabelValues(string(s), string(r)).Inc()
}

func (m *metrics) countRestart(k journal.RestartKind) {
	if k != journal.First {
		m.restarts.WithLabelValues(string(k)).Inc()
	}
}

// countWrites returns a wrapper that counts write requests, around the one that is given.
func (m *metrics) countWrites(inner func(http.RoundTripper) http.RoundTripper) func(http.RoundTripper) http.RoundTripper {
	return func(rt http.RoundTripper) http.RoundTripper {
		if inner != nil {
			rt = inner(rt)
		}
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet {
				m.writes.WithLabelValues(resourceOf(req.URL.Path)).Inc()
			}
			return rt.RoundTrip(req)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// resourceOf returns the resource, with its subresource, that a path of the API is about.
func resourceOf(path string) string {
	for _, known := range []string{"events", "leases", "inplaceupdates", "pods", "nodes"} {
		_, rest, found := strings.Cut(path, "/"+known)
		if !found {
			continue
		}
		if strings.HasSuffix(rest, "/status") {
			return known + "/status"
		}
		return known
	}
	return "other"
}
