// Package contract is the one test that every runtime must pass with package cri: the fake
// one, and the real one of the lab.
package contract

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/clock"

	"pitstop.dev/cri"
)

// A Subject is a runtime under test with the registry that it pulls from. The suite owns it
// until the test ends.
type Subject interface {
	// Endpoint returns where the runtime listens.
	Endpoint() string
	// Config returns the client's configuration, with the host's file system visible.
	Config() cri.Config
	// Publish puts an image at the registry and returns its reference.
	Publish(t *testing.T, i Image) string
	// RegistryDown makes the registry refuse connections until RegistryUp.
	RegistryDown(t *testing.T)
	// RegistryUp ends RegistryDown.
	RegistryUp(t *testing.T)
	// Down ends the runtime's process, and Up starts it again. Containers live on.
	Down(t *testing.T)
	// Up ends Down.
	Up(t *testing.T)
}

// A Platform says for which machines an image is.
type Platform string

// Platforms of a published image.
const (
	Here    Platform = ""        // this machine
	Foreign Platform = "Foreign" // a single manifest for linux/s390x, which runtimes accept
	Nowhere Platform = "Nowhere" // an index that has linux/s390x only
)

// An Image is what a test wants at the registry: a program that sleeps until its stop signal
// and then exits with 0.
type Image struct {
	// Name is repository and tag, without the registry's address.
	Name string
	// Content tells images apart: equal content is an equal image, whatever the name.
	Content string
	// Platform is Here unless set.
	Platform Platform
	// Private images need credentials.
	Private bool
	// Stubborn programs ignore their stop signal.
	Stubborn bool
}

// limit bounds whatever a test waits for.
const limit = 20 * time.Second

// Run tries the runtime that start makes, once for each case.
func Run(t *testing.T, start func(t *testing.T) Subject) {
	t.Helper()
	for name, test := range map[string]func(*bench){
		"an image is pulled and proved":                    pulled,
		"a tag that is not there":                          notThere,
		"an index without this platform":                   nowhere,
		"a manifest of another platform":                   foreign,
		"a registry that is down, then up":                 registryDown,
		"a private image":                                  private,
		"two tags of one image have one id":                alias,
		"a removed image is gone under every name":         removed,
		"a pull ends with its context":                     pullCancelled,
		"the containers of a Pod":                          containers,
		"a Pod that the runtime does not know":             unknownPod,
		"a stop is idempotent":                             stopTwice,
		"a stubborn container is killed when grace ends":   stubborn,
		"a stop that is given up kills nothing":            stopGivenUp,
		"a change is fed before the next relist":           fed,
		"calls say that the runtime is down, and it heals": restart,
		"the image file system":                            space,
	} {
		t.Run(name, func(t *testing.T) { test(newBench(t, start(t))) })
	}
}

// A bench is what every case works with.
type bench struct {
	Subject
	t       *testing.T
	clock   clock.Clock
	client  *cri.Client
	kubelet *kubelet
}

func newBench(t *testing.T, s Subject) *bench {
	t.Helper()
	client, err := cri.Dial(s.Endpoint(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{Subject: s, t: t, clock: clock.RealClock{}, client: client, kubelet: newKubelet(t, s.Endpoint())}
}

// pull publishes an image and brings it to the node.
func (b *bench) pull(i Image) (ref string, image cri.Image) {
	t := b.t
	t.Helper()
	ref = b.Publish(t, i)
	if err := b.client.Pull(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	image, err := b.client.Image(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return ref, image
}

// app returns the newest record of the container app.
func (b *bench) app(p pod) cri.Container {
	b.t.Helper()
	got, err := b.client.Pod(b.t.Context(), p.uid)
	if err != nil {
		b.t.Fatal(err)
	}
	c, ok := got.Newest("app")
	if !ok {
		b.t.Fatalf("pod %s has no container app: %+v", p.uid, got)
	}
	return c
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

func pulled(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "pulled:v1", Content: "pulled"})
	if image.OS != "linux" || image.Architecture != runtime.GOARCH || image.ID == "" || image.Size == 0 ||
		!slices.Contains(image.RepoTags, ref) || len(image.RepoDigests) == 0 {
		t.Errorf("image of %s: %+v", ref, image)
	}
	if err := b.client.Pull(t.Context(), ref, func(cri.Progress) {}); err != nil {
		t.Errorf("second pull: %v", err)
	}
	again, err := b.client.Image(t.Context(), image.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(image, again); diff != "" {
		t.Errorf("by id (-by reference +by id):\n%s", diff)
	}
}

func notThere(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "there:v1", Content: "there"})
	want(t, b.client.Pull(t.Context(), ref+"-typo", nil), cri.ErrImageNotFound)
	want(t, b.client.Pull(t.Context(), ref[:len(ref)-len("there:v1")]+"unauthorized/not-there:v1", nil), cri.ErrImageNotFound)
	_, err := b.client.Image(t.Context(), ref)
	want(t, err, cri.ErrImageNotFound)
}

func nowhere(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "nowhere:v1", Content: "nowhere", Platform: Nowhere})
	want(t, b.client.Pull(t.Context(), ref, nil), cri.ErrWrongPlatform)
}

func foreign(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "foreign:v1", Content: "foreign", Platform: Foreign})
	want(t, image.Check(runtime.GOARCH), cri.ErrWrongPlatform)
	if image.OS != "linux" || image.Architecture != "s390x" {
		t.Errorf("platform of %s: %s/%s", ref, image.OS, image.Architecture)
	}
	_, own := b.pull(Image{Name: "foreign:v2", Content: "own"})
	if err := own.Check(runtime.GOARCH); err != nil {
		t.Error(err)
	}
}

func registryDown(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "down:v1", Content: "down"})
	b.RegistryDown(t)
	want(t, b.client.Pull(t.Context(), ref, nil), cri.ErrRegistryUnreachable)
	b.RegistryUp(t)
	if err := b.client.Pull(t.Context(), ref, nil); err != nil {
		t.Errorf("pull with the registry up again: %v", err)
	}
}

func private(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "private:v1", Content: "private", Private: true})
	want(t, b.client.Pull(t.Context(), ref, nil), cri.ErrUnauthorized)
}

func alias(b *bench) {
	t := b.t
	one, first := b.pull(Image{Name: "alias:v1", Content: "same"})
	two, second := b.pull(Image{Name: "alias:v1-alias", Content: "same"})
	_, third := b.pull(Image{Name: "alias:v2", Content: "another"})
	if first.ID != second.ID || first.ID == third.ID {
		t.Errorf("ids %s, %s (alias), %s (another)", first.ID, second.ID, third.ID)
	}
	if !slices.Contains(second.RepoTags, one) || !slices.Contains(second.RepoTags, two) {
		t.Errorf("tags %v, want %s and %s", second.RepoTags, one, two)
	}
}

func removed(b *bench) {
	t := b.t
	one, _ := b.pull(Image{Name: "removed:v1", Content: "removed"})
	two, _ := b.pull(Image{Name: "removed:v1-alias", Content: "removed"})
	for range 2 {
		if err := b.client.RemoveImage(t.Context(), two); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []string{one, two} {
		_, err := b.client.Image(t.Context(), ref)
		want(t, err, cri.ErrImageNotFound)
	}
}

func pullCancelled(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "cancelled:v1", Content: "cancelled"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, b.client.Pull(ctx, ref, func(cri.Progress) {}), context.Canceled)
}

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

// feed runs a Feed until the test ends.
func (b *bench) feed() *cri.Feed {
	t := b.t
	t.Helper()
	f := b.client.NewFeed()
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

func fed(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "fed:v1", Content: "fed"})
	f := b.feed()
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
	f := b.feed()
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

func space(b *bench) {
	t := b.t
	fs, err := b.client.ImageFS(t.Context())
	if err != nil || fs.Mountpoint == "" {
		t.Errorf("ImageFS() = %+v, %v", fs, err)
	}
	if free, err := b.client.FreeBytes(t.Context()); err != nil || free == 0 {
		t.Errorf("FreeBytes() = %d, %v", free, err)
	}
}
