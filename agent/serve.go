package agent

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pitstop.dev/agent/health"
	"pitstop.dev/agent/health/states"
)

// Handler serves /healthz (the process is alive), /readyz (it can start updates), /v1/states (how the node and its GPUs
// are) and /metrics.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET "+states.Path, health.Server{Monitor: a.health, Checks: a.checks(), Node: a.cfg.NodeName, Version: a.cfg.Version})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}
