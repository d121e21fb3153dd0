// Package health judges how GPUs are. It takes what was read and what the driver reported, and returns for each GPU
// whether it is healthy: True, False or Unknown.
//
// Nothing is judged by one look. A GPU becomes unhealthy after Config.Bad bad readings in a row, and healthy again
// after Config.Good good ones. Two things count at once, as they are the driver's own judgement: a lost GPU, and a
// recovery action. What could not be read is unknown: it makes nobody sick, and nobody healthy.
//
// An XID is judged by its class. One that asks for a reset or a reboot makes the GPU sick for as long as nothing
// speaks against it: the driver's recovery action has the last word. Where the driver says, in Config.Good readings in
// a row, that no action is needed, an XID that asked for a reset is done with; so it is where the driver was let go of
// since, as for a reset; and all are where the driver was loaded anew. What an engine's restart brings with it in an update is expected.
//
// Uncorrected memory errors are judged by how often they come: they make the GPU unhealthy once the counter grew in
// Config.Bad readings within Config.Window, be these next to each other or not, and healthy again when it did not for so
// long. Links are judged by whether they were up before.
//
// An agent that is restarted forgives nothing: what no reading would tell again is in a Memory. Next, Memory and Recall are
// pure functions.
package health

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// A Config says how GPUs are judged.
type Config struct {
	// Classes says what XIDs ask for.
	Classes Table
	// Expected are the XIDs that the end of an engine may bring. In an update they are no findings.
	Expected []uint64
	// Bad is how many bad readings in a row make a GPU unhealthy, and how many failed ones unknown.
	Bad int
	// Good is how many good readings in a row make a GPU healthy.
	Good int
	// Window is how long after the first one the same XID of the same GPU is no news, and how long a memory error
	// counts.
	Window time.Duration
}

// Default returns the configuration that is used where nothing else is said.
func Default() Config {
	return Config{
		Classes:  DefaultTable(),
		Expected: []uint64{13, 31, 32, 43, 45, 68, 69},
		Bad:      2, Good: 3,
		Window: 10 * time.Minute,
	}
}

// Validate reports what is wrong.
func (c Config) Validate() error {
	var errs []error
	if c.Bad < 1 || c.Good < 1 {
		errs = append(errs, fmt.Errorf("%d bad and %d good readings: at least one of each is needed", c.Bad, c.Good))
	}
	if c.Window <= 0 {
		errs = append(errs, fmt.Errorf("window %s: it must be positive", c.Window))
	}
	for _, xid := range slices.Sorted(maps.Keys(c.Classes)) {
		if !slices.Contains(classes(), c.Classes[xid]) {
			errs = append(errs, fmt.Errorf("XID %d has no class %q; there are %s", xid, c.Classes[xid], joined(classes())))
		}
	}
	return errors.Join(errs...)
}

// An Input is what one round has found.
type Input struct {
	Reading gpu.Reading
	// Events are those since the round before.
	Events []gpu.Event
	// Windows are the updates that are open, or were when an event came.
	Windows []Window
}

// A Window is the time in which containers with these GPUs are restarted on purpose.
type Window struct {
	UUIDs []string
	From  time.Time
	// To is the end; zero: still open.
	To time.Time
}

func (w Window) covers(mine owner, at time.Time) bool {
	return slices.ContainsFunc(w.UUIDs, mine.is) && !at.Before(w.From) && (w.To.IsZero() || !at.After(w.To))
}

// A Verdict says how one GPU is.
type Verdict struct {
	UUID  string `json:"uuid"`
	Index int    `json:"index"`
	// MIG are the UUIDs of its MIG devices: they are as their GPU is.
	MIG    []string               `json:"mig,omitempty"`
	Status corev1.ConditionStatus `json:"status"`
	Reason v1alpha1.GPUReason     `json:"reason"`
	// Message has the details; empty if there are none.
	Message string `json:"message,omitempty"`
	// Since is when the status became what it is.
	Since time.Time `json:"since"`
	// Lost: the GPU does not answer any more. It stays so until it has answered Config.Good times.
	Lost bool `json:"lost,omitempty"`
	// Notes are what is worth knowing and no fault.
	Notes []string `json:"notes,omitempty"`
	// Errors are what the driver reported of late, the oldest first.
	Errors []Error `json:"errors,omitempty"`
}

// An Error is what the driver reported, once for all of the same kind in a window.
type Error struct {
	Kind  gpu.EventKind `json:"kind"`
	XID   uint64        `json:"xid,omitempty"`
	Class Class         `json:"class"`
	First time.Time     `json:"first"`
	Last  time.Time     `json:"last"`
	Count int           `json:"count"`
	// Expected: it came with an update of a Pod that has the GPU, and is no finding.
	Expected bool `json:"expected,omitempty"`
	// Stands: it makes the GPU sick until it is overruled.
	Stands bool `json:"stands,omitempty"`
	// Fresh: it was first seen in this round.
	Fresh bool `json:"-"`
}

// A State is what is remembered from round to round. Next never changes the one that it is given; the zero value is
// that of an agent that has just started.
type State struct {
	devices map[string]device
	driver  string
	module  uint64
	// letGo: the driver was released, and what comes after may be another GPU altogether.
	letGo bool
	// unattributed are errors of no GPU that is known.
	unattributed []Error
	// missed is when nobody listened for events last; zero: never.
	missed time.Time
}

// Known reports whether any GPU was ever seen.
func (s State) Known() bool { return len(s.devices) > 0 }

// Missed returns when nobody listened for events last, so that some may be missing; zero: never.
func (s State) Missed() time.Time { return s.missed }

// Unattributed returns the errors of which the driver did not say whose they are, or not of a GPU that is known.
func (s State) Unattributed() []Error { return slices.Clone(s.unattributed) }

// A device is what is remembered of one GPU.
type device struct {
	verdict Verdict
	tracks  map[v1alpha1.GPUReason]track
	// sound counts the readings in a row with nothing bad in them, unread those without this GPU.
	sound, unread int
	// ecc is the counter of uncorrected memory errors when it was last read; nil: never. growths are when it last grew.
	ecc     *uint64
	growths []time.Time
	// up are the links that were up.
	up map[int]bool
	// errors are what the driver reported.
	errors []Error
	// overruled counts the readings in a row in which the driver said that no action is needed.
	overruled int
}

// A track follows one kind of finding.
type track struct {
	bad, good int
	sick      bool
	detail    string
}

func (d device) clone() device {
	d.tracks, d.up, d.errors = maps.Clone(d.tracks), maps.Clone(d.up), slices.Clone(d.errors)
	d.growths = slices.Clone(d.growths)
	if d.tracks == nil {
		d.tracks = map[v1alpha1.GPUReason]track{}
	}
	if d.up == nil {
		d.up = map[int]bool{}
	}
	for i := range d.errors {
		d.errors[i].Fresh = false
	}
	return d
}

// severity are the findings, the gravest first.
func severity() []v1alpha1.GPUReason {
	return []v1alpha1.GPUReason{
		v1alpha1.GPUFalseLost, v1alpha1.GPUFalseRecovery, v1alpha1.GPUFalseXID, v1alpha1.GPUFalseECC,
		v1alpha1.GPUFalseRemap, v1alpha1.GPUFalseLink, v1alpha1.GPUFalseThermal,
	}
}

// atOnce are the findings that wait for no second reading: the driver's own judgement, and memory errors, which are
// found only once they came in Config.Bad readings.
func atOnce(r v1alpha1.GPUReason) bool {
	return r == v1alpha1.GPUFalseLost || r == v1alpha1.GPUFalseRecovery || r == v1alpha1.GPUFalseECC
}
