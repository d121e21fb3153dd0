package health

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/gpu"
)

// keeping is a world whose agents keep what they know in a folder.
func keeping(t *testing.T) (w *world, dir string) {
	t.Helper()
	w, dir = newWorld(t), filepath.Join(t.TempDir(), "agent")
	w.restart(dir, "boot-1")
	return w, dir
}

// restart is a new process of the agent. What the driver told the one before is gone.
func (w *world) restart(dir, boot string) {
	w.events = nil
	w.start(Config{Reader: w, Assigner: w, Releaser: w, Dir: dir, BootID: boot})
}

var fatal = told{"False", "FatalXID", "GPU 0 (GPU-0): XID 79, which asks for a reboot"}

func TestARestartedAgentForgivesNothing(t *testing.T) {
	file := func(dir string) string { return filepath.Join(dir, KeptFile) }
	healthy := told{"True", "Healthy", "3 GPUs"}
	for name, tt := range map[string]struct {
		meanwhile func(*world, string)
		boot      string
		first     bool // it is sick before anything was read
		want      told // once it was read often enough
	}{
		"the same boot":   {boot: "boot-1", first: true, want: fatal},
		"another boot":    {boot: "boot-2", want: healthy},
		"no boot id":      {boot: "", first: true, want: fatal},
		"another driver":  {boot: "boot-1", first: true, meanwhile: func(w *world, _ string) { w.reading.Driver = "580" }, want: healthy},
		"no file":         {boot: "boot-1", meanwhile: func(_ *world, dir string) { _ = os.Remove(file(dir)) }, want: healthy},
		"half a file":     {boot: "boot-1", meanwhile: func(w *world, dir string) { w.tear(file(dir), 40) }, want: healthy},
		"an empty file":   {boot: "boot-1", meanwhile: func(w *world, dir string) { w.tear(file(dir), 0) }, want: healthy},
		"a folder":        {boot: "boot-1", meanwhile: func(_ *world, dir string) { _ = os.Remove(file(dir)); _ = os.Mkdir(file(dir), 0o700) }, want: healthy},
		"another version": {boot: "boot-1", meanwhile: func(w *world, dir string) { w.swap(file(dir), `"version":1`, `"version":2`) }, want: healthy},
		"half of the next file": {boot: "boot-1", first: true, want: fatal, meanwhile: func(_ *world, dir string) {
			_ = os.WriteFile(file(dir)+".new", []byte(`{"ver`), 0o600)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := keeping(t)
			w.judged()
			w.xid("GPU-0", 79)
			w.rounds(9)
			if diff := cmp.Diff(fatal, w.ofNode()); diff != "" {
				t.Fatalf("the Node says (-want +got):\n%s", diff)
			}
			if tt.meanwhile != nil {
				tt.meanwhile(w, dir)
			}
			w.restart(dir, tt.boot)
			w.monitor.Begin(t.Context())
			if why := w.monitor.Sick(&corev1.Pod{}, []string{"GPU-0"}); (why != "") != tt.first || w.monitor.Sick(w.pods[0], nil) == "" {
				t.Errorf("before it is read: %q", why)
			}
			w.rounds(2)
			if diff := cmp.Diff(fatal, w.ofNode()); diff != "" {
				t.Errorf("too early the Node says (-want +got):\n%s", diff)
			}
			w.rounds(40)
			if diff := cmp.Diff(tt.want, w.ofNode()); diff != "" {
				t.Errorf("the Node says (-want +got):\n%s", diff)
			}
			if want := map[bool]string{true: "False", false: "True"}[tt.want == fatal]; w.ofPod(0).Status != want || w.ofPod(1).Status != "True" {
				t.Errorf("the Pods say %+v, %+v", w.ofPod(0), w.ofPod(1))
			}
			// The next one finds what this one knew, whatever was in its way.
			w.restart(dir, tt.boot)
			w.rounds(9)
			if got := w.ofNode(); got != tt.want && name != "a folder" {
				t.Errorf("after one more restart the Node says %+v", got)
			}
		})
	}
}

// tear cuts a file.
func (w *world) tear(path string, size int64) {
	if err := os.Truncate(path, size); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) swap(path, before, after string) {
	data, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(data), before) {
		err = errors.New(string(data))
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(data), before, after, 1)), 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestAFileThatIsNotUnderstoodIsPutAside(t *testing.T) {
	w, dir := keeping(t)
	w.judged()
	path := filepath.Join(dir, KeptFile)
	w.tear(path, 9)
	w.restart(dir, "boot-1")
	ctx, lines := logged(t)
	w.monitor.Round(ctx)
	if n := len(*lines); n < 1 || !strings.Contains((*lines)[0], "cannot be read, they are judged anew") {
		t.Errorf("logged %q", *lines)
	}
	if data, err := os.ReadFile(path + ".bad"); err != nil || len(data) != 9 {
		t.Errorf("put aside %q, %v", data, err)
	}
	if r, _, err := readRecord(path); err != nil || len(r.GPUs.GPUs) != 3 {
		t.Errorf("kept %+v, %v", r, err)
	}
}

// logged returns a context with a logger, and what it was told.
func logged(t *testing.T) (context.Context, *[]string) {
	t.Helper()
	lines := &[]string{}
	log := funcr.New(func(_, args string) { *lines = append(*lines, args) }, funcr.Options{})
	return logr.NewContext(t.Context(), log), lines
}

func TestWhatCannotBeKeptIsWatched(t *testing.T) {
	w, dir := keeping(t)
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no folder can be made there
		t.Fatal(err)
	}
	ctx, lines := logged(t)
	rounds := func(n int) {
		for range n {
			w.monitor.Round(ctx)
			w.clock.Step(5 * time.Second)
		}
	}
	rounds(3)
	w.xid("GPU-0", 79)
	rounds(9)
	if diff := cmp.Diff(fatal, w.ofNode()); diff != "" {
		t.Errorf("the Node says (-want +got):\n%s", diff)
	}
	about := func(words string) int {
		return len(slices.DeleteFunc(slices.Clone(*lines), func(l string) bool { return !strings.Contains(l, words) }))
	}
	if n := about("cannot be kept"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	rounds(1)
	if r, _, err := readRecord(filepath.Join(dir, KeptFile)); err != nil || len(r.GPUs.GPUs) != 3 || about("is kept again") != 1 {
		t.Errorf("kept %+v, %v, logged %q", r, err, *lines)
	}
}

func TestADiskThatHangsStopsNoWatching(t *testing.T) {
	w, dir := keeping(t)
	w.judged()
	path := filepath.Join(dir, KeptFile)
	if err := unix.Mkfifo(path+".new", 0o600); err != nil { // nobody reads it: to open it hangs
		t.Fatal(err)
	}
	ctx, lines := logged(t)
	w.xid("GPU-0", 79)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.monitor.Round(ctx)
	}()
	for !w.clock.HasWaiters() {
		<-time.After(time.Millisecond)
	}
	w.clock.Step(keepFor)
	<-done
	w.monitor.Round(ctx) // waits no more
	if diff := cmp.Diff(fatal, w.ofNode()); diff != "" {
		t.Errorf("the Node says (-want +got):\n%s", diff)
	}
	if text := strings.Join(*lines, "\n"); strings.Count(text, "the disk does not answer") != 1 {
		t.Errorf("logged %s", text)
	}
	fifo, err := os.Open(path + ".new")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(fifo); err != nil {
		t.Fatal(err)
	}
	_ = fifo.Close()
	for w.monitor.keeper.failed {
		w.monitor.Round(ctx)
		<-time.After(time.Millisecond)
	}
	if r, _, err := readRecord(path); err != nil || len(r.GPUs.GPUs) != 3 || len(r.GPUs.GPUs[0].Errors) != 1 {
		t.Errorf("kept %+v, %v", r, err)
	}
}

func TestOnlyWhatHasChangedIsKept(t *testing.T) {
	w, dir := keeping(t)
	w.judged()
	path := filepath.Join(dir, KeptFile)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.reading.Devices[0].Health.ClockEvents = new(uint64(0x40))
	w.rounds(1)
	w.reading.Devices[0].Health.ClockEvents = new(uint64(0))
	w.reading.Devices[0].Memory.Used++
	w.xid("GPU-1", 13)
	w.rounds(100)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("written again: %v", err)
	}
	w.xid("GPU-1", 79)
	w.rounds(1)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestANodeWithoutGPUsKeepsNothing(t *testing.T) {
	w, dir := keeping(t)
	w.reading = gpu.Reading{State: gpu.Absent}
	w.rounds(30)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("written: %v", err)
	}
}

func TestWhatTheDriverToldLastIsKept(t *testing.T) {
	w, dir := keeping(t)
	w.judged()
	asked := 0
	w.called = func(what string) {
		if what != "events" {
			return
		}
		if asked++; asked == 2 { // after the only round
			w.xid("GPU-0", 79)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w.monitor.Run(ctx)
	w.called = nil
	w.restart(dir, "boot-1")
	w.rounds(9)
	if diff := cmp.Diff(fatal, w.ofNode()); diff != "" {
		t.Errorf("the Node says (-want +got):\n%s", diff)
	}
}

// errKilled ends an agent in the middle of a call.
var errKilled = errors.New("killed")

// killed runs rounds until the agent is killed at its nth call from when it takes events on, and reports false if it
// made fewer.
func (w *world) killed(n, rounds int) (is bool) {
	calls := 0
	w.called = func(what string) {
		if calls > 0 || what == "events" {
			calls++
		}
		if calls == n {
			panic(errKilled)
		}
	}
	defer func() {
		w.called = nil
		if r := recover(); r != nil {
			if r != any(errKilled) {
				panic(r)
			}
			is = true
		}
	}()
	w.rounds(rounds)
	return false
}

// Wherever an agent is killed, the next one says of a GPU that fell off the bus what it would have said. Only what the
// driver told it and it had no time to take is lost: the first call is the one that takes it.
func TestAnAgentMayBeKilledAnywhere(t *testing.T) {
	killed := true
	for n := 2; killed; n++ {
		w, dir := keeping(t)
		w.judged()
		w.xid("GPU-0", 79)
		w.reading.Devices[2].Health.RemapPending = new(true) // something to be told in the same round
		note := told{"True", "Healthy", "GPU 2 (GPU-2): rows of memory wait for a reset to be replaced"}
		killed = w.killed(n, 5)
		w.restart(dir, "boot-1")
		w.rounds(20)
		if diff := cmp.Diff([]told{fatal, fatal, note}, []told{w.ofNode(), w.ofPod(0), w.ofPod(1)}); diff != "" {
			t.Errorf("killed at call %d (-want +got):\n%s", n, diff)
		}
	}
}

func TestALibraryThatIsGoneAfterARestartIsSaid(t *testing.T) {
	gone := told{"Unknown", "NotReadable", "the NVML library is gone"}
	sicken := func(w *world) {
		w.node.Status.Conditions[0].Status, w.node.Status.Conditions[0].Reason = "False", "DeviceLost"
		c := podCondition(w.pods[0])
		c.Status, c.Reason = "False", "DeviceLost"
	}
	for name, tt := range map[string]struct {
		do   func(*world)
		kept bool
		node told
		pod  told
	}{
		"nothing was kept": {node: gone, pod: gone},
		"the API server answers late": {
			do:   func(w *world) { w.broken = true; w.rounds(20); w.broken = false },
			node: gone, pod: gone,
		},
		"the Node alone has one": {do: func(w *world) { w.pods = nil }, node: gone},
		"the GPUs were kept": {
			kept: true,
			node: told{"Unknown", "NotReadable", "GPUs 0 (GPU-0), 1 (GPU-1), 2 (GPU-2): the NVML library is gone"},
			pod:  told{"Unknown", "NotReadable", "GPUs 0 (GPU-0), 1 (GPU-1): the NVML library is gone"},
		},
		"a GPU was sick, and is remembered": {do: sicken, kept: true, node: told{"False", "DeviceLost", "3 GPUs"}, pod: told{"False", "DeviceLost", ""}},
		"a GPU was sick in another life":    {do: sicken, node: gone, pod: gone},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := keeping(t)
			w.judged()
			if !tt.kept {
				dir = ""
			}
			w.restart(dir, "boot-1")
			w.reading = gpu.Reading{State: gpu.Absent, Message: "libnvidia-ml.so.1: cannot open shared object file"}
			if tt.do != nil {
				tt.do(w)
			}
			w.rounds(40)
			if got := w.ofNode(); got != tt.node {
				t.Errorf("the Node says %+v", got)
			}
			if len(w.pods) > 0 && w.ofPod(0) != tt.pod {
				t.Errorf("the Pod says %+v", w.ofPod(0))
			}
		})
	}
}
