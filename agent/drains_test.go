package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// routedPod serves, and has these marks for its router.
func routedPod(draining, drained string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "engine", Namespace: "default", UID: "pod", Annotations: map[string]string{
			v1alpha1.Draining: draining, v1alpha1.Drained: drained,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine"}}},
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.InService, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return pod
}

func TestRouterAndEngineTogether(t *testing.T) {
	busy := readiness.Drain{}.Next(at(0), readiness.Requests{Running: 2}, nil)
	none := readiness.Drain{}.Next(at(0), readiness.Requests{}, nil).Next(at(1), readiness.Requests{}, nil)
	answered := routedPod("ipu/2", "ipu/2")
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		one  *draining
		over bool
		says string
	}{
		"both have none left":                     {answered, &draining{token: "ipu/2", seen: none}, true, "the router has no request left; 0 requests running"},
		"the engine has some":                     {answered, &draining{token: "ipu/2", seen: busy}, false, "2 requests running"},
		"the engine was not asked":                {answered, nil, false, "not asked yet"},
		"the engine was asked for an attempt ago": {answered, &draining{token: "ipu/1", seen: none}, false, "not asked yet"},
		"the engine does not answer":              {answered, &draining{token: "ipu/2", err: errors.New("refused")}, false, "unknown: refused"},
		"the engine has no metrics":               {answered, &draining{token: "ipu/2", err: readiness.ErrUnmeasured}, true, "publishes no requests"},
		"the engine had metrics before":           {answered, &draining{token: "ipu/2", seen: busy, err: readiness.ErrUnmeasured}, false, "unknown"},
		"the router has not answered":             {routedPod("ipu/2", ""), &draining{token: "ipu/2", seen: none}, false, "the router has not answered; 0 requests running"},
		"the router answered an earlier attempt":  {routedPod("ipu/2", "ipu/1"), &draining{token: "ipu/2", seen: none}, false, "the router has not answered"},
		"the router was asked for another order":  {routedPod("old/2", "old/2"), &draining{token: "ipu/2", seen: none}, false, "the router has not answered"},
		"the router alone, and it has not said so": {
			routedPod("ipu/2", ""), &draining{token: "ipu/2", err: readiness.ErrUnmeasured}, false, "the router has not answered",
		},
		"no engine runs": {
			func() *corev1.Pod {
				pod := routedPod("ipu/2", "")
				pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
				return pod
			}(), nil, true, "nothing to drain",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrains(Config{})
			if tt.one != nil {
				d.open["pod"] = tt.one
			}
			got, _ := d.state(Order{Token: "ipu/2", DrainMode: v1alpha1.DrainRouter}, tt.pod)
			if got.Over != tt.over || !strings.Contains(got.Message, tt.says) {
				t.Errorf("over = %t, %q; want %t, %q", got.Over, got.Message, tt.over, tt.says)
			}
		})
	}
}

// TestTheEngineIsAskedOn: what an engine said before the router has answered is old by then.
func TestTheEngineIsAskedOn(t *testing.T) {
	var looks atomic.Int32
	idle := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		looks.Add(1)
		_, _ = io.WriteString(w, "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")
	}))
	defer idle.Close()
	pod := routedPod("ipu/2", "")
	host, port, err := net.SplitHostPort(idle.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.PodIP, pod.Annotations[v1alpha1.MetricsPort] = host, port
	scraper, err := readiness.NewScraper(readiness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[v1alpha1.DrainMode]int32{}
	for _, mode := range []v1alpha1.DrainMode{v1alpha1.DrainEngineMetrics, v1alpha1.DrainRouter} {
		looks.Store(0)
		synctest.Test(t, func(t *testing.T) {
			d := newDrains(Config{Clock: clock.RealClock{}, Scraper: scraper})
			ctx, cancel := context.WithTimeout(t.Context(), 10*scrapeEvery-time.Millisecond)
			defer cancel()
			d.follow(ctx, Order{Token: "ipu/2", DrainMode: mode}, pod, func() {})
			d.wait()
		})
		got[mode] = looks.Load()
	}
	want := map[v1alpha1.DrainMode]int32{v1alpha1.DrainEngineMetrics: 2, v1alpha1.DrainRouter: 10}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("looks (-want +got):\n%s", diff)
	}
}

func TestSlimKeepsTheMarks(t *testing.T) {
	pod := routedPod("ipu/2", "ipu/2")
	pod.Annotations["example.com/other"] = "x"
	want := map[string]string{v1alpha1.Draining: "ipu/2", v1alpha1.Drained: "ipu/2"}
	if diff := cmp.Diff(want, slimPod(pod).Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
