// Package residency says what became, after a swap, of the memory that a Pod's containers held on its GPUs.
//
// A Baseline is taken before the swap and a Sample at each look after it; a Watch is the judgement so far:
//
//	Sample, Circumstances --> Watch.Next --> Watch: a verdict for each GPU, the worst of them for the Pod
//
// A GPU is judged by two samples at least half a second apart, both from after the end of the old containers. It is
// clean in a sample if no process of an ended container is listed on it, no declared resident holds more
// than it may, and what is used beyond the Pod's own running containers is no more than it was before. A sample that
// could not be read, or a process whose container is not known, says neither. A GPU that is not clean stops the
// update, but only once the release deadline is over: memory goes away in exit work of the kernel, and that takes
// its time with the pinned memory of the process. The deadline counts from the end of the old containers, whoever holds
// the GPU by then. An untouched container that holds more than before, without a declaration that says how much it may,
// makes the GPU unknown: it may have loaded something by itself, or have taken the old engine's memory over.
//
// Everything here is a value, and the time is that of the samples.
package residency

import (
	"fmt"
	"time"

	"pitstop.dev/gpu"
)

// Params are the bounds of a judgement.
type Params struct {
	// Release is how long after the end of a container its memory may still be held. Default 120 s.
	Release time.Duration
	// SlackMiB is what may be used on a GPU besides what is known. Default 512.
	SlackMiB int64
	// Patience is how long a GPU may be unreadable before its verdict is Unknown. Default 10 s.
	Patience time.Duration
}

// WithDefaults returns p with the defaults for what is zero.
func (p Params) WithDefaults() Params {
	if p.Release == 0 {
		p.Release = 2 * time.Minute
	}
	if p.SlackMiB == 0 {
		p.SlackMiB = 512
	}
	if p.Patience == 0 {
		p.Patience = 10 * time.Second
	}
	return p
}

// apart is how far two samples are from each other that count as two.
const apart = 500 * time.Millisecond

// A Sample is what one look has found on the GPUs of a Pod.
type Sample struct {
	At time.Time
	// State is that of the reading. Absent and Released say that there is nothing to be seen, for a reason.
	State gpu.State
	// Fault is why the Pod's GPUs are not known; empty if they are.
	Fault string
	// BootID is that of the boot that the sample is of.
	BootID string
	// Partial: the Pod may have devices that are not in Devices.
	Partial bool
	Devices []Device
}

// A Device is one GPU of the Pod, or one MIG device.
type Device struct {
	// UUID is empty if it is not known which device it is; Fault says why, and Name what kubelet calls it.
	UUID, Name string
	// Fault is why it could not be read; empty if it could.
	Fault string
	// Shared: other Pods have it as well (time slices, MPS), so that its memory is not this Pod's alone.
	Shared bool
	// Coherent: free memory says nothing about who holds some.
	Coherent bool
	// Memory is nil if it is not known.
	Memory  *gpu.Memory
	Holders []Holder
}

// An Ownership says how well it is known whose a process is.
type Ownership string

// The kinds of ownership.
const (
	// Contained: it is in the container Holder.ContainerID of the Pod Holder.PodUID.
	Contained Ownership = "Contained"
	// Outside: it is in no container of this Pod: of the host, or of another Pod.
	Outside Ownership = "Outside"
	// Ghost: the driver lists it, and there is no process with that PID.
	Ghost Ownership = "Ghost"
	// Undecided: it is not known whose it is.
	Undecided Ownership = "Undecided"
)

// A Holder is a process that holds memory of a device.
type Holder struct {
	PID int32
	// Started is its start in clock ticks since boot; 0 if it is not known.
	Started uint64
	Command string
	// MiB that it holds; -1 if the driver does not tell.
	MiB       int64
	Ownership Ownership
	// PodUID and ContainerID are empty for a process of the host; Pod is namespace and name for people, where known.
	PodUID, ContainerID, Pod string
}

// String says for people which process it is.
func (h Holder) String() string {
	text := fmt.Sprintf("process %d", h.PID)
	if h.PID <= 0 {
		text = "a process whose PID the driver does not tell"
	}
	if h.Command != "" {
		text += " (" + h.Command + ")"
	}
	switch {
	case h.Pod != "":
		text += " of Pod " + h.Pod
	case h.PodUID != "":
		text += " of the Pod with UID " + h.PodUID
	case h.Ownership == Outside:
		text += " of the node"
	case h.Ownership == Ghost:
		text += " that does not exist any more"
	}
	if h.MiB >= 0 {
		text += fmt.Sprintf(" with %d MiB", h.MiB)
	}
	return text
}

// A Baseline is what the Pod's GPUs held before the swap.
type Baseline struct {
	BootID string
	GPUs   []Usage
	// Processes are those of the Pod that held memory.
	Processes []Process
}

// A Usage is how much was used on one GPU.
type Usage struct {
	UUID string
	// Memory is nil if it was not known.
	Memory *gpu.Memory
	// OwnMiB is what the Pod's own processes held; -1 if that was not known.
	OwnMiB int64
}

// A Process held memory on a GPU before the swap.
type Process struct {
	PID         int32
	Started     uint64
	ContainerID string
	GPU         string // UUID
	MiB         int64  // -1: unknown
}

// Take returns the baseline that a sample makes. It is false if the sample does not say what every GPU held.
func Take(s Sample, podUID string) (Baseline, bool) {
	b := Baseline{BootID: s.BootID}
	if s.Fault != "" || s.Partial || len(s.Devices) == 0 {
		return Baseline{}, false
	}
	for _, d := range s.Devices {
		if d.Fault != "" {
			return Baseline{}, false
		}
		u := Usage{UUID: d.UUID, Memory: d.Memory}
		for _, h := range d.Holders {
			if h.Ownership == Undecided || h.Ownership == Ghost {
				u.OwnMiB = -1
			}
			if h.Ownership != Contained || h.PodUID != podUID {
				continue
			}
			u.OwnMiB = sum(u.OwnMiB, h.MiB)
			b.Processes = append(b.Processes, Process{PID: h.PID, Started: h.Started, ContainerID: h.ContainerID, GPU: d.UUID, MiB: h.MiB})
		}
		b.GPUs = append(b.GPUs, u)
	}
	return b, true
}

// sum adds two amounts, of which -1 is one that is not known.
func sum(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// usage returns what was used on a GPU.
func (b Baseline) usage(uuid string) (Usage, bool) {
	for _, u := range b.GPUs {
		if u.UUID == uuid {
			return u, true
		}
	}
	return Usage{}, false
}

// of is what a container held on a GPU; -1 if that is not known.
func (b Baseline) of(container, uuid string) int64 {
	var n int64
	for _, p := range b.Processes {
		if p.ContainerID == container && p.GPU == uuid {
			n = sum(n, p.MiB)
		}
	}
	return n
}

// was returns the process of the baseline that the holder is, if it is one. A ghost has no start to compare: that it
// is listed with the PID of one that was is enough.
func (b Baseline) was(h Holder) (Process, bool) {
	for _, p := range b.Processes {
		if p.PID == h.PID && h.PID > 0 && (p.Started == h.Started && h.Started != 0 || h.Ownership == Ghost) {
			return p, true
		}
	}
	return Process{}, false
}

// Circumstances are what a sample is judged by.
type Circumstances struct {
	PodUID string
	// Baseline is nil if there is none: nothing can be told then.
	Baseline *Baseline
	// Since is when the last old container ended; zero while one runs, when nothing is judged.
	Since time.Time
	// Containers are those of the Pod that the runtime knows.
	Containers []Container
	// Residents are the MiB that a container may keep on each GPU, by name, as declared.
	Residents map[string]int64
	Params    Params

	at time.Time // of the sample that is judged
}

// A Container is one of the runtime's.
type Container struct {
	ID, Name string
	// Current: the newest of its name, and it has not ended.
	Current bool
	// Before: it was made before the swap.
	Before bool
	// Ended is when it ended; zero if it has not.
	Ended time.Time
}

func (c Circumstances) container(id string) (Container, bool) {
	for _, one := range c.Containers {
		if one.ID == id {
			return one, true
		}
	}
	return Container{}, false
}

// replaced reports whether a container of the baseline is no longer the one that runs.
func (c Circumstances) replaced(id string) bool {
	now, ok := c.container(id)
	return !ok || !now.Current
}
