package readiness

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newScraper(t *testing.T, c Config) *Scraper {
	t.Helper()
	s, err := NewScraper(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serving returns a Pod whose address and port "http" lead to a server.
func serving(t *testing.T, h http.HandlerFunc) *corev1.Pod {
	t.Helper()
	return servingOn(t, "127.0.0.1:0", h)
}

func servingOn(t *testing.T, address string, h http.HandlerFunc) *corev1.Pod {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	if err := server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	addr := l.Addr().(*net.TCPAddr)
	pod := newPod()
	pod.Status.PodIP = addr.IP.String()
	pod.Spec.Containers[0].Ports[0].ContainerPort = int32(addr.Port)
	return pod
}

func page(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		fmt.Fprint(w, text)
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRequests(t *testing.T) {
	own := Engine{Name: "own", Running: []string{"own_running"}, Waiting: []string{"own_waiting", "own_parked"}}
	for name, tt := range map[string]struct {
		page string
		want Requests
		err  error
	}{
		"vLLM":   {page: file(t, "vllm.txt"), want: Requests{Running: 4, Waiting: 2, Work: 1500750}},
		"SGLang": {page: file(t, "sglang.txt"), want: Requests{Running: 5, Waiting: 10, Work: 366}},
		"an engine by configuration, without types, help or labels": {
			page: "own_running 1\nown_waiting 2\nown_parked 4\n", want: Requests{Running: 1, Waiting: 6},
		},
		"two engines in one Pod": {
			page: "own_running 1\nown_waiting 0\n" + file(t, "vllm.txt"), want: Requests{Running: 5, Waiting: 2, Work: 1500750},
		},
		"idle":                     {page: "own_running 0.0\nown_waiting 0\n"},
		"less than one is not 0":   {page: "own_running 0.2\nown_waiting 0\n", want: Requests{Running: 1}},
		"a swapped request counts": {page: "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:num_requests_swapped 3\n", want: Requests{Waiting: 3}},
		"a broken line elsewhere":  {page: "own_running 1\nown_waiting 2\nother{ 3\n", want: Requests{Running: 1, Waiting: 2}},
		"a long line elsewhere":    {page: "own_running 1\n# HELP x " + strings.Repeat("own_running 7 ", 9000) + "\nown_waiting 2\n", want: Requests{Running: 1, Waiting: 2}},
		"a long line of ours":      {page: "own_running{x=\"" + strings.Repeat("y", 20000) + "\"} 1\nown_waiting 2\n", want: Requests{Running: 1, Waiting: 2}},
		"an empty page":            {err: ErrNoMetrics},
		"a page of somebody else":  {page: "# TYPE up gauge\nup 1\n", err: ErrNoMetrics},
		"a login page":             {page: "<html><body>vllm:num_requests_running 0</body></html>", err: ErrNoMetrics},
		"a type without a value":   {page: "# TYPE own_running gauge\n# TYPE own_waiting gauge\n", err: ErrNoMetrics},
		"half of the metrics":      {page: "own_running 0\n", err: ErrNoMetrics},
		"an optional one alone":    {page: "own_parked 0\nown_running 0\n", err: ErrNoMetrics},
		"a longer name":            {page: "own_running_max 0\nown_waiting_max 0\n", err: ErrNoMetrics},
		"not a number":             {page: "own_running NaN\nown_waiting 0\n", err: ErrValue},
		"infinite":                 {page: "own_running +Inf\nown_waiting 0\n", err: ErrValue},
		"negative":                 {page: "own_running -1\nown_running{a=\"b\"} 1\nown_waiting 0\n", err: ErrValue},
		"too many in all":          {page: strings.Repeat("own_running 9007199254740992\n", 2048) + "own_waiting 0\n", err: ErrValue},
		"a histogram": {
			page: "# TYPE own_running histogram\nown_running_bucket{le=\"+Inf\"} 0\nown_running_sum 0\nown_running_count 0\nown_waiting 0\n", err: ErrNoMetrics,
		},
		"a broken line of ours": {page: "own_running zero\nown_waiting 0\n", err: ErrPage},
		"a torn line of ours":   {page: "own_waiting 0\nown_running 0", err: ErrPage},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScraper(t, Config{Engines: []Engine{own}})
			got, err := s.Requests(t.Context(), serving(t, page(tt.page)))
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			equal(t, "Requests()", tt.want, got)
		})
	}
}

func TestRequestsAreUnknown(t *testing.T) {
	zero := page("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")
	elsewhere := serving(t, zero)
	elsewhereURL, err := metricsURL(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	for name, handler := range map[string]http.HandlerFunc{
		"an error of the engine": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			zero(w, r)
		},
		"a redirect to another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhereURL, http.StatusFound)
		},
		"a redirect without end": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"/", http.StatusFound)
		},
		"a page that breaks off": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "4096")
			zero(w, r)
		},
		"a page that never ends": func(w http.ResponseWriter, r *http.Request) {
			zero(w, r)
			http.NewResponseController(w).Flush() //nolint:errcheck // the client may be gone
			<-r.Context().Done()
		},
		"an engine that does not answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a page that unpacks to more than the limit": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"+strings.Repeat("# x\n", 1<<16))
			z.Close() //nolint:errcheck // the client may be gone
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScraper(t, Config{Timeout: 300 * time.Millisecond, MaxBytes: 1 << 17})
			if r, err := s.Requests(t.Context(), serving(t, handler)); err == nil {
				t.Errorf("%+v", r)
			}
		})
	}
	t.Run("nothing listens", func(t *testing.T) {
		pod := newPod()
		pod.Status.PodIP = "127.0.0.1"
		pod.Spec.Containers[0].Ports[0].ContainerPort = 1
		if _, err := newScraper(t, Config{}).Requests(t.Context(), pod); err == nil {
			t.Error("no error")
		}
	})
	t.Run("the caller gave up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := newScraper(t, Config{}).Requests(ctx, elsewhere); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("too large, by name", func(t *testing.T) {
		text := "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
		for limit, want := range map[int]error{len(text): nil, len(text) - 1: ErrTooLarge} {
			if _, err := newScraper(t, Config{MaxBytes: int64(limit)}).Requests(t.Context(), serving(t, page(text))); !errors.Is(err, want) {
				t.Errorf("limit %d: %v", limit, err)
			}
		}
	})
}

func TestScrapeAsksOnlyThePod(t *testing.T) {
	var path, accept string
	pod := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
			return
		}
		path, accept = r.URL.Path, r.Header.Get("Accept")
		page("vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n")(w, r)
	})
	scraper := newScraper(t, Config{})
	got, err := scraper.Requests(t.Context(), pod)
	if err != nil || got.Running != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	// Net/http never asks a proxy for loopback, so that a request could not show it.
	if scraper.client.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy may come in between")
	}
	equal(t, "path", "/metrics/", path)
	equal(t, "accept", "text/plain;version=0.0.4", accept)
}

func TestScrapeOverIPv6(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Logf("no IPv6 here (%v): the address is checked alone", err)
	} else {
		l.Close() //nolint:errcheck // nothing was written
		pod := servingOn(t, "[::1]:0", page("vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"))
		if got, err := newScraper(t, Config{}).Requests(t.Context(), pod); err != nil || got.Running != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	pod := newPod()
	pod.Status.PodIP = "2001:db8::7"
	url, err := metricsURL(pod)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "URL", "http://[2001:db8::7]:8000/metrics", url)
}

func TestMetricsPort(t *testing.T) {
	two := func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "router", Ports: []corev1.ContainerPort{
			{Name: "stats", ContainerPort: 9100}, {Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
		}})
	}
	unnamed := func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports[0].Name = "" }
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want int32 // 0: ErrNoPort
	}{
		"the port named http":             {newPod(two), 8000},
		"by number":                       {newPod(two, withAnnotation(v1alpha1.MetricsPort, "9999")), 9999},
		"by name, in another container":   {newPod(two, withAnnotation(v1alpha1.MetricsPort, "stats")), 9100},
		"no such name, although one http": {newPod(two, withAnnotation(v1alpha1.MetricsPort, "metrics")), 0},
		"a port that is not TCP":          {newPod(two, withAnnotation(v1alpha1.MetricsPort, "dns")), 0},
		"no number of a port":             {newPod(withAnnotation(v1alpha1.MetricsPort, "65536")), 0},
		"zero":                            {newPod(withAnnotation(v1alpha1.MetricsPort, "0")), 0},
		"an empty annotation":             {newPod(unnamed, withAnnotation(v1alpha1.MetricsPort, "")), 0},
		"nothing named http":              {newPod(unnamed), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := metricsPort(tt.pod)
			if got != tt.want || errors.Is(err, ErrNoPort) != (tt.want == 0) {
				t.Errorf("metricsPort() = %d, %v", got, err)
			}
		})
	}
	pod := newPod()
	if _, err := newScraper(t, Config{}).Requests(t.Context(), pod); !errors.Is(err, ErrNoAddress) {
		t.Errorf("without address: %v", err)
	}
}

func TestConfig(t *testing.T) {
	good := Engine{Name: "x", Running: []string{"a:b"}, Waiting: []string{"c"}, Work: []string{"d_total"}}
	for name, c := range map[string]Config{
		"negative timeout": {Timeout: -1},
		"negative limit":   {MaxBytes: -1},
		"no running":       {Engines: []Engine{good, {Waiting: []string{"c"}}}},
		"no waiting":       {Engines: []Engine{{Running: []string{"c"}}}},
		"no name":          {Engines: []Engine{{Running: []string{"a b"}, Waiting: []string{"c"}}}},
		"no name of work":  {Engines: []Engine{{Running: []string{"a"}, Waiting: []string{"c"}, Work: []string{""}}}},
	} {
		if _, err := NewScraper(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := newScraper(t, Config{Engines: []Engine{good}})
	equal(t, "defaults", []string{"2s", "16777216", "3"}, []string{s.client.Timeout.String(), strconv.FormatInt(s.limit, 10), strconv.Itoa(len(s.engines))})
}
