//go:build cgo && linux

package nvml

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"k8s.io/utils/clock"

	"pitstop.dev/gpu"
)

const (
	// eventWait bounds one wait for an event, and how long an orderly end takes.
	eventWait = 500 * time.Millisecond
	// eventRetry is the pause after a wait that failed: such a wait returns at once, and the next one too.
	eventRetry = time.Second
	// eventAgain is the pause between two tries to register GPUs that could not be. The others are heard meanwhile.
	eventAgain = 5 * time.Second
	// eventStale is how old the last wait may be: a wait that does not return hears nothing.
	eventStale = 10 * time.Second
	// eventMask is what the probe listens for, as far as a GPU supports it.
	eventMask = eventXID | eventUnavailable | eventRecovery

	eventXID         = 0x8
	eventUnavailable = 0x4000
	eventRecovery    = 0x8000
)

// A watcher listens for events.
type watcher struct {
	lib   *library
	clock clock.Clock
	send  func(gpu.Event) error

	set   nvml.EventSet // nil: none
	uuids map[nvml.Device]string
	// deaf says of GPUs, by index, why they are not in the set; all others are, or have no more to tell.
	deaf  map[int]string
	tried time.Time // when GPUs were registered last

	mu     sync.Mutex
	failed string // why events cannot be had; empty: they can
	last   time.Time
}

func newWatcher(l *library, c clock.Clock, send func(gpu.Event) error) *watcher {
	return &watcher{lib: l, clock: c, send: send}
}

// blind reports that events cannot be had at the moment.
func (w *watcher) blind() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed != "" || w.clock.Since(w.last) > eventStale
}

func (w *watcher) note(failed string) (before string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.failed, w.last = w.failed, failed, w.clock.Now()
	return before
}

// prepare makes an event set with all GPUs. Events of before are lost.
func (w *watcher) prepare() {
	w.note(w.register())
}

// register returns why not all GPUs could be registered. There may be a set nevertheless, with the others.
func (w *watcher) register() (failed string) {
	api := w.lib.api
	if lacks := w.lib.has.missing(fEventSetCreate, fEventSetWait, fEventSetFree, fEventTypes, fEventRegister); len(lacks) > 0 {
		return "the driver lacks " + lacks[0]
	}
	set, code := api.EventSetCreate()
	if code != nvml.SUCCESS {
		return "make an event set: " + explain(code)
	}
	n, code := api.DeviceGetCount()
	if code != nvml.SUCCESS {
		free(set)
		return "count GPUs: " + explain(code)
	}
	w.set, w.uuids, w.deaf = set, map[nvml.Device]string{}, map[int]string{}
	for i := range n {
		w.deaf[i] = ""
	}
	return w.registerAll()
}

// registerAll tries all GPUs that are not in the set, and returns why not all could be registered.
func (w *watcher) registerAll() (failed string) {
	w.tried = w.clock.Now()
	for _, i := range slices.Sorted(maps.Keys(w.deaf)) {
		w.deaf[i] = w.registerDevice(i)
		if w.deaf[i] == "" {
			delete(w.deaf, i)
		}
		failed = cmp.Or(failed, w.deaf[i])
	}
	return failed
}

// registerDevice asks for the events that the GPU supports: others make the driver refuse all of them. A lost GPU
// has no more to tell.
func (w *watcher) registerDevice(i int) (failed string) {
	fault := func(what string, code nvml.Return) string {
		if code == nvml.ERROR_GPU_IS_LOST {
			return ""
		}
		return fmt.Sprintf("GPU %d: %s: %s", i, what, explain(code))
	}
	d, code := w.lib.api.DeviceGetHandleByIndex(i)
	if code != nvml.SUCCESS {
		return fault("find it", code)
	}
	supported, code := d.GetSupportedEventTypes()
	if code != nvml.SUCCESS {
		return fault("event types", code)
	}
	if supported&eventXID == 0 {
		failed = fmt.Sprintf("GPU %d: no XID events", i)
	}
	if supported&eventMask == 0 {
		return failed
	}
	if _, in := w.uuids[d]; in {
		return failed
	}
	if code := d.RegisterEvents(supported&eventMask, w.set); code != nvml.SUCCESS {
		return fault("register", code)
	}
	w.uuids[d], _ = d.GetUUID() // empty: what it tells is nobody's
	return failed
}

// free gives a set back. A driver that refuses has nothing to give.
func free(set nvml.EventSet) { _ = set.Free() }

func (w *watcher) drop() {
	if w.set != nil {
		free(w.set)
		w.set = nil
	}
}

// run waits for events until stop is closed, and tries anew after a pause where it cannot.
func (w *watcher) run(stop <-chan struct{}) {
	defer w.drop()
	partly := w.why()
	for {
		select {
		case <-stop:
			return
		default:
		}
		failed := partly
		if w.set != nil {
			failed = w.wait(partly)
		}
		if w.set != nil && failed == partly {
			if len(w.deaf) > 0 && w.clock.Since(w.tried) >= eventAgain {
				partly = w.registerAll()
			}
			continue
		}
		w.note(failed)
		w.drop()
		pause := w.clock.NewTimer(eventRetry)
		select {
		case <-stop:
			pause.Stop()
			return
		case <-pause.C():
		}
		partly = w.register()
		if w.set == nil {
			w.note(partly)
		}
	}
}

func (w *watcher) why() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// wait waits once and returns what is wrong: partly, if it heard as much as it can.
func (w *watcher) wait(partly string) string {
	e, code := w.set.Wait(uint32(eventWait.Milliseconds()))
	if code != nvml.SUCCESS && code != nvml.ERROR_TIMEOUT {
		return "wait for events: " + explain(code)
	}
	// What happened between two sets is lost, and of a GPU what happened before it was in one.
	if before := w.note(partly); before != partly && w.send(gpu.Event{Kind: gpu.EventGap, GI: gpu.NoInstance, CI: gpu.NoInstance}) != nil {
		return "nobody reads"
	}
	if code == nvml.SUCCESS {
		if event, known := w.convert(e); known && w.send(event) != nil {
			return "nobody reads"
		}
	}
	return partly
}

// convert names the GPU by what it was called when it was registered: it may not answer any more.
func (w *watcher) convert(e nvml.EventData) (event gpu.Event, known bool) {
	event = gpu.Event{UUID: w.uuids[e.Device], GI: e.GpuInstanceId, CI: e.ComputeInstanceId}
	switch e.EventType {
	case eventXID:
		event.Kind, event.XID = gpu.EventXID, e.EventData
	case eventUnavailable:
		event.Kind = gpu.EventUnavailable
	case eventRecovery:
		event.Kind = gpu.EventRecovery
	default:
		return event, false
	}
	return event, true
}
