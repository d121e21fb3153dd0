package certificate

import "github.com/prometheus/client_golang/prometheus"

func newEnds() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pitstop_webhook_certificate_end_timestamp_seconds", Help: "When the webhook's certificate ends, in seconds since the epoch. 0: none is served.",
	})
}
