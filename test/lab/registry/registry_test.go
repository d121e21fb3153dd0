package registry

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"pitstop.dev/test/lab/await"
)

// serve runs a registry until the test ends.
func serve(t *testing.T) *Control {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := NewControl(address, filepath.Join(dir, "control.sock"))
	s := New(Config{Address: address, Socket: filepath.Join(dir, "control.sock"), Blobs: filepath.Join(dir, "blobs"), Log: io.Discard})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	err = await.Until(t.Context(), "registry", 5*time.Second, func(ctx context.Context) error {
		_, err := c.Settings(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func image(t *testing.T, size int64) v1.Image {
	t.Helper()
	img, err := random.Image(size, 1)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// fetch reads all of an image.
func fetch(t *testing.T, ref string, options ...remote.Option) error {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(parsed, append(options, remote.WithContext(t.Context()), remote.WithRetryBackoff(remote.Backoff{Steps: 1}))...)
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		r, err := l.Compressed()
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
	}
	return nil
}

func TestStoppedRegistryKeepsItsImages(t *testing.T) {
	c := serve(t)
	ctx := t.Context()
	if err := c.Push(ctx, "a:v1", image(t, 1000)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // twice is the same as once
		if err := c.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := fetch(t, c.Ref("a:v1")); err == nil {
		t.Error("a stopped registry serves")
	}
	if err := errors.Join(c.Start(ctx), c.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := fetch(t, c.Ref("a:v1")); err != nil {
		t.Error(err)
	}
}

func TestThrottleHoldsForAllConnectionsTogether(t *testing.T) {
	c := serve(t)
	ctx := t.Context()
	if err := c.Push(ctx, "a:v1", image(t, 200_000)); err != nil {
		t.Fatal(err)
	}
	timed := func() time.Duration {
		begin := time.Now()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := fetch(t, c.Ref("a:v1")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return time.Since(begin)
	}
	if err := c.Throttle(ctx, 400_000); err != nil {
		t.Fatal(err)
	}
	if took := timed(); took < 700*time.Millisecond { // at least 400 kB, of which a burst of 16 KiB is free
		t.Errorf("two times 200 kB at 400 kB/s took %s", took)
	}
	if err := c.Throttle(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if took := timed(); took > 600*time.Millisecond {
		t.Errorf("without a limit it took %s", took)
	}
}

func TestLogin(t *testing.T) {
	c := serve(t)
	ctx := t.Context()
	auth := authn.Basic{Username: "u", Password: "p"}
	if err := errors.Join(c.Login(ctx, auth), c.Push(ctx, "a:v1", image(t, 1000))); err != nil {
		t.Fatal(err)
	}
	if err := fetch(t, c.Ref("a:v1")); err == nil {
		t.Error("served without credentials")
	}
	if err := fetch(t, c.Ref("a:v1"), remote.WithAuth(&authn.Basic{Username: "u", Password: "x"})); err == nil {
		t.Error("served with a wrong password")
	}
	if err := fetch(t, c.Ref("a:v1"), remote.WithAuth(&auth)); err != nil {
		t.Error(err)
	}
	if err := c.Logout(ctx); err != nil {
		t.Fatal(err)
	}
	if err := fetch(t, c.Ref("a:v1")); err != nil {
		t.Error(err)
	}
}

func TestPushTakesAFullReference(t *testing.T) {
	c := serve(t)
	if err := c.Push(t.Context(), c.Ref("a:v1"), image(t, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := fetch(t, c.Ref("a:v1")); err != nil {
		t.Error(err)
	}
}
