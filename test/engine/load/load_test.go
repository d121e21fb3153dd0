package load_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"pitstop.dev/test/engine/load"
	"pitstop.dev/test/engine/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func until(t *testing.T, l *load.Load, what string, reached func(load.Report) bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !reached(l.Report()) {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 10 s: %s", what, l.Report())
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAgainstTheEngine(t *testing.T) {
	for name, keep := range map[string]bool{"new connections": false, "kept connections": true} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			e, err := server.New(server.Config{Version: "v1", Model: "m", Slots: 256, Grace: 5 * time.Second}, clock.RealClock{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx, l) }()
			url := "http://" + l.Addr().String()
			healthy(t, url)
			clients, err := load.Start(t.Context(), load.Config{
				URL: url, Clients: 8, Duration: 20 * time.Millisecond, Chunks: 4, KeepAlive: keep,
			}, clock.RealClock{})
			if err != nil {
				t.Fatal(err)
			}
			until(t, clients, "50 requests", func(r load.Report) bool { return r.OK >= 50 })
			got := clients.Stop()
			if got.FailedTotal() != 0 || got.Sent != got.OK || got.Versions["v1"] != got.OK || len(got.Starts) != 1 {
				t.Errorf("report %+v", got)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func healthy(t *testing.T, url string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		resp, err := client.Get(url + "/health")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-deadline:
			t.Fatal("engine not healthy within 10 s")
		case <-time.After(time.Millisecond):
		}
	}
}

func chunk(w http.ResponseWriter, start string, index, of int) {
	fmt.Fprintf(w, "data: {\"version\":\"v1\",\"start\":%q,\"index\":%d,\"of\":%d}\n\n", start, index, of)
}

// gone waits until the client has gone. A server notices only once it has read the body.
func gone(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestReasons(t *testing.T) {
	hijack := func(w http.ResponseWriter) *net.TCPConn {
		_ = http.NewResponseController(w).Flush()
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		return c.(*net.TCPConn)
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   load.Reason
	}{
		"another status":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, load.Status},
		"an empty answer":   {func(http.ResponseWriter, *http.Request) {}, load.Cut},
		"no end marker":     {func(w http.ResponseWriter, _ *http.Request) { chunk(w, "a", 0, 1) }, load.Cut},
		"a chunk left out":  {func(w http.ResponseWriter, _ *http.Request) { chunk(w, "a", 0, 3); chunk(w, "a", 2, 3) }, load.Mixed},
		"two engines":       {func(w http.ResponseWriter, _ *http.Request) { chunk(w, "a", 0, 2); chunk(w, "b", 1, 2) }, load.Mixed},
		"the end too early": {func(w http.ResponseWriter, _ *http.Request) { chunk(w, "a", 0, 2); fmt.Fprint(w, "data: [DONE]\n\n") }, load.Mixed},
		"a chunk after it": {func(w http.ResponseWriter, _ *http.Request) {
			chunk(w, "a", 0, 1)
			fmt.Fprint(w, "data: [DONE]\n\nx\n")
		}, load.Mixed},
		"the connection ended": {func(w http.ResponseWriter, _ *http.Request) { chunk(w, "a", 0, 2); _ = hijack(w).Close() }, load.Cut},
		"the connection reset": {func(w http.ResponseWriter, _ *http.Request) {
			chunk(w, "a", 0, 2)
			c := hijack(w)
			_ = c.SetLinger(0)
			_ = c.Close()
		}, load.Reset},
		"no answer in time": {func(_ http.ResponseWriter, r *http.Request) { gone(r) }, load.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // so that the client is done with sending
				tt.answer(w, r)
			}))
			defer s.Close()
			got := once(t, load.Config{URL: s.URL, Clients: 1, Duration: time.Millisecond, Timeout: 200 * time.Millisecond})
			if diff := cmp.Diff(map[load.Reason]int{tt.want: got.Sent}, got.Failed); diff != "" {
				t.Errorf("failed (-want +got):\n%s\n%+v", diff, got.Failures)
			}
		})
	}
}

// once runs the clients until the first failure.
func once(t *testing.T, c load.Config) load.Report {
	t.Helper()
	c.Pause = time.Hour
	l, err := load.Start(t.Context(), c, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, l, "a failure", func(r load.Report) bool { return r.FailedTotal() > 0 })
	return l.Stop()
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	got := once(t, load.Config{URL: "http://" + address, Clients: 3})
	if got.Failed[load.Refused] != got.Sent || got.FailedTotal() != got.Sent {
		t.Errorf("report %s: %+v", got, got.Failures)
	}
}

func TestForeignDestinationsAreNotLoaded(t *testing.T) {
	for _, address := range []string{"192.0.2.1:80", "198.19.0.1:80", "[2001:db8::1]:80", "10.0.0.1:80"} {
		got := once(t, load.Config{URL: "http://" + address, Clients: 1})
		if got.Failed[load.Foreign] != 1 {
			t.Errorf("%s: %s: %+v", address, got, got.Failures)
		}
	}
}

func TestTheEndOfTheContextIsNoFailure(t *testing.T) {
	arrived := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		gone(r)
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	l, err := load.Start(ctx, load.Config{URL: s.URL, Clients: 1}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	cancel()
	if got := l.Stop(); got.Sent != 1 || got.Cancelled != 1 || got.FailedTotal() != 0 {
		t.Errorf("report %+v", got)
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]load.Config{
		"no URL":              {Clients: 1},
		"another scheme":      {URL: "https://127.0.0.1", Clients: 1},
		"no clients":          {URL: "http://127.0.0.1"},
		"too many clients":    {URL: "http://127.0.0.1", Clients: 257},
		"too long a stream":   {URL: "http://127.0.0.1", Clients: 1, Duration: time.Hour},
		"too many chunks":     {URL: "http://127.0.0.1", Clients: 1, Chunks: 1001},
		"a negative duration": {URL: "http://127.0.0.1", Clients: 1, Duration: -1},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := load.Start(t.Context(), c, clock.RealClock{})
			if err == nil {
				l.Stop()
				t.Error("accepted")
			}
			if errors.Is(err, load.ErrForeign) {
				t.Errorf("unexpected %v", err)
			}
		})
	}
}
