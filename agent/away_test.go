package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/agent/health"
	"pitstop.dev/agent/health/states"
	"pitstop.dev/agent/journal"
	"pitstop.dev/cri"
	"pitstop.dev/gpu"
	"pitstop.dev/readiness"
)

// oneGPU is a Reader that says when it is asked.
type oneGPU struct {
	clock *clocktesting.FakeClock
	asked chan struct{}
}

func (r oneGPU) Read(ctx context.Context) gpu.Reading {
	select {
	case r.asked <- struct{}{}:
	case <-ctx.Done():
	}
	return gpu.Reading{
		At: r.clock.Now(), State: gpu.Up, Driver: "570",
		Devices: []gpu.Device{{UUID: "GPU-0", Health: gpu.Health{Recovery: new(gpu.RecoveryNone), RemapFailed: new(false)}}},
	}
}

func (oneGPU) Events(uint64) []gpu.Event { return nil }

// away returns an agent whose API server is not there.
func away(t *testing.T, await func(context.Context) error) (*Agent, oneGPU) {
	t.Helper()
	r := oneGPU{clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), asked: make(chan struct{})}
	runtime, err := cri.Dial("unix://"+filepath.Join(t.TempDir(), "no.sock"), cri.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runtime.Close() })
	scraper, err := readiness.NewScraper(readiness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{
		NodeName: "gpu-0", Namespace: "pitstop-system", Identity: "me", Runtime: runtime, Scraper: scraper, Clock: r.clock,
		API: &rest.Config{Host: "http://127.0.0.1:1", QPS: 20, Burst: 40}, AwaitServer: await,
		Journal: journal.Options{Dir: t.TempDir()}, KubeletDir: t.TempDir(), GPUs: health.Config{Reader: r},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, r
}

func TestTheNodeIsWatchedWithoutTheAPIServer(t *testing.T) {
	a, r := away(t, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for range 5 {
		<-r.asked
		r.clock.Step(5 * time.Second)
	}
	server := httptest.NewServer(a.Handler())
	defer server.Close()
	s, err := health.Ask(ctx, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]states.Check{}
	for _, c := range s.Checks {
		found[c.Name] = c
	}
	for name, want := range map[string]states.Check{
		health.CheckGPUs:    {Name: health.CheckGPUs, Status: states.OK, Message: "1 healthy"},
		health.CheckProbe:   {Name: health.CheckProbe, Status: states.OK, Message: "driver 570"},
		health.CheckJournal: {Name: health.CheckJournal, Status: states.OK, Message: "can be written"},
	} {
		if found[name] != want {
			t.Errorf("check %+v, want %+v", found[name], want)
		}
	}
	if s.GPUs.PodsKnown || len(s.GPUs.Devices) != 1 {
		t.Errorf("GPUs %+v", s.GPUs)
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s answers %s", path, resp.Status)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

func TestAnAPIServerThatIsTooOldEndsTheAgent(t *testing.T) {
	old := errors.New("too old")
	a, _ := away(t, func(context.Context) error { return old })
	if err := a.Run(t.Context()); !errors.Is(err, old) {
		t.Errorf("Run() = %v", err)
	}
}
