package readiness

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// TestUnmeasured: an engine that publishes no requests is told from one whose requests are unknown.
func TestUnmeasured(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	noPort := func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports = nil }
	for name, tt := range map[string]struct {
		page http.HandlerFunc
		pod  podOption
		want bool
	}{
		"a page without metrics of an engine":   {page: page("# TYPE up gauge\nup 1\n"), want: true},
		"no page of metrics":                    {page: status(http.StatusNotFound), want: true},
		"no port":                               {page: page(""), pod: noPort, want: true},
		"an annotation that leads nowhere":      {page: page(""), pod: withAnnotation(v1alpha1.MetricsPort, "nowhere")},
		"half of the metrics":                   {page: page("vllm:num_requests_running 0\n")},
		"no number":                             {page: page("vllm:num_requests_running NaN\nvllm:num_requests_waiting 0\n")},
		"an engine that is not up to answering": {page: status(http.StatusServiceUnavailable)},
		"a page that may not be read":           {page: status(http.StatusUnauthorized)},
		"a Pod without an address":              {page: page(""), pod: func(pod *corev1.Pod) { pod.Status.PodIP = "" }},
		"nothing listens":                       {page: page(""), pod: func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports[0].ContainerPort = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			pod := serving(t, tt.page)
			if tt.pod != nil {
				tt.pod(pod)
			}
			_, err := newScraper(t, Config{}).Requests(t.Context(), pod)
			if err == nil || errors.Is(err, ErrUnmeasured) != tt.want {
				t.Errorf("unmeasured = %t, want %t: %v", !tt.want, tt.want, err)
			}
		})
	}
}
