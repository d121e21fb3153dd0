package contract

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pitstop.dev/cri"
)

func containers(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "containers:v1", Content: "containers"})
	p := b.kubelet.runPod(t)
	first := b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID})
	peer := b.kubelet.start(t, p, start{name: "peer", ref: ref, image: image.ID})
	if err := b.client.Stop(t.Context(), first, time.Second); err != nil {
		t.Fatal(err)
	}
	second := b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID, attempt: 1})
	third := b.kubelet.create(t, p, start{name: "created", ref: ref, image: image.ID})

	got, err := b.client.Pod(t.Context(), p.uid)
	if err != nil {
		t.Fatal(err)
	}
	container := func(id, name string, n int, s cri.State, reason string) cri.Container {
		return cri.Container{
			ID: id, Name: name, SandboxID: p.sandbox, State: s, RestartCount: n, Reason: reason,
			Hash: cri.KubeletHash(name, ref), Image: image.ID, UserImage: ref, ImageID: image.ID,
		}
	}
	wanted := cri.Pod{
		Sandboxes: []cri.Sandbox{{ID: p.sandbox, Ready: true}},
		Containers: []cri.Container{
			container(second, "app", 1, cri.Running, ""),
			container(first, "app", 0, cri.Exited, "Completed"),
			container(third, "created", 0, cri.Created, ""),
			container(peer, "peer", 0, cri.Running, ""),
		},
	}
	if diff := cmp.Diff(wanted, got,
		cmpopts.IgnoreFields(cri.Sandbox{}, "CreatedAt"),
		cmpopts.IgnoreFields(cri.Container{}, "CreatedAt", "StartedAt", "FinishedAt")); diff != "" {
		t.Errorf("Pod() (-want +got):\n%s", diff)
	}
	for _, c := range got.Containers {
		if c.CreatedAt.IsZero() || c.StartedAt.IsZero() != (c.State == cri.Created) || c.FinishedAt.IsZero() != (c.State != cri.Exited) ||
			c.State == cri.Exited && c.FinishedAt.Before(c.StartedAt) {
			t.Errorf("times of container %s, %s: %v, %v, %v", c.Name, c.State, c.CreatedAt, c.StartedAt, c.FinishedAt)
		}
	}
}

func unknownPod(b *bench) {
	t := b.t
	got, err := b.client.Pod(t.Context(), "no-such-pod")
	if diff := cmp.Diff(cri.Pod{}, got); diff != "" || err != nil {
		t.Errorf("error %v, pod (-want +got):\n%s", err, diff)
	}
}

func firstProcess(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "process:v1", Content: "process"})
	p := b.kubelet.runPod(t)
	id := b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID})
	wanted := cri.Process{ContainerID: id, PodUID: p.uid, Container: "app", State: cri.Running, PID: b.FirstProcess(t, id)}
	got, err := b.client.Process(t.Context(), id)
	if diff := cmp.Diff(wanted, got); diff != "" || err != nil || got.PID <= 0 {
		t.Errorf("running: error %v, process (-want +got):\n%s", err, diff)
	}
	if err := b.client.Stop(t.Context(), id, limit); err != nil {
		t.Fatal(err)
	}
	wanted.State, wanted.PID = cri.Exited, 0
	got, err = b.client.Process(t.Context(), id)
	if diff := cmp.Diff(wanted, got); diff != "" || err != nil {
		t.Errorf("exited: error %v, process (-want +got):\n%s", err, diff)
	}
	b.kubelet.remove(t, id)
	_, err = b.client.Process(t.Context(), id)
	want(t, err, cri.ErrContainerNotFound)
}

func stopTwice(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "stop:v1", Content: "stop"})
	p := b.kubelet.runPod(t)
	id := b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID})
	for range 2 {
		if err := b.client.Stop(t.Context(), id, limit); err != nil {
			t.Error(err)
		}
	}
	if c := b.app(p); c.State != cri.Exited || c.ExitCode != 0 {
		t.Errorf("%s with exit code %d, want Exited with 0", c.State, c.ExitCode)
	}
	b.kubelet.remove(t, id)
	if err := b.client.Stop(t.Context(), id, limit); err != nil {
		t.Errorf("stop of a removed container: %v", err)
	}
}

func stubborn(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "stubborn:v1", Content: "stubborn", Stubborn: true})
	p := b.kubelet.runPod(t)
	id := b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID})
	begin := b.clock.Now()
	if err := b.client.Stop(t.Context(), id, 900*time.Millisecond); err != nil {
		t.Error(err)
	}
	if took := b.clock.Since(begin); took < 900*time.Millisecond || took > 4*time.Second {
		t.Errorf("the stop took %s, want 0.9 to 4 s", took)
	}
	if c := b.app(p); c.State != cri.Exited || c.ExitCode != 137 {
		t.Errorf("%s with exit code %d, want Exited with 137", c.State, c.ExitCode)
	}
}

func stopGivenUp(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "given-up:v1", Content: "given up", Stubborn: true})
	p := b.kubelet.runPod(t)
	id := b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID})
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	want(t, b.client.Stop(short, id, limit), cri.ErrStopTimeout)
	if c := b.app(p); c.State != cri.Running {
		t.Errorf("%s after a stop that was given up, want Running", c.State)
	}
	// The signal is not sent twice, and grace counts anew.
	if err := b.client.Stop(t.Context(), id, time.Second); err != nil {
		t.Error(err)
	}
	if c := b.app(p); c.State != cri.Exited {
		t.Errorf("%s after the second stop, want Exited", c.State)
	}
}
