package health

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

// crowd gives the node many Pods with GPUs.
func (w *world) crowd() {
	for i := range 108 {
		name := fmt.Sprintf("pod-%d", i)
		w.pods = append(w.pods, pod(name))
		w.assigned[types.UID(name)] = []string{"GPU-0"}
	}
}

func (w *world) checked() string {
	status, line := Sum(NewChecks(w.monitor.Checks()...).Run(w.t.Context()))
	return string(status) + " " + line
}

func TestAnAPIServerThatDoesNotAnswerDelaysNoReading(t *testing.T) {
	for name, fresh := range map[string]bool{"an agent that has just started": true, "one that knows its node": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.crowd()
				if !fresh {
					w.judged()
				}
				w.hangs = true
				w.reading.Devices[0].Lost = true
				for range 6 {
					began := time.Now()
					w.rounds(1)
					if took := time.Since(began); took >= w.monitor.cfg.Every {
						t.Errorf("a round took %s", took)
					}
					if got, want := w.checked(), "Problem GPUs: DeviceLost: GPU 0: does not answer any more"; got != want {
						t.Errorf("the check says %q, want %q", got, want)
					}
				}
				w.hangs = false
				w.rounds(5)
				if !w.held(0) || w.ofNode().Reason != "DeviceLost" {
					t.Errorf("afterwards: held %t, %+v", w.held(0), w.ofNode())
				}
			})
		})
	}
}

func TestNothingIsSaidToBeReportedThatIsNot(t *testing.T) {
	for name, away := range map[string]func(*world){
		"the API server is down":     func(w *world) { w.broken = true },
		"the Node cannot be written": func(w *world) { w.monitor.api = unwritable{w} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.judged()
			ctx, lines := logged(t)
			w.clock.Step(w.monitor.cfg.Heartbeat)
			away(w)
			for range 6 {
				w.monitor.Round(ctx)
				w.clock.Step(5 * time.Second)
			}
			if len(*lines) != 1 || !strings.Contains((*lines)[0], "cannot be reported yet") || len(w.writes) > 0 {
				t.Errorf("wrote %q, logged %q", w.writes, *lines)
			}
			w.broken, w.monitor.api = false, w
			w.monitor.Round(ctx)
			w.monitor.Round(ctx)
			if len(*lines) != 2 || !strings.Contains((*lines)[1], "is reported") || len(w.writes) != 1 {
				t.Errorf("afterwards: wrote %q, logged %q", w.writes, *lines)
			}
		})
	}
}

// unwritable refuses to write the Node.
type unwritable struct{ *world }

func (unwritable) PatchNodeStatus(context.Context, []byte) (*corev1.Node, error) {
	return nil, errDown
}

// slow lets a write come through whose answer comes too late.
type slow struct {
	*world
	writes int
}

func (s *slow) PatchNodeStatus(ctx context.Context, data []byte) (*corev1.Node, error) {
	s.writes++
	if _, err := s.world.PatchNodeStatus(ctx, data); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAWriteWhoseAnswerIsLateIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := &slow{world: w}
		w.monitor = NewMonitor(Config{Reader: w, Assigner: w}, s, w.clock)
		w.rounds(20)
		if s.writes != 2 || // not yet judged, and healthy
			w.ofNode().Status != "True" {
			t.Errorf("wrote %d times, %+v", s.writes, w.ofNode())
		}
	})
}

func TestPodsThatWereNotListedYetAreNotNone(t *testing.T) {
	w := newWorld(t)
	w.unknown = true
	mark := v1alpha1.PatchMark{Token: "u/1", At: w.clock.Now(), StopTimeout: time.Second}
	w.pods[0].Annotations = map[string]string{v1alpha1.PatchedAt: mark.String()}
	judge := health.Default()
	var err error
	if judge.Classes, err = judge.Classes.Override([]string{"43=reset"}); err != nil {
		t.Fatal(err)
	}
	w.start(Config{Reader: w, Assigner: w, Judge: judge})
	w.xid("GPU-0", 43)
	w.xid("GPU-2", 79)
	w.rounds(3)
	g := w.monitor.GPUs(t.Context())
	if g.PodsKnown || len(g.Devices) != 3 || g.State != gpu.Up {
		t.Errorf("GPUs: %+v", g)
	}
	if got, want := w.checked(), "Problem GPUs: FatalXID: GPU 2: XID 79, which asks for a reboot"; got != want {
		t.Errorf("the check says %q, want %q", got, want)
	}
	if e := g.Devices[0].Verdict.Errors; len(e) > 0 {
		t.Errorf("an error is judged that an update may have brought: %+v", e)
	}
	w.unknown = false
	w.rounds(1)
	g = w.monitor.GPUs(t.Context())
	if e := g.Devices[0].Verdict.Errors; len(e) != 1 || !e[0].Expected {
		t.Errorf("errors %+v", e)
	}
	if !g.PodsKnown || len(g.Devices[0].Pods) != 1 {
		t.Errorf("GPUs: %+v", g)
	}
}
