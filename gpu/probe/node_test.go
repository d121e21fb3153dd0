package probe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pitstop.dev/gpu"
	"pitstop.dev/test/gpu/stub"
)

// built is a folder with the real probe and a library that lacks nothing, built once for all scenarios.
var built = sync.OnceValues(func() (dir string, err error) {
	ctx := context.Background()
	if dir, err = os.MkdirTemp("", "pitstop-gpu-probe-"); err != nil {
		return "", err
	}
	atExit = func() { _ = os.RemoveAll(dir) }
	if _, err := stub.Library(ctx, dir); err != nil {
		return "", err
	}
	_, err = stub.Probe(ctx, filepath.Join("..", ".."), dir)
	return dir, err
})

// A node has GPUs of the stub and a client with the real probe.
type node struct {
	*Client
	dir   string
	state stub.File
}

// twoGPUs is a sound node.
func twoGPUs() stub.State {
	return stub.State{Driver: "570.86.15", GPUs: []stub.GPU{
		{UUID: "GPU-a", Minor: 0, PCI: "00000000:17:00.0", Name: "Stub", Total: 81559, Reserved: 615, Links: 2},
		{UUID: "GPU-b", Minor: 1, PCI: "00000000:65:00.0", Name: "Stub", Total: 81559, Reserved: 615, Links: 2},
	}}
}

// quick is for scenarios in which something hangs.
func quick() Config {
	return Config{Timeout: 500 * time.Millisecond, StartTimeout: time.Second, Grace: 200 * time.Millisecond}
}

// runNode starts a client on a node in the given state. The library lacks the named functions.
func runNode(t *testing.T, cfg Config, s stub.State, without ...string) node {
	t.Helper()
	n := idle(t, s)
	n.install(t, without...)
	n.start(t, cfg)
	return n
}

// install puts the library in place.
func (n node) install(t *testing.T, without ...string) {
	t.Helper()
	dir, err := built()
	if err == nil && len(without) > 0 {
		_, err = stub.Library(t.Context(), n.dir, without...)
	} else if err == nil {
		next := filepath.Join(n.dir, "next")
		err = errors.Join(os.Link(filepath.Join(dir, stub.LibraryName), next), os.Rename(next, filepath.Join(n.dir, stub.LibraryName)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// idle is a node without a library and without a client.
func idle(t *testing.T, s stub.State) node {
	t.Helper()
	n := node{dir: t.TempDir()}
	n.state.Path = filepath.Join(n.dir, stub.FileName)
	n.set(t, func(now *stub.State) { *now = s })
	return n
}

func (n *node) start(t *testing.T, cfg Config) {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Path = filepath.Join(dir, "pitstop-gpu-probe")
	cfg.Env = []string{stub.Env + "=" + n.state.Path}
	cfg.Args = append([]string{"--library=" + filepath.Join(n.dir, stub.LibraryName), "--proc=" + n.dir, "--sys=" + n.dir}, cfg.Args...)
	cfg.MinPause, cfg.MaxPause = 20*time.Millisecond, 50*time.Millisecond
	n.Client = New(cfg)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		if pids := n.probes(); len(pids) > 0 {
			t.Errorf("probes %v outlived their client", pids)
		}
	})
}

func (n node) set(t *testing.T, change func(*stub.State)) {
	t.Helper()
	if err := n.state.Update(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

// suffer brings a fault, and heal takes all of them away.
func (n node) suffer(t *testing.T, f stub.Fault) {
	t.Helper()
	n.set(t, func(s *stub.State) { s.Faults = append(s.Faults, f) })
}

func (n node) heal(t *testing.T) {
	t.Helper()
	n.set(t, func(s *stub.State) { s.Faults = nil })
}

// until reads until a reading is as wanted.
func (n node) until(t *testing.T, what string, wanted func(gpu.Reading) bool) gpu.Reading {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r := n.Read(ctx)
		cancel()
		if wanted(r) {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("never %s: %+v", what, r)
		}
	}
}

// sound reports that all of the two GPUs is known.
func sound(r gpu.Reading) bool {
	if r.State != gpu.Up || len(r.Devices) != 2 {
		return false
	}
	for _, d := range r.Devices {
		if d.Lost || d.Fault != "" || d.Memory == nil || !d.Processes.Known || d.Health.Recovery == nil {
			return false
		}
	}
	return !r.Unmonitored
}

// unknown wants a Reading that says why.
func unknown(words string) func(gpu.Reading) bool {
	return func(r gpu.Reading) bool {
		return r.State == gpu.Unknown && strings.Contains(r.Message, words) && len(r.Devices) == 0
	}
}

// event waits for an event.
func (n node) event(t *testing.T, after uint64, wanted func(gpu.Event) bool) gpu.Event {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		for _, e := range n.Events(after) {
			if wanted(e) {
				return e
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("event never came: %+v", n.Events(after))
		}
	}
}

func gap(e gpu.Event) bool { return e.Kind == gpu.EventGap }

// probes are the PIDs of the probes with this node's library.
func (n node) probes() []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if bytes.Contains(line, []byte("--library="+n.dir)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// calls are the times of the calls to a function, in milliseconds, from the log that the state names.
func (n node) calls(t *testing.T, name string) []int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for line := range strings.Lines(string(data)) {
		when, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what != name {
			continue
		}
		ms, err := strconv.Atoi(when)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, ms)
	}
	return at
}

// resident is the memory of a process, in MiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
