package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/cri"
	"pitstop.dev/gpu"
)

// hung is a runtime that answers nobody, and whose residents cannot be told.
type hung struct{ forever chan struct{} }

func (h hung) Version(ctx context.Context) (cri.Version, error) {
	<-ctx.Done()
	return cri.Version{}, fmt.Errorf("runtime version: %w", ctx.Err())
}

func (h hung) Residents(context.Context, gpu.Reading) (map[string][]states.Resident, bool) {
	<-h.forever
	return nil, true
}

func TestAHungRuntimeDoesNotKeepTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := hung{forever: make(chan struct{})}
		w.start(Config{Reader: w, Assigner: w, Residency: h})
		w.rounds(3)
		server := Server{Monitor: w.monitor, Checks: NewChecks(append([]Check{CheckOfRuntime(h, clock.RealClock{})}, w.monitor.Checks()...)...)}
		for range 2 {
			began := time.Now()
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, states.Path, http.NoBody))
			if took := time.Since(began); took > checkFor {
				t.Errorf("the answer took %s of the bubble's time", took)
			}
			var s states.States
			if err := json.Unmarshal(answer.Body.Bytes(), &s); err != nil {
				t.Fatal(err)
			}
			if s.GPUs.ResidentsKnown || len(s.GPUs.Devices) != 3 || s.GPUs.Devices[0].Verdict.Status != "True" {
				t.Errorf("GPUs %+v", s.GPUs)
			}
			if status, line := Sum(s.Checks); status != states.Unknown || line != "runtime: no answer in time" {
				t.Errorf("%s %q", status, line)
			}
		}
		close(h.forever)
		synctest.Wait()
		if g := w.monitor.GPUs(t.Context()); !g.ResidentsKnown {
			t.Error("residents are not known afterwards")
		}
	})
}

func TestTheProbeIsChecked(t *testing.T) {
	up := gpu.Reading{State: gpu.Up, Driver: "570"}
	one, gone := up, up
	one.Devices, gone.Devices = []gpu.Device{device(0)}, []gpu.Device{{UUID: "GPU-0", Lost: true}}
	absent, released := gpu.Reading{State: gpu.Absent}, gpu.Reading{State: gpu.Released}
	fails := func(why string) gpu.Reading { return gpu.Reading{State: gpu.Unknown, Message: why} }
	for name, tt := range map[string]struct {
		read  []gpu.Reading
		after time.Duration
		probe string
		gpus  string
	}{
		"new":                                 {nil, 0, "Unknown no reading yet", "Unknown not read yet"},
		"absent":                              {repeat(absent, 1), 0, "OK no NVML library", "OK none on this node"},
		"late once":                           {repeat(fails("it starts"), 1), 0, "Unknown it starts", "Unknown not read yet"},
		"dead":                                {repeat(fails("killed"), 2), 0, "Problem killed", "Unknown not read yet"},
		"late again":                          {append(repeat(fails("it reads"), 3), up, fails("it reads")), 0, "Unknown it reads", "Unknown not read yet"},
		"well, and not read any more":         {repeat(one, 3), time.Minute, "Unknown last read 1m5s ago", "Unknown NotReadable: GPU 0: last read 1m5s ago"},
		"well, and read a moment ago":         {repeat(one, 3), 15 * time.Second, "OK driver 570", "OK 1 healthy"},
		"sick, and not read any more":         {repeat(gone, 3), time.Minute, "Unknown last read 1m5s ago", "Problem DeviceLost: GPU 0: does not answer any more; last read 1m5s ago"},
		"never read any more":                 {repeat(up, 1), time.Minute, "Unknown last read 1m5s ago", "Unknown last read 1m5s ago"},
		"absent, and seldom looked for":       {repeat(absent, 13), 0, "OK no NVML library", "OK none on this node"},
		"absent, and not looked for any more": {repeat(absent, 1), 2 * time.Minute, "Unknown last read 2m5s ago", "Unknown last read 2m5s ago"},
		"released":                            {repeat(released, 1), 0, "OK the driver is released", "Unknown not read yet"},
		"fresh":                               {repeat(one, 1), 0, "OK driver 570", "Unknown NotYetJudged"},
		"well":                                {repeat(one, 3), 0, "OK driver 570", "OK 1 healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start(Config{Reader: w})
			for _, r := range tt.read {
				w.reading = r
				w.rounds(1)
			}
			w.clock.Step(tt.after)
			w.checks(t, tt.probe, tt.gpus)
		})
	}
	t.Run("none", func(t *testing.T) {
		w := newWorld(t)
		w.start(Config{})
		w.checks(t, "OK none is configured", "OK none are looked at")
	})
}

func repeat(r gpu.Reading, n int) []gpu.Reading { return slices.Repeat([]gpu.Reading{r}, n) }

// checks compares what the checks of the probe and the GPUs say.
func (w *world) checks(t *testing.T, probe, gpus string) {
	t.Helper()
	for i, want := range []string{probe, gpus} {
		status, text := w.monitor.Checks()[i].Look(t.Context())
		if got := string(status) + " " + text; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := json.Marshal(w.monitor.GPUs(t.Context())); err != nil {
		t.Error(err)
	}
}

// A gauge that nobody sets any more is no news of a GPU.
func TestMetricsOfGPUsThatNobodyReadsAreUnknown(t *testing.T) {
	w := newWorld(t)
	if nonzero, _ := samples(t, w.monitor); !slices.Equal(nonzero, []string{"pitstop_agent_gpu_probe Unknown 1"}) {
		t.Errorf("before the first reading: %q", nonzero)
	}
	w.reading.Devices[1].Lost = true
	w.rounds(3)
	w.clock.Step(time.Hour)
	nonzero, _ := samples(t, w.monitor)
	if diff := cmp.Diff([]string{
		"pitstop_agent_gpu_healthy False GPU-1 1",
		"pitstop_agent_gpu_healthy Unknown GPU-0 1",
		"pitstop_agent_gpu_healthy Unknown GPU-2 1",
		"pitstop_agent_gpu_probe Unknown 1",
	}, nonzero); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	g := w.monitor.GPUs(t.Context())
	if g.State != gpu.Unknown || g.Message != "last read 1h0m5s ago" || g.Devices[0].Verdict.Status != "Unknown" || g.Devices[0].Memory != nil {
		t.Errorf("states: %+v", g)
	}
	w.rounds(1)
	if g := w.monitor.GPUs(t.Context()); g.State != gpu.Up || g.Devices[0].Verdict.Status != "True" {
		t.Errorf("read again: %+v", g)
	}
}
