package hardware_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu/probe"
	"pitstop.dev/test/gpu/hardware"
	"pitstop.dev/test/gpu/stub"
)

const holding = "PITSTOP_TEST_HOLDER"

// TestMain is the holder too: it claims memory of the stub, as one on a real machine allocates it.
func TestMain(m *testing.M) {
	path := os.Getenv(holding)
	if path == "" {
		os.Exit(m.Run())
	}
	p, err := stub.Identify(os.Getpid())
	p.GPU, p.MiB, p.Release = "GPU-b", 3000, 200
	if err := errors.Join(err, stub.File{Path: path}.Add(context.Background(), p)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("holding")
	select {}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := stub.File{Path: filepath.Join(dir, stub.FileName)}
	if err := file.Update(t.Context(), func(s *stub.State) {
		s.Driver = "570.86.15"
		s.GPUs = []stub.GPU{{UUID: "GPU-a", Total: 80000}, {UUID: "GPU-b", Name: "Stub", Total: 80000, Reserved: 600, Used: 80}}
	}); err != nil {
		t.Fatal(err)
	}
	library, err := stub.Library(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	path, err := stub.Probe(t.Context(), filepath.Join("..", "..", ".."), dir)
	if err != nil {
		t.Fatal(err)
	}
	client := probe.New(probe.Config{Path: path, Args: []string{"--library=" + library}})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { client.Run(ctx) })
	defer running.Wait()
	defer stop()
	t.Setenv(holding, file.Path)
	var log strings.Builder
	got, err := hardware.Run(t.Context(), hardware.Config{
		Reader: client, Release: client.Release, Holder: []string{os.Args[0]}, Index: 1, MiB: 3000, Clock: clock.RealClock{}, Log: &log,
	})
	if err != nil || !got.OK {
		t.Fatalf("%v: %+v\n%s", err, got, log.String())
	}
	if got.BaselineMiB != 80 || got.HeldMiB != 3000 || got.ListedMiB != 3000 || !got.PIDListed || got.PIDGoneMS < 200 ||
		got.MemoryFreeMS < got.PIDGoneMS || got.Recovery != 0 || got.LetGoMS < 0 || got.ReacquiredMS < 0 || got.GPUs != 2 {
		t.Errorf("result %+v\n%s", got, log.String())
	}
	if _, err := hardware.Run(t.Context(), hardware.Config{Reader: client, Index: 2, Clock: clock.RealClock{}, Log: &log}); err == nil {
		t.Error("a GPU that is not there was checked")
	}
}
