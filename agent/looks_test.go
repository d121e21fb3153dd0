package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/residency"
)

type lookFunc func(context.Context) (residency.Sample, error)

func (f lookFunc) Look(ctx context.Context, _ *corev1.Pod) (residency.Sample, error) { return f(ctx) }

func TestLooks(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}}
	hangs := func(ctx context.Context) (residency.Sample, error) {
		<-ctx.Done()
		return residency.Sample{}, ctx.Err()
	}
	good := residency.Sample{At: at(1), State: gpu.Up}
	for name, tt := range map[string]struct {
		look lookFunc
		asks int
		want []residency.Sample
		took time.Duration
	}{
		"a look that comes": {
			func(context.Context) (residency.Sample, error) { return good, nil }, 1, []residency.Sample{good}, 0,
		},
		"one that fails says why, and when": {
			func(context.Context) (residency.Sample, error) { return residency.Sample{}, errors.New("no") }, 1,
			[]residency.Sample{{State: gpu.Unknown, Fault: "no"}},
			0,
		},
		"one that hangs is given up, and there is no second one beside it": {
			hangs, 3, []residency.Sample{{State: gpu.Unknown, Fault: context.DeadlineExceeded.Error()}}, lookTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLooks(Config{Clock: clock.RealClock{}, Residency: tt.look})
				done, began := 0, time.Now()
				for range tt.asks {
					l.ask(t.Context(), pod, func() { done++ })
				}
				l.wait()
				got := l.take("pod")
				if len(got) == 1 && got[0].At.IsZero() {
					t.Error("it does not say when")
				}
				for i := range got {
					if got[i].Fault != "" {
						got[i].At = time.Time{}
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || done != 1 || time.Since(began) != tt.took {
					t.Errorf("called back %d times after %s (-want +got):\n%s", done, time.Since(began), diff)
				}
				if again := l.take("pod"); again != nil {
					t.Errorf("the same again: %+v", again)
				}
			})
		})
	}
}

func TestALookThatEndsAfterItsUpdateIsDropped(t *testing.T) {
	l := newLooks(Config{Clock: clock.RealClock{}})
	if !l.begin("pod") || l.begin("pod") {
		t.Error("looks side by side")
	}
	l.forget("pod")
	l.put("pod", residency.Sample{At: at(1)})
	if got := l.take("pod"); got != nil {
		t.Errorf("kept %+v", got)
	}
	if !l.begin("pod") {
		t.Error("cannot look for the next update")
	}
}
