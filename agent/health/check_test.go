package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

func TestTheWorstCheckDecides(t *testing.T) {
	ok := states.Check{Name: "runtime", Status: states.OK, Message: "containerd"}
	dark := states.Check{Name: "kubelet", Status: states.Unknown, Message: "no socket"}
	full := states.Check{Name: "disk", Status: states.Problem, Message: "1.0 GiB free"}
	long := states.Check{Name: "GPUs", Status: states.Problem, Message: strings.Repeat("ä\n", 200)}
	for name, tt := range map[string]struct {
		checks []states.Check
		status states.Status
		line   string
		code   int
	}{
		"all is well":                  {[]states.Check{ok, ok}, states.OK, "ok: runtime, runtime", 0},
		"one could not be made":        {[]states.Check{ok, dark}, states.Unknown, "kubelet: no socket", 2},
		"a problem is more than that":  {[]states.Check{dark, ok, full}, states.Problem, "disk: 1.0 GiB free", 1},
		"all problems are said":        {[]states.Check{full, full}, states.Problem, "disk: 1.0 GiB free; disk: 1.0 GiB free", 1},
		"a long text is cut, one line": {[]states.Check{long}, states.Problem, "GPUs: " + strings.TrimSuffix(strings.Repeat("ä ", 36), " ") + "...", 1},
	} {
		t.Run(name, func(t *testing.T) {
			status, line := Sum(tt.checks)
			if status != tt.status || line != tt.line || ExitCode(status) != tt.code {
				t.Errorf("Sum() = %s, %q, exit %d", status, line, ExitCode(status))
			}
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("the line has %d characters", n)
			}
		})
	}
}

func TestACheckThatHangsIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		looks := 0
		hangs := Check{"disk", func(context.Context) (states.Status, string) { looks++; <-free; return states.OK, "" }}
		quick := Check{"runtime", func(context.Context) (states.Status, string) { return states.OK, "there" }}
		checks := NewChecks(hangs, quick)
		want := []states.Check{
			{Name: "disk", Status: states.Unknown, Message: "no answer within 3s"},
			{Name: "runtime", Status: states.OK, Message: "there"},
		}
		for range 3 {
			if diff := cmp.Diff(want, checks.Run(t.Context())); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		}
		synctest.Wait()
		if looks != 1 {
			t.Errorf("%d looks are under way", looks)
		}
		close(free)
		synctest.Wait()
		if got := checks.Run(t.Context())[0]; got.Status != states.OK {
			t.Errorf("after it: %+v", got)
		}
	})
}

func TestWhoAsksBesideAnotherGetsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		looks := 0
		checks := NewChecks(Check{"runtime", func(context.Context) (states.Status, string) { looks++; <-free; return states.OK, "there" }})
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if got := checks.Run(t.Context())[0]; got.Status != states.OK {
					t.Errorf("Run() = %+v", got)
				}
			})
		}
		synctest.Wait()
		close(free)
		both.Wait()
		if looks != 1 {
			t.Errorf("looked %d times", looks)
		}
	})
}

type runtime struct {
	err  error
	free uint64
}

func (r runtime) Version(context.Context) (cri.Version, error) {
	return cri.Version{Runtime: "containerd", Version: "2.1"}, r.err
}
func (r runtime) FreeBytes(context.Context) (uint64, error) { return r.free, r.err }

// listen serves a socket, and returns a function that ends it and leaves its file behind.
func listen(t *testing.T, path string) (leave func()) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = l.Close() })
	return func() { _ = l.Close() }
}

func TestTheNodeIsChecked(t *testing.T) {
	look := func(c Check) string {
		status, text := c.Look(t.Context())
		return fmt.Sprintf("%s: %s %s", c.Name, status, text)
	}
	dir := t.TempDir()
	bare := t.TempDir()
	kubelet := listen(t, filepath.Join(dir, "pod-resources", "kubelet.sock"))
	down := errors.New("connection refused")
	want := func(c Check, text string) {
		t.Helper()
		if got := look(c); !strings.HasPrefix(got, text) {
			t.Errorf("%q, want %q", got, text)
		}
	}
	want(CheckOfRuntime(runtime{}, clock.RealClock{}), "runtime: OK containerd 2.1")
	want(CheckOfRuntime(runtime{err: down}, clock.RealClock{}), "runtime: Problem connection refused")
	want(CheckOfDisk(runtime{free: 3 << 30}, 10<<30), "disk: Problem 3.0 GiB free for images, 10.0 GiB are needed")
	want(CheckOfDisk(runtime{free: 30 << 30}, 10<<30), "disk: OK 30.0 GiB")
	want(CheckOfDisk(runtime{}, 0), "disk: OK 0.0 GiB")
	want(CheckOfDisk(runtime{err: down}, 10<<30), "disk: Unknown connection refused")
	want(CheckOfJournal(func() error { return nil }), "journal: OK")
	want(CheckOfJournal(func() error { return down }), "journal: Problem connection refused")
	want(CheckOfKubelet(dir), "kubelet: OK")
	want(CheckOfKubelet(bare), "kubelet: Unknown no socket")
	kubelet()
	want(CheckOfKubelet(dir), "kubelet: Problem")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if status, text := CheckOfKubelet(dir).Look(gone); status != states.Unknown {
		t.Errorf("%s %s where nobody waits", status, text)
	}
}

// residents is a Residency.
type residents map[string][]states.Resident

func (r residents) Residents(context.Context, gpu.Reading) (map[string][]states.Resident, bool) {
	return r, true
}

func TestTheAgentAnswersTheCheck(t *testing.T) {
	w := newWorld(t)
	engine := states.Resident{PID: 42, Name: "python3", PodUID: "engine", Container: "engine", UsedMiB: 70000}
	w.start(Config{Reader: w, Assigner: w, Residency: residents{"GPU-1": {engine}}})
	engine.Pod = "ns/engine"
	w.rounds(3)
	w.pods[0].Annotations = map[string]string{v1alpha1.PatchedAt: v1alpha1.PatchMark{Token: "u/1", At: w.clock.Now(), StopTimeout: time.Second}.String()}
	w.xid("GPU-1", 43)
	w.rounds(1)
	server := httptest.NewServer(Server{Monitor: w.monitor, Checks: NewChecks(w.monitor.Checks()...), Node: "gpu-0", Version: "v1"})
	defer server.Close()
	local := NewChecks(CheckOfRuntime(runtime{err: errors.New("down")}, clock.RealClock{}))

	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	bySocket := &http.Server{Handler: server.Config.Handler}
	defer bySocket.Close() //nolint:errcheck // the test is over
	go func() { _ = bySocket.Serve(l) }()

	s := AskOrLook(t.Context(), "unix://"+path, local)
	if status, line := Sum(s.Checks); status != states.OK || line != "ok: probe, GPUs" {
		t.Errorf("%s %q", status, line)
	}
	d := s.GPUs.Devices[1]
	if diff := cmp.Diff([]states.Resident{engine}, d.Residents); diff != "" || !s.GPUs.ResidentsKnown {
		t.Errorf("residents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ns/engine"}, d.Pods); diff != "" || d.Name != "H200" || d.Memory.Total != 143771 {
		t.Errorf("%+v, Pods (-want +got):\n%s", d, diff)
	}
	if e := d.Verdict.Errors; len(e) != 1 || !e[0].Expected || e[0].Stands {
		t.Errorf("errors %+v", e)
	}
	if o := s.GPUs.Devices[2].Pods; len(o) != 1 || o[0] != "ns/other" {
		t.Errorf("the Pod of a MIG device: %v", o)
	}
	w.reading.Devices[0].Lost = true
	w.rounds(1)
	s = AskOrLook(t.Context(), server.URL, local)
	if status, line := Sum(s.Checks); status != states.Problem || line != "GPUs: DeviceLost: GPU 0: does not answer any more" {
		t.Errorf("%s %q", status, line)
	}
	wantMetrics(t, w.monitor)
}

// samples returns what a scrape finds, without samples of 0.
func samples(t *testing.T, c prometheus.Collector) (nonzero []string, all map[string]int) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all = map[string]int{}
	for _, f := range families {
		all[f.GetName()] = len(f.GetMetric())
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if v := m.GetGauge().GetValue() + m.GetCounter().GetValue(); v != 0 {
				nonzero = append(nonzero, fmt.Sprintf("%s %s %g", f.GetName(), strings.Join(labels, " "), v))
			}
		}
	}
	return nonzero, all
}

func wantMetrics(t *testing.T, m *Monitor) {
	t.Helper()
	nonzero, all := samples(t, m)
	if diff := cmp.Diff([]string{
		"pitstop_agent_gpu_errors_total application GPU-1 1",
		"pitstop_agent_gpu_healthy False GPU-0 1",
		"pitstop_agent_gpu_healthy True GPU-1 1",
		"pitstop_agent_gpu_healthy True GPU-2 1",
		"pitstop_agent_gpu_probe Up 1",
	}, nonzero); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"pitstop_agent_gpu_errors_total": 15, "pitstop_agent_gpu_healthy": 9, "pitstop_agent_gpu_probe": 4}, all); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestTheCheckLooksItselfWhereTheAgentDoesNotAnswer(t *testing.T) {
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer garbage.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	dead := filepath.Join(t.TempDir(), "dead.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		broken.URL:             "agent: " + broken.URL + " answers 404",
		garbage.URL:            "agent: answer of " + garbage.URL,
		gone.URL:               "agent: no answer: dial tcp",
		"unix://" + dead:       "agent: no answer: nobody serves " + dead[:10],
		"unix:///no/such.sock": "agent: no answer: there is no /no/such.sock",
	} {
		s := AskOrLook(t.Context(), address, NewChecks(CheckOfRuntime(runtime{}, clock.RealClock{})))
		if status, line := Sum(s.Checks); status != states.Unknown || !strings.HasPrefix(line, want) || len(s.Checks) != 2 {
			t.Errorf("%s %q, want %q", status, line, want)
		}
		s = AskOrLook(t.Context(), address, NewChecks(CheckOfRuntime(runtime{err: errors.New("down")}, clock.RealClock{})))
		if status, line := Sum(s.Checks); status != states.Problem || line != "runtime: down" {
			t.Errorf("%s %q", status, line)
		}
	}
}

func TestAnAgentThatHangsDoesNotHangTheCheck(t *testing.T) {
	if askFor >= 5*time.Second || checkFor >= askFor {
		t.Errorf("the agent has %s for its checks, the question %s, and node-problem-detector waits 5 s", checkFor, askFor)
	}
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	defer server.Close()
	defer close(stop)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if s := AskOrLook(ctx, server.URL, NewChecks()); len(s.Checks) != 1 || s.Checks[0].Status != states.Unknown {
		t.Errorf("checks %+v", s.Checks)
	}
}

func TestAConfigurationIsChecked(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	bad := Config{Every: -1, Judge: health.Config{Classes: health.Table{1: "odd"}}}
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "XID 1") || !strings.Contains(err.Error(), "negative") {
		t.Errorf("Validate() = %v", err)
	}
}
