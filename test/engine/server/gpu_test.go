package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/test/engine/server"
	"pitstop.dev/test/gpu/claim"
)

// gpus answers claims with err and passes them on.
type gpus struct {
	err error
	got chan claim.Request
}

func (g gpus) Claim(_ context.Context, _ int32, r claim.Request) error {
	g.got <- r
	return g.err
}

// withGPUs is an engine's configuration with two GPUs that answer so.
func withGPUs(t *testing.T, err error) (server.Config, chan claim.Request) {
	t.Helper()
	dir, failed := os.MkdirTemp("", "claim") //nolint:usetesting // a socket's path has 108 bytes at most
	if failed != nil {
		t.Fatal(failed)
	}
	g := gpus{err: err, got: make(chan claim.Request, 1)}
	s, failed := claim.Serve(t.Context(), filepath.Join(dir, "s"), g)
	if failed != nil {
		t.Fatal(failed)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	c := config()
	c.GPUs, c.GPUMiB, c.GPURelease, c.GPUSocket = []string{"GPU-a", "GPU-b"}, 7, time.Second, filepath.Join(dir, "s")
	return c, g.got
}

func TestAnEngineTakesMemoryOfItsGPUs(t *testing.T) {
	c, got := withGPUs(t, nil)
	url, _ := worker(t, c)
	healthy(t, url)
	if diff := cmp.Diff(claim.Request{GPUs: []string{"GPU-a", "GPU-b"}, MiB: 7, Release: time.Second}, <-got); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
}

func TestAnEngineEndsWithoutMemory(t *testing.T) {
	c, _ := withGPUs(t, claim.ErrOutOfMemory)
	_, ended := worker(t, c)
	select {
	case err := <-ended:
		if !errors.Is(err, claim.ErrOutOfMemory) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the engine goes on")
	}
}
