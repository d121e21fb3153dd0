package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"pitstop.dev/test/engine/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A wire is a listener and a dialer in memory, so that time in a bubble passes by itself.
type wire struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newWire() *wire { return &wire{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { close(w.closed); return nil }
func (w *wire) Addr() net.Addr { return &net.IPAddr{} }

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case w.conns <- theirs:
		return ours, nil
	case <-w.closed:
		return nil, errors.New("refused")
	}
}

// A running engine, its client and what its Run returned.
type running struct {
	client *http.Client
	stop   context.CancelFunc
	ended  chan error
}

func start(t *testing.T, c server.Config) running {
	t.Helper()
	e, err := server.New(c, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	r := running{stop: stop, ended: make(chan error, 1)}
	r.client = &http.Client{Transport: &http.Transport{DialContext: w.dial, DisableKeepAlives: true}}
	go func() { r.ended <- e.Run(ctx, w) }()
	synctest.Wait()
	return r
}

func (r running) get(path string) (int, string, error) {
	resp, err := r.client.Get("http://engine" + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func config() server.Config {
	return server.Config{Version: "v1", Model: "m", Slots: 256, Grace: 30 * time.Second}
}

func TestEngineLoadsBeforeItIsHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Load, c.ClaimMiB = 5*time.Second, 1
		r := start(t, c)
		for _, tt := range []struct {
			wait time.Duration
			path string
			want int
		}{
			{0, "/health", http.StatusServiceUnavailable},
			{0, "/v1/completions", http.StatusServiceUnavailable},
			{0, "/metrics", http.StatusOK},
			{4 * time.Second, "/health", http.StatusServiceUnavailable},
			{1001 * time.Millisecond, "/health", http.StatusOK},
			{0, "/v1/completions?duration=2s&chunks=4", http.StatusOK},
			{0, "/v1/completions?duration=-1s", http.StatusBadRequest},
			{0, "/v1/completions?chunks=0", http.StatusBadRequest},
		} {
			time.Sleep(tt.wait)
			if got, _, err := r.get(tt.path); got != tt.want || err != nil {
				t.Errorf("%s after %s: %d, %v, want %d", tt.path, tt.wait, got, err, tt.want)
			}
		}
		r.stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestStreamIsPacedAndMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, config())
		time.Sleep(time.Millisecond)
		began := time.Now()
		_, body, err := r.get("/v1/completions?duration=2s&chunks=4")
		if err != nil || strings.Count(body, `"version":"v1"`) != 4 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("stream %q, %v", body, err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %s, want 2s", took)
		}
		r.stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestMetricsCountRunningAndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Slots = 2
		r := start(t, c)
		time.Sleep(time.Millisecond)
		done := make(chan error)
		for range 3 {
			go func() { _, _, err := r.get("/v1/completions?duration=1s"); done <- err }()
		}
		synctest.Wait()
		_, body, err := r.get("/metrics")
		for _, want := range []string{
			"vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 2.0\n",
			"vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 1.0\n",
			"vllm:request_success_total{engine=\"0\",model_name=\"m\"} 0.0\n",
		} {
			if !strings.Contains(body, want) || err != nil {
				t.Errorf("metrics lack %q (%v):\n%s", want, err, body)
			}
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if _, body, _ := r.get("/metrics"); !strings.Contains(body, "model_name=\"m\"} 0.0\n") ||
			!strings.Contains(body, "vllm:request_success_total{engine=\"0\",model_name=\"m\"} 3.0\n") {
			t.Errorf("metrics at the end:\n%s", body)
		}
		r.stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAClientThatGoesFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Slots = 1
		r := start(t, c)
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for range 2 {
			go func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine/v1/completions?duration=9m&chunks=1",
					strings.NewReader("{}"))
				if err == nil {
					var resp *http.Response
					if resp, err = r.client.Do(req); err == nil {
						_, err = io.ReadAll(resp.Body)
						_ = resp.Body.Close()
					}
				}
				done <- err
			}()
		}
		synctest.Wait()
		cancel()
		for range 2 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		synctest.Wait()
		if _, body, err := r.get("/v1/completions?duration=1s"); err != nil || !strings.Contains(body, server.Done) {
			t.Errorf("stream %q, %v", body, err)
		}
		if _, body, _ := r.get("/metrics"); !strings.Contains(body, "running{engine=\"0\",model_name=\"m\"} 0.0") ||
			!strings.Contains(body, "waiting{engine=\"0\",model_name=\"m\"} 0.0") {
			t.Errorf("metrics:\n%s", body)
		}
		r.stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTheEndWaitsForStreamsOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		stream          string
		grace, shutdown time.Duration
		want            time.Duration
		whole           bool
	}{
		"an idle engine ends at once":       {grace: time.Hour, want: 0},
		"a running stream is finished":      {stream: "3s", grace: time.Hour, want: 3 * time.Second, whole: true},
		"a stream is cut after the grace":   {stream: "3s", grace: time.Second, want: time.Second},
		"a slow shutdown takes its time":    {grace: time.Hour, shutdown: time.Minute, want: time.Minute},
		"a slow shutdown begins after them": {stream: "3s", grace: time.Hour, shutdown: time.Minute, want: 63 * time.Second, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config()
				c.Grace, c.Shutdown = tt.grace, tt.shutdown
				r := start(t, c)
				time.Sleep(time.Millisecond)
				whole := make(chan bool, 1)
				if tt.stream != "" {
					go func() {
						_, body, err := r.get("/v1/completions?duration=" + tt.stream)
						whole <- err == nil && strings.HasSuffix(body, "data: [DONE]\n\n")
					}()
				} else {
					whole <- false
				}
				synctest.Wait()
				began := time.Now()
				r.stop()
				synctest.Wait()
				if _, _, err := r.get("/health"); err == nil {
					t.Error("a new connection was taken after the end began")
				}
				if err := <-r.ended; err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != tt.want {
					t.Errorf("took %s, want %s", took, tt.want)
				}
				if got := <-whole; got != tt.whole {
					t.Errorf("stream whole: %t, want %t", got, tt.whole)
				}
			})
		})
	}
}

func TestCrash(t *testing.T) {
	at := func(d time.Duration) *time.Duration { return &d }
	for name, tt := range map[string]struct {
		after *time.Duration
		times int
		want  []time.Duration // by start; -1: none within an hour
	}{
		"never":                        {nil, 0, []time.Duration{-1, -1}},
		"at every start":               {at(3 * time.Second), 0, []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}},
		"at the first two starts":      {at(0), 2, []time.Duration{0, 0, -1, -1}},
		"late, at the first start":     {at(time.Minute), 1, []time.Duration{time.Minute, -1}},
		"at no start without a moment": {nil, 2, []time.Duration{-1}},
	} {
		t.Run(name, func(t *testing.T) {
			c := config()
			c.State, c.CrashAfter, c.CrashTimes = t.TempDir(), tt.after, tt.times
			for i, want := range tt.want {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					r := start(t, c)
					select {
					case err := <-r.ended:
						if took := time.Since(began); took != want || !errors.Is(err, server.ErrCrashed) {
							t.Errorf("start %d ended after %s with %v, want %s", i, took, err, want)
						}
					case <-time.After(time.Hour):
						if want >= 0 {
							t.Errorf("start %d did not crash", i)
						}
						r.stop()
						if err := <-r.ended; err != nil {
							t.Error(err)
						}
					}
				})
			}
		})
	}
}

func TestCrashCutsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		after := time.Second
		c.CrashAfter = &after
		r := start(t, c)
		time.Sleep(time.Millisecond)
		if _, body, err := r.get("/v1/completions?duration=2s"); err == nil || strings.Contains(body, server.Done) {
			t.Errorf("stream %q, %v", body, err)
		}
		if err := <-r.ended; !errors.Is(err, server.ErrCrashed) {
			t.Error(err)
		}
	})
}

func TestStateOutlivesTheStart(t *testing.T) {
	state := t.TempDir()
	var starts, firsts []string
	for _, version := range []string{"v1", "v2"} {
		synctest.Test(t, func(t *testing.T) {
			c := config()
			c.Version, c.State = version, state
			r := start(t, c)
			_, body, err := r.get("/version")
			var got server.Info
			if err != nil || !decode(body, &got) || got.Version != version {
				t.Errorf("version %q, %v", body, err)
			}
			starts, firsts = append(starts, got.Start), append(firsts, got.First)
			r.stop()
			if err := <-r.ended; err != nil {
				t.Error(err)
			}
		})
	}
	if starts[0] == starts[1] || firsts[0] != starts[0] || firsts[1] != starts[0] {
		t.Errorf("starts %q, first of each %q", starts, firsts)
	}
}
