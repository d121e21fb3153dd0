// Package stub is a libnvidia-ml.so.1 without a GPU, for tests: the library in lib (Library compiles it) says what
// a state file says, and reads it on each call. The real probe loads it, so that everything but the driver is real.
//
// The library finds the file by the environment variable PITSTOP_STUB_GPUS, or as gpus.state beside itself. A change
// is a new file that is renamed into place under a lock on <file>.lock, so that tests, engines in containers and
// the library can share it: mount its folder, not the file, and let all of them write there.
//
// The format is one thing per line, its kind first and then key=value words; values hold no blanks. The rest of a
// line that starts with # is ignored, and so are kinds and keys that nobody knows.
//
//	driver VERSION            the driver's version. A library that was loaded under another one answers code 18
//	                          (version mismatch) until the process loads it anew
//	calls FILE                every call is noted in FILE: milliseconds of a monotonic clock, and its name
//	gpu                       a GPU; their order is that of the indices
//	  uuid= minor= pci= name=
//	  total= reserved= used=  MiB; used is held by no process: a leak
//	  recovery=               the recovery action, field 230
//	  ecc=                    uncorrected errors; -1: ECC is off
//	  pending= failed=        row remap, fields 144 and 145
//	  clocks=                 reasons for lower clocks
//	  links= down=            NVLinks that are active, and that are not
//	  coherent=1              its memory is the operating system's; nomem=1: memory info is not supported
//	  mig=1                   MIG mode; its MIG devices are lines of their own
//	  events=                 mask of the event types that it supports (default 0xC008)
//	mig                       a MIG device
//	  gpu= uuid= gi= ci= total=
//	process                   a process that holds memory on a device
//	  gpu=                    UUID of the GPU or MIG device
//	  pid= ns= start=         its PID in the PID namespace ns (an inode number), and its start time (field 22 of
//	                          /proc/PID/stat): the library finds the PID that the process has in its own namespace.
//	                          ns 0 is the library's namespace, start 0 any
//	  mib=                    -1: the driver does not tell
//	  list=                   compute (default), graphics or mps
//	  release=                milliseconds that the memory stays held after the process was first seen to be gone;
//	                          -1: for ever
//	  fixed=1                 listed as it is, whether there is such a process or not
//	event                     something that the driver tells, once to each event set that is older and has the GPU
//	  id=                     grows from event to event
//	  gpu= mig= type= xid=    mig: UUID of the MIG device that it belongs to; type defaults to 8, XID
//	fault                     what goes wrong, for as long as the line stands
//	  call=                   the function, without _v2 and _v3 (but nvmlDeviceGetMemoryInfo_v2); *: all but nvmlInit
//	                          and nvmlShutdown
//	  gpu=                    only on this device
//	  code=                   it returns this code
//	  hang=1                  it does not return
//	  stride=1                it writes the process list in the layout that driver 535 had for a while
//
// Functions that a driver lacks are left out when the library is compiled.
package stub

// Env names the state file for the library.
const Env = "PITSTOP_STUB_GPUS"

// FileName is that of the state file beside the library.
const FileName = "gpus.state"

// Event types, as in NVML.
const (
	TypeXID         = 0x8
	TypeUnavailable = 0x4000
	TypeRecovery    = 0x8000
)

// A State is what a state file says. The package comment has the meaning of the fields, which are named by its keys.
type State struct {
	Driver    string
	Calls     string
	GPUs      []GPU
	MIGs      []MIG
	Processes []Process
	Events    []Event
	Faults    []Fault
}

// A GPU is a line of kind gpu.
type GPU struct {
	UUID, PCI, Name        string
	Minor                  int
	Total, Reserved, Used  int
	Recovery, ECC          int
	Pending, Failed        int
	Clocks, Links, Down    int
	Coherent, NoMem, InMIG int
	Events                 int // 0: the default
}

// A MIG is a line of kind mig.
type MIG struct {
	GPU, UUID     string
	GI, CI, Total int
}

// A Process is a line of kind process.
type Process struct {
	GPU            string
	PID, NS, Start int
	MiB            int
	List           string // empty: compute
	Release        int
	Fixed          int
}

// An Event is a line of kind event.
type Event struct {
	ID        int
	GPU, MIG  string
	Type, XID int
}

// A Fault is a line of kind fault.
type Fault struct {
	Call, GPU          string
	Code, Hang, Stride int
}
