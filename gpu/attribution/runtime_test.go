package attribution_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"pitstop.dev/cri"
	"pitstop.dev/cri/fake"
	"pitstop.dev/gpu/attribution"
)

func TestCRI(t *testing.T) {
	r := fake.Start(t, clock.RealClock{})
	r.Publish("registry.test/app:v1", fake.Image{})
	if err := r.EnsureImage("registry.test/app:v1"); err != nil {
		t.Fatal(err)
	}
	r.RunPod(fake.Pod{UID: podUID, Namespace: "ns", Name: "pod"})
	id, err := r.StartContainer(fake.Container{PodUID: podUID, Name: "engine", Image: "registry.test/app:v1"})
	if err != nil {
		t.Fatal(err)
	}
	r.SetPID(id, 10)
	client, err := cri.Dial(r.Endpoint(), cri.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	runtime := attribution.CRI{Client: client}
	got, err := runtime.Container(t.Context(), id)
	if diff := cmp.Diff(attribution.Container{PodUID: podUID, Name: "engine", PID: 10}, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if _, err := runtime.Container(t.Context(), "no-such"); !errors.Is(err, attribution.ErrUnknownContainer) {
		t.Errorf("no such container: %v", err)
	}
	r.Close()
	if _, err := runtime.Container(t.Context(), id); err == nil || errors.Is(err, attribution.ErrUnknownContainer) {
		t.Errorf("a runtime that is down: %v, want an error that does not mean unknown", err)
	}
}
