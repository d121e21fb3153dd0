package rig

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/test/gpu/claim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A library notes what it lists, by device and process.
type library map[string]int

func key(h Held) string { return fmt.Sprintf("%s %d", h.GPU, h.PID) }

func (l library) Hold(_ context.Context, h Held) error { l[key(h)] = h.MiB; return nil }
func (l library) Drop(_ context.Context, h Held) error { delete(l, key(h)); return nil }

// process is one of this machine, until end.
func process(t *testing.T) (pid int32, end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "infinity")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	return int32(cmd.Process.Pid), end
}

func TestLedger(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	lib := library{}
	l := newLedger(Config{UUIDs: []string{"a", "b"}, MiB: 10, Library: lib, Clock: clk})
	one, endOne := process(t)
	two, endTwo := process(t)
	take := func(pid int32, mib int, release time.Duration, gpus ...string) error {
		return l.Claim(t.Context(), pid, claim.Request{GPUs: gpus, MiB: mib, Release: release})
	}
	for _, step := range []struct {
		name string
		do   func() error
		want error
		list library
	}{
		{"two devices", func() error { return take(one, 6, 20*time.Second, "a", "b") }, nil, library{fmt.Sprint("a ", one): 6, fmt.Sprint("b ", one): 6}},
		{"more, in place of it", func() error { return take(one, 7, 20*time.Second, "a") }, nil, library{fmt.Sprint("a ", one): 7, fmt.Sprint("b ", one): 6}},
		{"what is left", func() error { return take(two, 3, -1, "a") }, nil, library{fmt.Sprint("a ", one): 7, fmt.Sprint("a ", two): 3, fmt.Sprint("b ", one): 6}},
		{"all or nothing", func() error { return take(two, 5, -1, "b", "a") }, claim.ErrOutOfMemory, library{fmt.Sprint("a ", one): 7, fmt.Sprint("a ", two): 3, fmt.Sprint("b ", one): 6}},
		{"the first has ended, and its memory is not free yet", func() error { endOne(); return take(two, 5, -1, "b") }, claim.ErrOutOfMemory, library{fmt.Sprint("a ", one): 7, fmt.Sprint("a ", two): 3, fmt.Sprint("b ", one): 6}},
		{"nor a moment before", func() error { clk.SetTime(clk.Now().Add(20*time.Second - 1)); return take(two, 5, -1, "b") }, claim.ErrOutOfMemory, library{fmt.Sprint("a ", one): 7, fmt.Sprint("a ", two): 3, fmt.Sprint("b ", one): 6}},
		{"but then", func() error { clk.SetTime(clk.Now().Add(1)); return take(two, 5, -1, "b") }, nil, library{fmt.Sprint("a ", two): 3, fmt.Sprint("b ", two): 5}},
		{"a leak stays", func() error {
			endTwo()
			clk.SetTime(clk.Now().Add(time.Hour))
			_, err := l.Held(t.Context())
			return err
		}, nil, library{fmt.Sprint("a ", two): 3, fmt.Sprint("b ", two): 5}},
	} {
		t.Run(step.name, func(t *testing.T) {
			if err := step.do(); !errors.Is(err, step.want) {
				t.Errorf("error %v, want %v", err, step.want)
			}
			if diff := cmp.Diff(step.list, lib); diff != "" {
				t.Errorf("the library lists (-want +got):\n%s", diff)
			}
		})
	}
	three, _ := process(t)
	if err := take(three, 1, 0, "c"); err == nil || errors.Is(err, claim.ErrOutOfMemory) {
		t.Errorf("a device that is not there: %v", err)
	}
	if err := take(two, 1, 0, "a"); err == nil {
		t.Error("a process that is not there got memory")
	}
}
