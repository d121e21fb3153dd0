package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

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
