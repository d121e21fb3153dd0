package contract

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pitstop.dev/cri"
)

func fed(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "fed:v1", Content: "fed"})
	f := RunFeed(b.t, b.client)
	// A stream says nothing when it is open: make events until one arrives.
	p := b.kubelet.runPod(t)
	n := 0
	b.eventually("a start is fed", func() bool {
		b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID, attempt: n})
		n++
		return fedWithin(t, f, p.uid, 500*time.Millisecond)
	})
	c := b.app(p)
	f.Take()
	if err := b.client.Stop(t.Context(), c.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if !fedWithin(t, f, p.uid, 5*time.Second) {
		t.Error("the exit was not fed within 5 s")
	}
}

func restart(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "restart:v1", Content: "restart"})
	p := b.kubelet.runPod(t)
	id := b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID})
	f := RunFeed(b.t, b.client)
	b.Down(t)
	for name, call := range map[string]func(context.Context) error{
		"Version":     func(ctx context.Context) error { _, err := b.client.Version(ctx); return err },
		"Pull":        func(ctx context.Context) error { return b.client.Pull(ctx, ref, func(cri.Progress) {}) },
		"Image":       func(ctx context.Context) error { _, err := b.client.Image(ctx, ref); return err },
		"RemoveImage": func(ctx context.Context) error { return b.client.RemoveImage(ctx, ref) },
		"ImageFS":     func(ctx context.Context) error { _, err := b.client.ImageFS(ctx); return err },
		"Pod":         func(ctx context.Context) error { _, err := b.client.Pod(ctx, p.uid); return err },
		"Stop":        func(ctx context.Context) error { return b.client.Stop(ctx, id, 0) },
	} {
		if err := call(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("%s while the runtime is down: %v", name, err)
		}
	}
	b.Up(t)
	b.eventually("the runtime answers again", func() bool {
		_, err := b.client.Version(t.Context())
		if err != nil {
			want(t, err, cri.ErrUnavailable)
		}
		return err == nil
	})
	if c := b.app(p); c.ID != id || c.State != cri.Running || c.ImageID != image.ID {
		t.Errorf("the container after the restart: %+v", c)
	}
	n := 1
	b.eventually("a start is fed after the restart", func() bool {
		b.kubelet.start(t, p, start{name: "app", ref: ref, image: image.ID, attempt: n})
		n++
		return fedWithin(t, f, p.uid, 500*time.Millisecond)
	})
}

// RunFeed runs a Feed of the client until the test ends.
func RunFeed(t *testing.T, c *cri.Client) *cri.Feed {
	t.Helper()
	f := c.NewFeed()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

// fedWithin says whether the feed names the Pod in time, by an event and not by a relist.
func fedWithin(t *testing.T, f *cri.Feed, uid string, d time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-f.Ready():
			if slices.Contains(f.Take().Pods, uid) {
				return true
			}
		}
	}
}

// eventually tries until ok, with a deadline.
func (b *bench) eventually(what string, ok func() bool) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			b.t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
