package health

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/probe"
	"pitstop.dev/test/gpu/stub"
)

// patience bounds a wait for what the real probe does by itself.
const patience = 60 * time.Second

// withProbe has the real probe read a stub of NVIDIA's library, and returns the state that this has.
func withProbe(t *testing.T, w *world) stub.File {
	t.Helper()
	dir := t.TempDir()
	library, err := stub.Library(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	path, err := stub.Probe(t.Context(), filepath.Join("..", ".."), dir)
	if err != nil {
		t.Fatal(err)
	}
	file := stub.File{Path: filepath.Join(dir, stub.FileName)}
	set(t, file, func(s *stub.State) {
		*s = stub.State{Driver: "570.86.15", GPUs: []stub.GPU{
			{UUID: "GPU-0", Name: "Stub", Total: 81559, Links: 2}, {UUID: "GPU-1", Minor: 1, Name: "Stub", Total: 81559, Links: 2},
		}}
	})
	client := probe.New(probe.Config{
		Path: path, Args: []string{"--library=" + library}, Env: []string{stub.Env + "=" + file.Path},
		MinPause: 20 * time.Millisecond, MaxPause: 50 * time.Millisecond,
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { client.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	w.assigned = map[types.UID][]string{"engine": {"GPU-0"}, "other": {"GPU-1"}}
	w.start(Config{Reader: client, Assigner: w, Releaser: client})
	return file
}

func set(t *testing.T, file stub.File, change func(*stub.State)) {
	t.Helper()
	if err := file.Update(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

// until lets rounds go by until the Node says this.
func (w *world) until(status, reason, words string) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		w.rounds(1)
		now := w.ofNode()
		if now.Status == status && now.Reason == reason && strings.Contains(now.Message, words) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the Node never says %s %s %q, but %+v; the reading: %+v", status, reason, words, now, w.monitor.last().reading)
		}
	}
}

// What the driver says reaches Node and Pods through the real probe.
func TestTheRealProbeIsWatched(t *testing.T) {
	w := newWorld(t)
	file := withProbe(t, w)
	w.until("True", "Healthy", "2 GPUs")

	set(t, file, func(s *stub.State) { s.GPUs[1].Recovery = int(gpu.RecoveryReset) })
	w.until("False", "RecoveryRequired", "GPU 1 (GPU-1): needs a reset")
	if w.ofPod(0).Status != "True" || w.ofPod(1).Reason != "RecoveryRequired" {
		t.Errorf("the Pods say %+v, %+v", w.ofPod(0), w.ofPod(1))
	}
	set(t, file, func(s *stub.State) { s.GPUs[1].Recovery = 0 })
	w.until("True", "Healthy", "2 GPUs")

	if err := file.Raise(t.Context(), stub.Event{GPU: "GPU-0", XID: 119}); err != nil {
		t.Fatal(err)
	}
	w.until("False", "FatalXID", "GPU 0 (GPU-0): XID 119, which asks for a reset")
	w.until("True", "Healthy", "2 GPUs") // the driver needs no action

	w.clock.SetTime(time.Now()) // the probe ends a release by the real clock
	until := time.Now().Add(10 * time.Minute)
	w.node.Annotations = map[string]string{v1alpha1.AnnotationGPURelease: until.UTC().Format(time.RFC3339)}
	w.until("Unknown", "DriverReleased", "")
	delete(w.node.Annotations, v1alpha1.AnnotationGPURelease)
	w.until("True", "Healthy", "2 GPUs")

	set(t, file, func(s *stub.State) { s.Faults = []stub.Fault{{Call: "*", GPU: "GPU-0", Code: 15}} })
	w.until("False", "DeviceLost", "GPU 0 (GPU-0): does not answer any more")
	if !w.held(0) || w.held(1) {
		t.Errorf("held: %t %t", w.held(0), w.held(1))
	}
	set(t, file, func(s *stub.State) { s.Faults = nil })
	w.until("True", "Healthy", "2 GPUs")
	if w.held(0) {
		t.Error("still held")
	}

	if err := os.Remove(file.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	w.until("Unknown", "NotReadable", "")
}
