package health

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

func TestANodeWithoutGPUsIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*world){
		"no probe is configured":            func(w *world) { w.start(Config{}) },
		"no library":                        func(w *world) { w.reading = gpu.Reading{State: gpu.Absent} },
		"a probe that never came up":        func(w *world) { w.reading = gpu.Reading{State: gpu.Unknown, Message: "no probe"} },
		"a driver with no GPU":              func(w *world) { w.reading = gpu.Reading{State: gpu.Up} },
		"one failed reading on a GPU node":  func(w *world) { w.offersGPUs(); w.start(Config{Reader: &once{world: w}}) },
		"a driver that is let go of before": func(w *world) { w.reading = gpu.Reading{State: gpu.Released} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			w.rounds(20)
			if len(w.writes)+len(w.told) > 0 {
				t.Errorf("wrote %v, told %v", w.writes, w.told)
			}
			if w.reading.State == gpu.Absent && w.reads > 1 {
				t.Errorf("read the Node %d times", w.reads)
			}
		})
	}
}

// once fails in the first reading alone.
type once struct {
	*world
	again bool
}

func (o *once) Read(context.Context) gpu.Reading {
	if !o.again {
		o.again = true
		return gpu.Reading{State: gpu.Unknown, Message: "starting"}
	}
	return gpu.Reading{State: gpu.Absent}
}

func TestAProbeThatFailsOnAGPUNodeIsSaid(t *testing.T) {
	w := newWorld(t)
	w.offersGPUs()
	w.reading = gpu.Reading{State: gpu.Unknown, Message: "driver not loaded"}
	w.rounds(20)
	if diff := cmp.Diff(told{"Unknown", "NotReadable", "driver not loaded"}, w.ofNode()); diff != "" {
		t.Errorf("the Node says (-want +got):\n%s", diff)
	}
	if len(w.writes) != 1 {
		t.Errorf("wrote %v", w.writes)
	}
}

func TestHealthIsReported(t *testing.T) {
	healthy := told{"True", "Healthy", ""}
	for name, tt := range map[string]struct {
		do     func(*world)
		node   told
		engine told
		other  told
		writes string
		told   string
	}{
		"nothing new is not written": {
			do:   func(w *world) { w.rounds(20) },
			node: told{"True", "Healthy", "3 GPUs"}, engine: healthy, other: healthy,
		},
		"a sign of life is written every five minutes": {
			do:   func(w *world) { w.rounds(61) },
			node: told{"True", "Healthy", "3 GPUs"}, engine: healthy, other: healthy, writes: "node",
		},
		"a sick GPU is said of its Pod and of the Node": {
			do:     func(w *world) { w.reading.Devices[1].Health.Recovery = new(gpu.RecoveryReset); w.rounds(9) },
			node:   told{"False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset"},
			engine: told{"False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset"}, other: healthy,
			writes: "engine node", told: "Warning GPUUnhealthy",
		},
		"a sick GPU is said of the Pod that has a part of it": {
			do:    func(w *world) { w.reading.Devices[2].Health.RemapFailed = new(true); w.rounds(9) },
			node:  told{"False", "RowRemapFailed", "GPU 2 (GPU-2): a row of memory could not be replaced"},
			other: told{"False", "RowRemapFailed", "GPU 2 (GPU-2): a row of memory could not be replaced"}, engine: healthy,
			writes: "other node", told: "Warning GPUUnhealthy",
		},
		"a GPU that came back is said": {
			do: func(w *world) {
				w.reading.Devices[1].Health.Recovery = new(gpu.RecoveryReset)
				w.rounds(1)
				w.writes, w.told = nil, nil
				w.reading.Devices[1].Health.Recovery = new(gpu.RecoveryNone)
				w.rounds(9)
			},
			node: told{"True", "Healthy", "3 GPUs"}, engine: healthy, other: healthy, writes: "engine node", told: "Normal GPUHealthy",
		},
		"a release that is for a sick GPU is said": {
			do: func(w *world) {
				w.reading.Devices[1].Health.Recovery = new(gpu.RecoveryReset)
				w.rounds(1)
				w.writes, w.told = nil, nil
				w.reading = gpu.Reading{State: gpu.Released, Message: "until 03:10"}
				w.rounds(20)
			},
			node:   told{"False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset; the driver is released until 03:10"},
			engine: told{"False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset"},
			other:  told{"Unknown", "DriverReleased", "GPU 2 (GPU-2): the driver is released until 03:10"}, writes: "other node",
		},
		"an XID is not forgiven because the probe died": {
			do: func(w *world) {
				w.xid("GPU-0", 79)
				w.reading = gpu.Reading{State: gpu.Unknown, Message: "killed"}
				w.rounds(9)
			},
			node:   told{"False", "FatalXID", "GPU 0 (GPU-0): XID 79, which asks for a reboot"},
			engine: told{"False", "FatalXID", "GPU 0 (GPU-0): XID 79, which asks for a reboot"},
			other:  told{"Unknown", "NotReadable", "GPU 2 (GPU-2): killed"}, writes: "engine other node", told: "Warning GPUUnhealthy",
		},
		"the end of an engine in an update is expected": {
			do: func(w *world) {
				mark := v1alpha1.PatchMark{Token: "u/1", At: w.clock.Now(), StopTimeout: time.Second}
				w.pods[0].Annotations = map[string]string{v1alpha1.PatchedAt: mark.String()}
				w.xid("GPU-0", 31)
				w.xid("GPU-1", 43)
				w.rounds(9)
			},
			node: told{"True", "Healthy", "3 GPUs"}, engine: healthy, other: healthy,
		},
		"GPUs of a Pod that are not known twice are unknown": {
			do:   func(w *world) { w.assigned = map[types.UID][]string{"other": {"MIG-2"}}; w.rounds(9) },
			node: told{"True", "Healthy", "3 GPUs"}, engine: told{"Unknown", "AssignmentUnknown", ""}, other: healthy, writes: "engine",
		},
		"GPUs of a Pod that are not known once are not": {
			do: func(w *world) {
				known := w.assigned
				w.assigned = nil
				w.rounds(1)
				w.assigned = known
				w.rounds(1)
			},
			node: told{"True", "Healthy", "3 GPUs"}, engine: healthy, other: healthy,
		},
		"a GPU of a Pod that is not on the node is unknown": {
			do:   func(w *world) { w.assigned["engine"] = []string{"GPU-9"}; w.rounds(9) },
			node: told{"True", "Healthy", "3 GPUs"}, engine: told{"Unknown", "NotReadable", "GPU-9: is not among the GPUs of the node"}, other: healthy, writes: "engine",
		},
		"what cannot be written is written later": {
			do: func(w *world) {
				w.broken = true
				w.reading.Devices[1].Health.Recovery = new(gpu.RecoveryReset)
				w.rounds(9)
				w.broken = false
				w.rounds(5)
			},
			node:   told{"False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset"},
			engine: told{"False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset"}, other: healthy,
			writes: "engine node", told: "Warning GPUUnhealthy",
		},
		"a new agent says nothing until it knows": {
			do: func(w *world) {
				w.start(Config{Reader: w, Assigner: w})
				w.rounds(2)
			},
			node: told{"True", "Healthy", "3 GPUs"}, engine: healthy, other: healthy,
		},
		"a new agent that cannot look forgives nothing": {
			do: func(w *world) {
				w.reading.Devices[1].Health.Recovery = new(gpu.RecoveryReset)
				w.rounds(1)
				w.writes, w.told = nil, nil
				w.start(Config{Reader: w, Assigner: w})
				w.offersGPUs()
				w.reading = gpu.Reading{State: gpu.Unknown, Message: "no probe"}
				w.rounds(20)
			},
			node:   told{"False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset"},
			engine: told{"False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset"},
			other:  told{"Unknown", "NotReadable", "no probe"}, writes: "other",
		},
		"a driver that reports nothing is said": {
			do:   func(w *world) { w.reading.Unmonitored = true; w.rounds(20) },
			node: told{"True", "Healthy", "3 GPUs; errors that the driver reports are not heard"}, engine: healthy, other: healthy, writes: "node",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.judged()
			tt.do(w)
			if diff := cmp.Diff([]told{tt.node, tt.engine, tt.other}, []told{w.ofNode(), w.ofPod(0), w.ofPod(1)}); diff != "" {
				t.Errorf("said of the Node and the Pods (-want +got):\n%s", diff)
			}
			if got := strings.Join(w.writes, " "); got != tt.writes {
				t.Errorf("wrote %q, want %q", got, tt.writes)
			}
			if got := strings.Join(w.told, "\n"); !strings.Contains(got, tt.told) || tt.told == "" && got != "" {
				t.Errorf("told %q, want %q", got, tt.told)
			}
		})
	}
}

func TestTheStatusAloneMovesTheTransition(t *testing.T) {
	w := newWorld(t)
	w.judged()
	since := func() []metav1.Time {
		return []metav1.Time{w.node.Status.Conditions[0].LastTransitionTime, podCondition(w.pods[0]).LastTransitionTime}
	}
	before := since()
	w.reading.Devices[0].Health.RemapPending = new(true) // another message
	w.rounds(70)
	if diff := cmp.Diff(before, since()); diff != "" {
		t.Errorf("another message moved it (-before +after):\n%s", diff)
	}
	if beat := w.node.Status.Conditions[0].LastHeartbeatTime; !beat.After(before[0].Time) {
		t.Errorf("the last sign of life is of %s", beat)
	}
	w.reading.Devices[0].Lost = true
	w.rounds(1)
	for i, at := range since() {
		if !at.After(before[i].Time) {
			t.Errorf("another status did not move it: %s", at)
		}
	}
}

func TestALostGPUHoldsItsPod(t *testing.T) {
	w := newWorld(t)
	w.judged()
	w.reading.Devices[1] = gpu.Device{Index: 1, UUID: "GPU-1", Lost: true}
	w.rounds(1)
	if !w.held(0) || w.held(1) {
		t.Fatalf("held: %t %t", w.held(0), w.held(1))
	}
	if got := w.pods[0].Annotations[v1alpha1.HoldDevice]; got != "lost GPU-1" || w.ofPod(0).Reason != "DeviceLost" {
		t.Errorf("held for %q, %+v", got, w.ofPod(0))
	}
	if sick := w.monitor.Sick(w.pods[0], nil); !strings.Contains(sick, "DeviceLost") || w.monitor.Sick(w.pods[1], nil) != "" {
		t.Errorf("sick: %q", sick)
	}
	unknown := pod("new")
	if why := w.monitor.Sick(unknown, []string{"GPU-0", "GPU-1"}); !strings.Contains(why, "DeviceLost") {
		t.Errorf("sick: %q", why)
	}
	if why := w.monitor.Sick(unknown, []string{"GPU-0", "MIG-2", "GPU-9"}); why != "" {
		t.Errorf("sick: %q", why)
	}
	found := w.reading
	for what, r := range map[string]gpu.Reading{
		"a dead probe":    {State: gpu.Unknown},
		"a release":       {State: gpu.Released},
		"no library":      {State: gpu.Absent},
		"an empty driver": {State: gpu.Up},
	} {
		w.reading = r
		w.rounds(20)
		if !w.held(0) {
			t.Fatalf("let go by %s", what)
		}
	}
	w.reading = found
	w.start(Config{Reader: w, Assigner: w})
	w.reading.Devices[1] = gpu.Device{Index: 1, UUID: "GPU-1", Fault: "busy"}
	w.rounds(9)
	if !w.held(0) || w.monitor.Sick(w.pods[0], nil) == "" {
		t.Fatal("let go by a new agent that knows nothing")
	}
	w.assigned = nil
	w.reading.Devices[1] = device(1)
	w.rounds(9)
	if !w.held(0) {
		t.Fatal("let go though the GPUs of the Pod are not known")
	}
	w.assigned = map[types.UID][]string{"engine": {"GPU-0", "GPU-1"}}
	w.rounds(9)
	if w.held(0) || w.ofPod(0).Status != "True" || w.monitor.Sick(w.pods[0], nil) != "" {
		t.Errorf("still held, %+v", w.ofPod(0))
	}
}

func TestASickGPUHoldsNobody(t *testing.T) {
	w := newWorld(t)
	w.judged()
	w.xid("GPU-0", 79)
	w.reading.Devices[1].Health.Recovery = new(gpu.RecoverySystemReboot)
	w.rounds(9)
	if w.held(0) {
		t.Error("the agent holds the Pod by itself")
	}
}

func TestPodsThatAreNotOursAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"no gate":    func(p *corev1.Pod) { p.Spec.ReadinessGates = nil },
		"going":      func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) },
		"failed":     func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"no GPU":     func(p *corev1.Pod) { p.UID = "cpu" },
		"ended well": func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w.pods[0])
			w.rounds(3)
			w.reading.Devices[0].Lost = true
			w.rounds(3)
			if w.ofPod(0) != (told{}) || w.held(0) {
				t.Errorf("wrote %+v", w.ofPod(0))
			}
		})
	}
}

func TestTheDriverIsReleasedOnRequest(t *testing.T) {
	w := newWorld(t)
	w.judged()
	until := w.clock.Now().Add(10 * time.Minute)
	w.node.Annotations = map[string]string{v1alpha1.AnnotationGPURelease: until.Format(time.RFC3339)}
	w.rounds(10)
	if diff := cmp.Diff([]time.Time{until}, w.releases); diff != "" {
		t.Fatalf("released (-want +got):\n%s", diff)
	}
	w.reading = gpu.Reading{State: gpu.Released, Message: "until 03:10"}
	w.rounds(2)
	if diff := cmp.Diff(told{"Unknown", "DriverReleased", "the driver is released until 03:10"}, w.ofNode()); diff != "" {
		t.Errorf("the Node says (-want +got):\n%s", diff)
	}
	delete(w.node.Annotations, v1alpha1.AnnotationGPURelease)
	w.rounds(10)
	if len(w.releases) != 2 || !w.releases[1].IsZero() {
		t.Errorf("released %v", w.releases)
	}
	w.node.Annotations = map[string]string{v1alpha1.AnnotationGPURelease: "tomorrow"}
	w.reading = gpu.Reading{State: gpu.Up, Devices: []gpu.Device{device(0)}}
	w.rounds(20)
	if got := w.ofNode(); !strings.Contains(got.Message, `ignored pitstop.dev/gpu-release-until: "tomorrow" is not a time`) || got.Status != "True" {
		t.Errorf("the Node says %+v", got)
	}
	if n := len(w.told); n != 3 || !strings.HasPrefix(w.told[2], "Node gpu-0: Warning GPUDriverRelease: ignored") || len(w.releases) != 2 {
		t.Errorf("told %q, released %v", w.told, w.releases)
	}
}

func TestARequestForReleaseIsJudged(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	in := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	for name, tt := range map[string]struct {
		before  Release
		value   string
		until   time.Duration
		ignored string
	}{
		"none":                        {},
		"ten minutes":                 {value: in(10 * time.Minute), until: 10 * time.Minute},
		"an hour":                     {value: in(time.Hour), until: time.Hour},
		"an hour by another clock":    {value: in(time.Hour + 20*time.Second), until: time.Hour + 20*time.Second},
		"more than an hour":           {value: in(61 * time.Minute), ignored: "is more than 1h0m0s ahead"},
		"a past time":                 {value: in(-time.Second), ignored: "is past"},
		"garbage":                     {value: "soon", ignored: "is not a time as RFC 3339"},
		"a number":                    {value: "600", ignored: "is not a time as RFC 3339"},
		"one that was followed":       {before: Release{Value: in(-time.Second), Until: now.Add(-time.Second)}, value: in(-time.Second)},
		"one that was too far before": {before: Release{Value: in(time.Minute), Ignored: "is more than 1h0m0s ahead"}, value: in(time.Minute), ignored: "is more than 1h0m0s ahead"},
		"a new one after a bad one":   {before: Release{Value: "x", Ignored: "y"}, value: in(time.Minute), until: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			want := Release{Value: tt.value, Ignored: tt.ignored}
			if tt.until > 0 {
				want.Until = now.Add(tt.until)
			}
			if diff := cmp.Diff(want, tt.before.decide(tt.value, now)); diff != "" {
				t.Errorf("decide() (-want +got):\n%s", diff)
			}
		})
	}
}
