package journal

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	maxSteps    = 64  // of one record; the oldest ended ones go first
	maxPriorIDs = 256 // container ids carried from attempt to attempt
	maxRetired  = 16  // replaced attempts remembered by Pod
)

// An Attempt names one attempt of one InPlaceUpdate on one Pod. IPU and Number are its
// identity; attempts of one IPU are ordered by Number.
type Attempt struct {
	Pod       types.UID `json:"pod"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	IPU       types.UID `json:"ipu"`
	Number    int64     `json:"attempt"`
}

// A Kind is a sort of effect on the world.
type Kind string

// The kinds of effects. A record may hold others, written by a newer program.
const (
	Pull  Kind = "Pull"  // pull an image
	Hold  Kind = "Hold"  // close the gate and set the hold
	Patch Kind = "Patch" // change the images in the Pod's spec
	Stop  Kind = "Stop"  // bound the stop of an old container
	Serve Kind = "Serve" // the opening write: hold and marks removed, gate opened
	Label Kind = "Label" // a write of labels alone
	Retry Kind = "Retry" // a first start failed for want of GPU memory: the restart after it was planned
)

// An Action is one effect: what is done and, where there are several, to which (a container,
// an image).
type Action struct {
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject,omitzero"`
}

// A Step is an action that was intended, and what is known of its end.
type Step struct {
	Action
	// Seq is the sequence number of the write that intended it; it grows from write to write.
	Seq uint64 `json:"seq"`
	// Begun is when the intent was recorded; zero if only the outcome was.
	Begun time.Time `json:"begun,omitzero"`
	// Ended is when the outcome was recorded; zero while it is not known to have ended.
	Ended time.Time `json:"ended,omitzero"`
	// Outcome is what the caller gave to Done.
	Outcome string `json:"outcome,omitzero"`
}

// A Baseline is a container as it was before the update touched the Pod.
type Baseline struct {
	Container    string `json:"container"`
	ContainerID  string `json:"containerID"`
	ImageID      string `json:"imageID"`
	Hash         string `json:"hash"` // kubelet's, from the container's annotation
	RestartCount int32  `json:"restartCount"`
	// Processes are void, and not returned, in another boot than the one they were recorded in.
	Processes []Process `json:"processes,omitzero"`
}

// A Process is one process of a container that holds memory on a GPU.
type Process struct {
	PID     int32  `json:"pid"`
	Started uint64 `json:"started"` // clock ticks since boot; tells it from a later process of that id
	GPU     string `json:"gpu"`     // UUID
	MiB     int64  `json:"mib"`     // -1: unknown
}

// A GPU is how much of one was used before the update touched the Pod, in MiB.
type GPU struct {
	UUID string `json:"uuid"`
	// Version is that of the NVML call that the amounts are from; 0 if they are not known.
	Version  int   `json:"version"`
	Used     int64 `json:"used"`
	Reserved int64 `json:"reserved"`
	// Own is what the processes of the Pod held; -1: unknown.
	Own int64 `json:"own"`
}

// A Record is what the journal holds of one attempt. It is a copy: changing it changes nothing
// on disk.
type Record struct {
	Attempt
	// Seq is the sequence number of the last write.
	Seq uint64 `json:"seq"`
	// Begun and Updated are the times of the first and the last write.
	Begun   time.Time `json:"begun"`
	Updated time.Time `json:"updated"`
	// Ended is when End was recorded; zero while the update is open.
	Ended   time.Time `json:"ended"`
	Outcome string    `json:"outcome"`
	// Steps are in the order of their intents.
	Steps []Step `json:"steps"`
	// Before is the latest baseline, nil if none was recorded.
	Before []Baseline `json:"before"`
	// GPUs belong to Before; nil if they were not known. As its processes they are void in another boot.
	GPUs []GPU `json:"gpus"`
	// PriorIDs are the ids of all containers in any baseline of this Pod since an update of it
	// last ended, this attempt's included.
	PriorIDs []string `json:"priorIDs"`
	// Retired are the last attempts, one per IPU, that later ones replaced, the newest last.
	Retired []Retired `json:"retired"`
	// BootID is the boot of the last write.
	BootID string `json:"bootID"`
}

// Retired is the highest attempt of an IPU that was replaced.
type Retired struct {
	IPU    types.UID `json:"ipu"`
	Number int64     `json:"attempt"`
}

// Open says that the update is not known to have ended.
func (r Record) Open() bool { return r.Ended.IsZero() }

// Step returns the latest step for a, and false if a was never intended.
func (r Record) Step(a Action) (Step, bool) {
	i := r.last(a)
	if i < 0 {
		return Step{}, false
	}
	return r.Steps[i], true
}

func (r Record) last(a Action) int {
	for i, s := range slices.Backward(r.Steps) {
		if s.Action == a {
			return i
		}
	}
	return -1
}

// supersedes says whether a may no longer write because r is of a later attempt.
func (r Record) supersedes(a Attempt) bool {
	if r.IPU == a.IPU {
		return r.Number > a.Number
	}
	return slices.ContainsFunc(r.Retired, func(o Retired) bool {
		return o.IPU == a.IPU && o.Number >= a.Number
	})
}

// next returns the record of an attempt that replaces r.
func (r Record) next(a Attempt, now time.Time) Record {
	n := Record{Attempt: a, Begun: now}
	if r.Pod == "" {
		return n
	}
	n.Retired = slices.DeleteFunc(slices.Clone(r.Retired), func(o Retired) bool { return o.IPU == r.IPU || o.IPU == a.IPU })
	n.Retired = newest(append(n.Retired, Retired{IPU: r.IPU, Number: r.Number}), maxRetired)
	if r.Open() {
		n.PriorIDs = slices.Clone(r.PriorIDs)
	}
	return n
}

// intend adds an open step and says whether that changed the record.
func (r *Record) intend(a Action, now time.Time) bool {
	if i := r.last(a); i >= 0 && r.Steps[i].Ended.IsZero() && r.Open() {
		return false // still on record from before a restart or a failed try
	}
	r.add(Step{Action: a, Begun: now})
	r.Ended, r.Outcome = time.Time{}, ""
	return true
}

// done ends the step for a and says whether that changed the record.
func (r *Record) done(a Action, outcome string, now time.Time) bool {
	i := r.last(a)
	switch {
	case i < 0:
		r.add(Step{Action: a, Ended: now, Outcome: outcome})
	case r.Steps[i].Ended.IsZero():
		r.Steps[i].Ended, r.Steps[i].Outcome = now, outcome
	case r.Steps[i].Outcome == outcome:
		return false
	default:
		r.add(Step{Action: a, Ended: now, Outcome: outcome})
	}
	return true
}

func (r *Record) add(s Step) {
	r.Steps = append(r.Steps, s)
	if len(r.Steps) <= maxSteps {
		return
	}
	drop := max(0, slices.IndexFunc(r.Steps, func(s Step) bool { return !s.Ended.IsZero() }))
	r.Steps = slices.Delete(r.Steps, drop, drop+1)
}

// baseline sets the baseline and says whether that changed the record.
func (r *Record) baseline(before []Baseline, gpus []GPU) bool {
	if slices.EqualFunc(r.Before, before, Baseline.equal) && r.Before != nil && slices.Equal(r.GPUs, gpus) {
		return false
	}
	r.Before, r.GPUs = slices.Clone(before), slices.Clone(gpus)
	for _, b := range before {
		if b.ContainerID != "" && !slices.Contains(r.PriorIDs, b.ContainerID) {
			r.PriorIDs = append(r.PriorIDs, b.ContainerID)
		}
	}
	r.PriorIDs = newest(r.PriorIDs, maxPriorIDs)
	return true
}

func (b Baseline) equal(o Baseline) bool {
	same := slices.Equal(b.Processes, o.Processes)
	b.Processes, o.Processes = nil, nil
	return same && b.key() == o.key()
}

// key is b without its processes, comparable.
func (b Baseline) key() [5]any {
	return [5]any{b.Container, b.ContainerID, b.ImageID, b.Hash, b.RestartCount}
}

// in returns r as it counts in a boot.
func (r Record) in(boot string) Record {
	if r.BootID == boot {
		return r
	}
	r.Before, r.GPUs = slices.Clone(r.Before), nil
	for i := range r.Before {
		r.Before[i].Processes = nil
	}
	return r
}

func newest[T any](s []T, n int) []T {
	if len(s) > n {
		s = slices.Delete(s, 0, len(s)-n)
	}
	return s
}
