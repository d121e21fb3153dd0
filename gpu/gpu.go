// Package gpu says what the GPUs of a node are, which processes hold their memory, and how they are.
//
// A Reading is what one look has found. It is a value: the judgements of gpu/residency and gpu/health take
// readings and never look themselves. What could not be read is said to be unknown, and is never zero.
package gpu

import (
	"context"
	"time"
)

// A Reader looks at the GPUs of the node.
type Reader interface {
	// Read looks now. It returns within the deadline of ctx, with a Reading whose State says what it is worth.
	Read(ctx context.Context) Reading
	// Events returns the events with a higher sequence number than after, the oldest first. Old ones are dropped.
	Events(after uint64) []Event
}

// A State is what a Reading is worth.
type State string

// The states of a Reading.
const (
	// Up: the driver answered. Devices may be unknown one by one.
	Up State = "Up"
	// Absent: there is no NVML library, so that this is a node without GPUs.
	Absent State = "Absent"
	// Released: NVML is let go of for a while, so that somebody can reset a GPU or change its MIG mode.
	Released State = "Released"
	// Unknown: the probe is not there, did not answer in time, or the driver refused; Message says which.
	Unknown State = "Unknown"
)

// A Reading is what one look at the GPUs has found.
type Reading struct {
	At    time.Time `json:"at"`
	State State     `json:"state"`
	// Message says why the state is Unknown, or until when NVML is released.
	Message string `json:"message,omitempty"`
	// Driver is the version of the driver; empty if unknown.
	Driver string `json:"driver,omitempty"`
	// Module tells the driver as it is loaded from the one that was loaded before or will be after; 0 if unknown.
	Module uint64 `json:"module,omitempty"`
	// Missing are the NVML symbols that the driver lacks and this project knows.
	Missing []string `json:"missing,omitempty"`
	// Unmonitored: events cannot be had, so that an XID may have been missed.
	Unmonitored bool     `json:"unmonitored,omitempty"`
	Devices     []Device `json:"devices,omitempty"`
}

// A Device is one GPU. MIG devices are listed with their parent.
type Device struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	// Minor is that of /dev/nvidia<minor>; -1 if unknown.
	Minor int    `json:"minor"`
	PCI   string `json:"pci,omitempty"`
	Name  string `json:"name,omitempty"`
	// Lost: the device does not answer any more (NVML code 15, GPU is lost). Nothing else of it is known then.
	Lost bool `json:"lost,omitempty"`
	// Fault is why the device could not be read, in words; empty if it could.
	Fault string `json:"fault,omitempty"`
	// Coherent: the operating system keeps its memory (Grace, unified memory), so that free memory says nothing
	// about who holds some.
	Coherent  bool      `json:"coherent,omitempty"`
	Memory    *Memory   `json:"memory,omitempty"` // nil: unknown
	Processes Processes `json:"processes"`
	Health    Health    `json:"health"`
	MIG       []MIG     `json:"mig,omitempty"`
}

// A MIG is a MIG device of a GPU. Its processes are among those of the GPU where the driver lists them there, and
// Processes has those that it lists here.
type MIG struct {
	UUID      string    `json:"uuid"`
	GI        uint32    `json:"gi"`
	CI        uint32    `json:"ci"`
	Memory    *Memory   `json:"memory,omitempty"`
	Processes Processes `json:"processes"`
}

// Memory is the memory of a device, in MiB. Two are compared only if Version is the same.
type Memory struct {
	// Version is that of the NVML call: 1 counts the driver's reserve as used, 2 apart.
	Version  int   `json:"version"`
	Total    int64 `json:"total"`
	Used     int64 `json:"used"`
	Reserved int64 `json:"reserved,omitempty"`
}

// Processes are those that hold memory on a device: compute, graphics and MPS, united by PID.
type Processes struct {
	// Known: all lists could be read. If not, List may lack some.
	Known bool `json:"known"`
	// Fault says which list could not be read, and why.
	Fault string    `json:"fault,omitempty"`
	List  []Process `json:"list,omitempty"`
}

// A Process holds memory on a device.
type Process struct {
	// PID is in the PID namespace of the probe; 0 if the driver does not tell.
	PID int32 `json:"pid"`
	// UsedMiB is -1 if the driver does not tell.
	UsedMiB int64 `json:"usedMiB"`
	// GI and CI are its MIG instances; NoInstance without MIG.
	GI uint32 `json:"gi"`
	CI uint32 `json:"ci"`
}

// NoInstance is the instance id of a process or an event that belongs to no MIG device.
const NoInstance = 0xFFFFFFFF

// Health is what the driver says about the condition of a device. A nil field is unknown.
type Health struct {
	// Recovery is the action that the driver asks for (field 230).
	Recovery *Recovery `json:"recovery,omitempty"`
	// UncorrectedECC counts errors since the driver was loaded that ECC could not correct.
	UncorrectedECC *uint64 `json:"uncorrectedECC,omitempty"`
	// RemapPending and RemapFailed: rows of memory wait for a reset to be remapped, or could not be.
	RemapPending *bool `json:"remapPending,omitempty"`
	RemapFailed  *bool `json:"remapFailed,omitempty"`
	// ClockEvents are the reasons for lower clocks, as bits of nvmlClocksEventReasons.
	ClockEvents *uint64 `json:"clockEvents,omitempty"`
	// Links are the NVLinks that exist.
	Links []Link `json:"links,omitempty"`
}

// A Link is one NVLink of a device.
type Link struct {
	Number int  `json:"number"`
	Active bool `json:"active"`
}

// Recovery is what a GPU needs to be sound again: the values of NVML's field 230.
type Recovery int

// The recovery actions.
const (
	RecoveryNone          Recovery = 0
	RecoveryReset         Recovery = 1
	RecoveryReboot        Recovery = 2
	RecoveryDrainP2P      Recovery = 3
	RecoveryDrainAndReset Recovery = 4
	RecoveryIMEX          Recovery = 5
	RecoveryBusReset      Recovery = 6
	RecoverySystemReboot  Recovery = 7
)

// An Event is something that the driver told of itself.
type Event struct {
	// Seq grows from event to event for as long as the reader lives.
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	// UUID is that of the GPU; empty if the driver does not tell.
	UUID string `json:"uuid,omitempty"`
	// XID is the number of a critical error; 0 for the others.
	XID uint64 `json:"xid,omitempty"`
	// Kind says what it was: see the constants.
	Kind EventKind `json:"kind"`
	GI   uint32    `json:"gi"`
	CI   uint32    `json:"ci"`
}

// EventKind says what an Event is about.
type EventKind string

// The kinds of events.
const (
	EventXID         EventKind = "XID"
	EventUnavailable EventKind = "Unavailable" // the GPU cannot be used any more
	EventRecovery    EventKind = "Recovery"    // the recovery action has changed
	EventGap         EventKind = "Gap"         // nobody listened for a while: what happened is not known
)
