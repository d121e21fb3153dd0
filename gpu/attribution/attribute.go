package attribution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"pitstop.dev/gpu"
)

// A Runtime is the node's container runtime, which knows the containers of this node and no others.
type Runtime interface {
	// Container returns what the runtime knows of the container with this id. The error is ErrUnknownContainer if
	// it has none.
	Container(ctx context.Context, id string) (Container, error)
}

// ErrUnknownContainer reports that the runtime has no container with this id.
var ErrUnknownContainer = errors.New("container unknown to the runtime")

// A Container is what the runtime knows of one.
type Container struct {
	PodUID string
	Name   string
	// PID of its first process; 0: it does not run, or the runtime does not say.
	PID int32
}

// An Outcome says what is known about where a process belongs.
type Outcome string

// The outcomes.
const (
	// Attributed: control groups and runtime agree on the container.
	Attributed Outcome = "Attributed"
	// Unattributed: it holds memory, and belongs to no container that the runtime knows; Reason says more.
	Unattributed Outcome = "Unattributed"
	// Undecided: sources disagree, or one did not answer.
	Undecided Outcome = "Unknown"
)

// A Reason is why a process is not attributed.
type Reason string

// The reasons.
const (
	// Untold: the driver gave no PID.
	Untold Reason = "Untold"
	// NotInProcfs: there is no process with the PID that the driver gave: it has ended, or is in another namespace.
	NotInProcfs Reason = "NotInProcfs"
	// OnHost: a process of the node, in no Pod.
	OnHost Reason = "OnHost"
	// InPod: in a Pod's control group and in no container's; PodUID names the Pod.
	InPod Reason = "InPod"
	// UnknownContainer: the runtime has no such container: another node's, or one that was removed.
	UnknownContainer Reason = "UnknownContainer"
	// Disagreement: control groups and runtime do not say the same. Of an Undecided process.
	Disagreement Reason = "Disagreement"
	// Unreadable: procfs or the runtime did not answer. Of an Undecided process.
	Unreadable Reason = "Unreadable"
)

// A Holder is a process that holds memory of a device.
type Holder struct {
	// Identity has the PID alone if the process is not in procfs.
	Identity
	// MiB that it holds; -1 if the driver does not tell.
	MiB int64
	// MIG is the UUID of the MIG device that it is on; empty without MIG, and if that is not known.
	MIG     string
	Outcome Outcome
	Reason  Reason // empty if Attributed
	Message string // says more, for people
	// PodUID, ContainerID and Container are those of an attributed one; of others as far as control groups tell.
	PodUID, ContainerID string
	Container           string // name
	Command, Line       string
	// Ended: a zombie without threads, which holds nothing for long.
	Ended bool
}

// Holders are those of one device.
type Holders struct {
	UUID string
	// Known: all that hold memory are in List. Each may be Undecided all the same.
	Known bool
	Fault string // why not Known
	List  []Holder
}

// An Attributor joins what the driver, procfs and the runtime say.
type Attributor struct {
	Procfs  Procfs
	Runtime Runtime
}

// Attribute says for each device of a reading which processes hold its memory, and whose they are. Processes are
// looked up now, so that the reading should be fresh. A reading that is not Up has no devices, and known is false
// unless there are no GPUs.
func (a Attributor) Attribute(ctx context.Context, r gpu.Reading) (list []Holders, known bool) {
	if r.State != gpu.Up {
		return nil, r.State == gpu.Absent
	}
	look := &look{Attributor: a, containers: map[string]found{}, seen: map[int32]Holder{}}
	for _, d := range r.Devices {
		list = append(list, look.device(ctx, d))
	}
	return list, true
}

// A look is one attribution: each process and each container is asked about once.
type look struct {
	Attributor
	containers map[string]found
	seen       map[int32]Holder
}

type found struct {
	Container
	err error
}

// device lists the holders of a device and of its MIG devices.
func (l *look) device(ctx context.Context, d gpu.Device) Holders {
	h := Holders{UUID: d.UUID, Known: d.Processes.Known && d.Fault == "" && !d.Lost, Fault: cmp.Or(d.Fault, d.Processes.Fault)}
	if d.Lost {
		h.Fault = cmp.Or(h.Fault, "the device is lost")
	}
	for _, m := range d.MIG {
		if !m.Processes.Known {
			h.Known, h.Fault = false, cmp.Or(h.Fault, m.UUID+": "+cmp.Or(m.Processes.Fault, "processes unknown"))
		}
	}
	if !h.Known {
		h.Fault = cmp.Or(h.Fault, "processes unknown")
	}
	for _, p := range Union(d) {
		holder := l.process(ctx, p.PID)
		holder.MiB = p.UsedMiB
		for _, m := range d.MIG {
			if p.GI != gpu.NoInstance && m.GI == p.GI && (p.CI == gpu.NoInstance || m.CI == p.CI) {
				holder.MIG = m.UUID
			}
		}
		h.List = append(h.List, holder)
	}
	return h
}

// Union returns the processes of a device and of its MIG devices, each once for every instance it is on. A size that
// is told beats one that is not.
func Union(d gpu.Device) []gpu.Process {
	all := slices.Clone(d.Processes.List)
	for _, m := range d.MIG {
		for _, p := range m.Processes.List {
			if p.GI == gpu.NoInstance {
				p.GI, p.CI = m.GI, m.CI
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.GI, b.GI), cmp.Compare(a.CI, b.CI), cmp.Compare(b.UsedMiB, a.UsedMiB))
	})
	return slices.CompactFunc(all, func(a, b gpu.Process) bool {
		// Processes without a PID cannot be told apart, so that none stands for another.
		return a.PID == b.PID && a.PID != 0 && a.GI == b.GI && a.CI == b.CI
	})
}

// process says whose a PID is.
func (l *look) process(ctx context.Context, pid int32) Holder {
	if h, ok := l.seen[pid]; ok {
		return h
	}
	h := l.locate(ctx, pid)
	l.seen[pid] = h
	return h
}

func (l *look) locate(ctx context.Context, pid int32) Holder {
	h := Holder{Identity: Identity{PID: pid}}
	if pid <= 0 {
		return h.unattributed(Untold, "the driver gives no PID")
	}
	p, err := l.Procfs.Process(pid)
	if errors.Is(err, ErrNoProcess) {
		return h.unattributed(NotInProcfs, err.Error())
	}
	if err != nil {
		return h.undecided(Unreadable, err)
	}
	h.Identity, h.Command, h.Line = p.Identity, p.Command, p.Line
	h.Ended = p.Zombie && p.Threads <= 1
	places, err := ParseCgroup(p.Cgroup)
	if err != nil {
		return h.undecided(Disagreement, err)
	}
	if len(places) == 0 && p.Zombie {
		// Linux before 5.2 takes a dead process out of its control groups.
		return h.undecided(Unreadable, errors.New("a zombie, which no longer tells its control groups"))
	}
	if len(places) == 0 {
		return h.unattributed(OnHost, "in no Pod")
	}
	return l.place(ctx, h, places)
}

// place asks the runtime which of the places is one of its containers.
func (l *look) place(ctx context.Context, h Holder, places []Place) Holder {
	innermost := places[len(places)-1]
	h.PodUID, h.ContainerID = innermost.PodUID, innermost.ContainerID
	match, n := found{}, 0
	for _, at := range places {
		if at.ContainerID == "" {
			continue
		}
		c := l.container(ctx, at.ContainerID)
		if errors.Is(c.err, ErrUnknownContainer) {
			continue
		}
		if c.err != nil {
			return h.undecided(Unreadable, c.err)
		}
		match, n = c, n+1
		h.PodUID, h.ContainerID = at.PodUID, at.ContainerID
	}
	switch {
	case n > 1:
		return h.undecided(Disagreement, fmt.Errorf("the runtime knows two of %v", places))
	case n == 1:
		return l.agree(h, match.Container)
	case innermost.ContainerID == "":
		return h.unattributed(InPod, "in a Pod's control group and in no container's")
	}
	return h.unattributed(UnknownContainer, "the runtime has no such container")
}

// agree compares what control groups say, which h has, with the runtime.
func (l *look) agree(h Holder, c Container) Holder {
	if h.PodUID != "" && c.PodUID != "" && h.PodUID != c.PodUID {
		return h.undecided(Disagreement, fmt.Errorf("control groups say Pod %s, the runtime says %s", h.PodUID, c.PodUID))
	}
	h.PodUID, h.Container = cmp.Or(h.PodUID, c.PodUID), c.Name
	if c.PID > 0 && c.PID != h.PID {
		if err := l.first(h.ContainerID, c.PID); err != nil {
			return h.undecided(Disagreement, err)
		}
	}
	h.Outcome = Attributed
	return h
}

// first checks that the container's first process by the runtime is in the container by its control groups. One that
// has ended since the runtime was asked says nothing.
func (l *look) first(id string, pid int32) error {
	p, err := l.Procfs.Process(pid)
	if errors.Is(err, ErrNoProcess) || err == nil && p.Zombie {
		return nil
	}
	if err != nil {
		return err
	}
	places, err := ParseCgroup(p.Cgroup)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(places, func(at Place) bool { return at.ContainerID == id }) {
		return fmt.Errorf("the runtime says that process %d is the first of the container, control groups say %v", pid, places)
	}
	return nil
}

func (l *look) container(ctx context.Context, id string) found {
	if c, ok := l.containers[id]; ok {
		return c
	}
	c, err := l.Runtime.Container(ctx, id)
	l.containers[id] = found{c, err}
	return l.containers[id]
}

func (h Holder) unattributed(r Reason, message string) Holder {
	h.Outcome, h.Reason, h.Message = Unattributed, r, message
	return h
}

func (h Holder) undecided(r Reason, err error) Holder {
	h.Outcome, h.Reason, h.Message = Undecided, r, err.Error()
	return h
}
