package probe

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/gpu"
)

// patience bounds every wait for what must come.
const patience = 30 * time.Second

// A hasty clock is the real one, but for the first so many timers of these lengths, which are over as soon as the first
// child has begun. So a test says which waits come to nothing, and how fast the machine is does not matter.
type hasty struct {
	clock.RealClock
	dir  string // of the child
	mu   sync.Mutex
	over map[time.Duration]int
}

func (h *hasty) NewTimer(d time.Duration) clock.Timer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over[d] == 0 {
		return h.RealClock.NewTimer(d)
	}
	h.over[d]--
	for deadline := h.Now().Add(patience); len(lines(h.dir, "starts")) == 0 && h.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	return h.RealClock.NewTimer(0)
}

// The waits of tests with a hasty clock, which are told by their length.
const (
	ofStart   = patience + 1
	ofReading = patience + 2
	ofGrace   = patience + 3
)

// impatient is a Config by which the first so many waits of these lengths come to nothing.
func impatient(waits ...time.Duration) Config {
	h := &hasty{over: map[time.Duration]int{}}
	for _, d := range waits {
		h.over[d]++
	}
	return Config{Clock: h, StartTimeout: ofStart, Timeout: ofReading, Grace: ofGrace}
}

// A fixture is a client that runs, with a fake child.
type fixture struct {
	*Client
	dir string
}

func run(t *testing.T, cfg Config, modes ...string) fixture {
	t.Helper()
	f := fixture{dir: t.TempDir()}
	if cfg.Path == "" {
		cfg.Path = os.Args[0]
	}
	// Without the variable a raced child takes a second to exit.
	cfg.Env = []string{fakeDir + "=" + f.dir, fakeModes + "=" + strings.Join(modes, ","), "GORACE=atexit_sleep_ms=0"}
	if cfg.MinPause == 0 {
		cfg.MinPause, cfg.MaxPause = time.Millisecond, time.Millisecond
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = patience
	}
	if h, is := cfg.Clock.(*hasty); is {
		h.dir = f.dir
	}
	f.Client = New(cfg)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		if r := f.read(t); r.State != gpu.Unknown {
			t.Errorf("after the end: %+v", r)
		}
		for _, pid := range lines(f.dir, "starts") {
			if n, err := strconv.Atoi(pid); err == nil && unix.Kill(n, 0) == nil {
				t.Errorf("child %s outlived its client", pid)
			}
		}
	})
	return f
}

func (f fixture) read(t *testing.T) gpu.Reading {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	return f.Read(ctx)
}

// up reads until the state is Up.
func (f fixture) up(t *testing.T) gpu.Reading {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		r := f.read(t)
		if r.State == gpu.Up {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("never up: %+v", r)
		}
	}
}

func TestReadSaysWhatIsWrongAndRecovers(t *testing.T) {
	for name, tt := range map[string]struct {
		mode    string
		cfg     Config
		state   gpu.State
		message string
	}{
		"a probe that says nothing":            {"mute", impatient(ofStart, ofGrace), gpu.Unknown, "NVML did not start within 30"},
		"a probe whose calls hang":             {"hangs", impatient(ofReading, ofGrace), gpu.Unknown, "hangs: no reading within 30"},
		"a probe that calls a missing symbol":  {"dead", Config{}, gpu.Unknown, "exit status 127: symbol lookup error: undefined symbol: nvmlFoo"},
		"a probe that dies of a reading":       {"dies", Config{}, gpu.Unknown, "has ended: exit status 1"},
		"a probe that says something else":     {"garbled", impatient(ofGrace), gpu.Unknown, `garbled: it says "Initialising NVML`},
		"a probe that says no end":             {"endless", impatient(ofGrace), gpu.Unknown, "a line without end"},
		"a probe of another version":           {"other protocol", Config{}, gpu.Unknown, "speaks protocol 2, not 1"},
		"a probe without a library":            {"absent", Config{}, gpu.Absent, "no such library"},
		"a probe whose driver is not loaded":   {"refused", Config{}, gpu.Unknown, "code 9"},
		"a driver that became another":         {"another driver", Config{}, gpu.Unknown, "code 18"},
		"a late answer to an earlier question": {"late", Config{}, gpu.Up, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := run(t, tt.cfg, tt.mode, "fine")
			r := f.read(t)
			if r.State != tt.state || !strings.Contains(r.Message, tt.message) || r.At.IsZero() {
				t.Errorf("reading %+v", r)
			}
			if len(r.Devices) > 0 {
				t.Errorf("devices without a reading: %+v", r)
			}
			f.up(t)
		})
	}
}

func TestAMissingProbeIsUnknown(t *testing.T) {
	t.Parallel()
	f := run(t, Config{Path: filepath.Join(t.TempDir(), "pitstop-gpu-probe")})
	if r := f.read(t); r.State != gpu.Unknown || !strings.Contains(r.Message, "not installed") {
		t.Errorf("reading %+v", r)
	}
	if events := f.Events(0); len(events) > 0 {
		t.Errorf("events %+v of a probe that never listened", events)
	}
}

func TestReadBeforeRunWaitsForItsDeadline(t *testing.T) {
	c := New(Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if r := c.Read(ctx); r.State != gpu.Unknown || !strings.Contains(r.Message, "it is not run") {
		t.Errorf("reading %+v", r)
	}
}

func TestAnImpatientCallerKillsNothing(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := run(t, Config{Clock: clk, StartTimeout: 1000 * time.Hour, Grace: time.Minute}, "hangs", "fine")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if r := f.Read(ctx); r.State != gpu.Unknown || !strings.Contains(r.Message, "did not answer in time: it ") {
			t.Errorf("reading %+v", r)
		}
		cancel()
	}
	if starts := len(lines(f.dir, "starts")); starts > 1 {
		t.Errorf("%d starts", starts)
	}
	// The child's own time: it hangs, is asked to end, and is killed. How often the clock must be asked for that
	// depends on when each wait begins. The next one has all the time it needs.
	up := make(chan struct{})
	go func() {
		defer close(up)
		f.up(t)
	}()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-up:
			tick.Stop()
			return
		case <-tick.C:
		}
		step := time.Minute
		if len(lines(f.dir, "starts")) > 1 {
			step = time.Millisecond // the pause between two starts
		}
		clk.Step(step)
	}
}

func TestAProbeThatCannotBeKilledHasNoSecondBesideIt(t *testing.T) {
	t.Parallel()
	var mortal atomic.Bool
	cfg := impatient(ofReading, ofGrace, ofGrace)
	cfg.kill = func(pid int) error {
		if !mortal.Load() {
			return nil
		}
		return kill(pid)
	}
	f := run(t, cfg, "hangs", "fine")
	for range 3 {
		if r := f.read(t); r.State != gpu.Unknown || !strings.Contains(r.Message, "cannot be killed") {
			t.Errorf("reading %+v", r)
		}
	}
	f.Release(time.Now().Add(time.Minute))
	if r := f.read(t); r.State != gpu.Unknown {
		t.Errorf("released with a probe that holds the driver: %+v", r)
	}
	f.Release(time.Time{})
	starts := lines(f.dir, "starts")
	if len(starts) != 1 {
		t.Fatalf("starts %q", starts)
	}
	pid, err := strconv.Atoi(starts[0])
	if err != nil {
		t.Fatal(err)
	}
	mortal.Store(true)
	if err := kill(pid); err != nil {
		t.Fatal(err)
	}
	f.up(t)
}

func TestReleaseLetsGoAndStartsAnew(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := run(t, Config{Clock: clk}, "fine")
	f.up(t)
	f.Release(clk.Now().Add(10 * time.Minute))
	f.Release(clk.Now().Add(20 * time.Minute))
	if r := f.read(t); r.State != gpu.Released || r.Message != "until 1970-01-01T00:36:40Z" {
		t.Errorf("reading %+v", r)
	}
	if bye := lines(f.dir, "bye"); len(bye) != 1 {
		t.Errorf("the child ended in order %d times", len(bye))
	}
	clk.Step(19 * time.Minute)
	if r := f.read(t); r.State != gpu.Released {
		t.Errorf("reading %+v", r)
	}
	clk.Step(time.Minute)
	if r := f.up(t); r.Driver != "start 2" {
		t.Errorf("reading %+v", r)
	}
	f.Release(clk.Now().Add(-time.Minute)) // nothing to end
	if r := f.read(t); r.State != gpu.Up || r.Driver != "start 2" {
		t.Errorf("reading %+v", r)
	}
	f.Release(clk.Now().Add(24 * time.Hour))
	if r := f.read(t); r.State != gpu.Released {
		t.Errorf("reading %+v", r)
	}
	clk.Step(MaxRelease)
	if r := f.up(t); r.Driver != "start 3" {
		t.Errorf("a release of more than an hour: %+v", r)
	}
	var gaps int
	for _, e := range f.Events(0) {
		if e.Kind == gpu.EventGap {
			gaps++
		}
	}
	if gaps != 2 {
		t.Errorf("%d gaps after two releases", gaps)
	}
}

func TestEventsAreNumberedAndBounded(t *testing.T) {
	t.Parallel()
	f := run(t, Config{Keep: 3}, "fine")
	for range 5 {
		f.up(t)
	}
	events := f.Events(0)
	if len(events) != 3 || events[0].Seq != 3 || events[2].Seq != 5 || events[2].XID != 5 || events[2].At.IsZero() {
		t.Errorf("events %+v", events)
	}
	if later := f.Events(4); len(later) != 1 || later[0].Seq != 5 {
		t.Errorf("events after 4: %+v", later)
	}
	if none := f.Events(5); len(none) > 0 {
		t.Errorf("events after the last: %+v", none)
	}
	// A child that dies while nobody reads leaves a gap at once.
	pid, err := strconv.Atoi(lines(f.dir, "starts")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := kill(pid); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); len(f.Events(5)) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no gap")
		}
		<-time.After(time.Millisecond)
	}
	if e := f.Events(5)[0]; e.Kind != gpu.EventGap || e.Seq != 6 || e.GI != gpu.NoInstance {
		t.Errorf("event %+v", e)
	}
}

func TestReadingsAreTakenOneAfterTheOther(t *testing.T) {
	t.Parallel()
	f := run(t, Config{}, "fine")
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			if r := f.read(t); r.State != gpu.Up {
				t.Errorf("reading %+v", r)
			}
			f.Events(0)
		})
	}
	readers.Wait()
	if starts := len(lines(f.dir, "starts")); starts != 1 {
		t.Errorf("%d starts", starts)
	}
}

func TestPause(t *testing.T) {
	for name, tt := range map[string]struct {
		failures int
		want     time.Duration
	}{
		"the first failure is tried again soon": {1, time.Second},
		"it doubles":                            {3, 4 * time.Second},
		"it is bounded":                         {7, time.Minute},
		"it does not overflow":                  {1000, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pause(time.Second, time.Minute, tt.failures); got != tt.want {
				t.Errorf("pause() = %v, want %v", got, tt.want)
			}
		})
	}
}
