package residency

import (
	"fmt"
	"slices"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// A finding is what one sample says of one GPU.
type finding struct {
	state state
	// verdict is what the finding comes to once it counts: one that passes if clean, one that stops if held.
	verdict v1alpha1.Verdict
	// from is when what holds a GPU should have let go of it, were that a matter of an instant.
	from time.Time
	// old: it is what the replaced containers held that is held, and not what one after them did.
	old bool
	// why says for people what is wrong, or not known.
	why string
	// own is what the Pod's processes hold, -1 if that is not known.
	own int64
}

type state int

// The states of a finding. The zero value says nothing.
const (
	unknown state = iota
	clean
	held
)

// judge says what a sample tells of one GPU.
func (c Circumstances) judge(d Device) finding {
	t, f := c.sort(d), finding{own: -1}
	if d.Fault != "" {
		f.why = d.Fault
		return f
	}
	f.own = t.own()
	if len(t.left) > 0 {
		worst := slices.MinFunc(t.left, func(a, b Holder) int { return c.ended(a).Compare(c.ended(b)) })
		f.state, f.verdict, f.from = held, v1alpha1.VerdictLeaked, c.ended(worst)
		f.old = slices.ContainsFunc(t.left, c.older)
		f.why = fmt.Sprintf("%s: %s still holds memory, and belongs to no running container of the Pod", d.UUID, worst)
		return f
	}
	if g, over := c.grown(d, t); over {
		g.own = f.own
		return g
	}
	if g, over := c.excess(d, t); over {
		g.own = f.own
		return g
	}
	if f.why = c.swollen(d, t); f.why != "" {
		return f
	}
	if len(t.undecided) > 0 {
		f.why = fmt.Sprintf("%s: it is not known whose %s is", d.UUID, t.undecided[0])
		return f
	}
	f.state, f.verdict = clean, v1alpha1.VerdictReleased
	switch {
	case len(t.kept) > 0:
		f.verdict = v1alpha1.VerdictRetained
	case len(t.fresh) > 0:
		f.verdict = v1alpha1.VerdictReloaded
	}
	return f
}

// sorted are the holders of a GPU by what they are to the Pod.
type sorted struct {
	fresh     []Holder // of its new containers
	kept      []Holder // of containers that have run since before the swap
	left      []Holder // of what is no more
	outside   []Holder // of others
	undecided []Holder
}

func (c Circumstances) sort(d Device) sorted {
	var t sorted
	for _, h := range d.Holders {
		was, before := c.Baseline.was(h)
		switch {
		case before && c.replaced(was.ContainerID):
			t.left = append(t.left, h)
		case h.Ownership == Contained && h.PodUID == c.PodUID:
			t.inPod(c, h)
		case h.Ownership == Undecided, h.Ownership == Ghost:
			t.undecided = append(t.undecided, h)
		default:
			t.outside = append(t.outside, h)
		}
	}
	return t
}

// inPod sorts a process of a container of the Pod.
func (t *sorted) inPod(c Circumstances, h Holder) {
	now, ok := c.container(h.ContainerID)
	switch {
	case !ok || !now.Current && !c.at.Before(now.Ended): // one that has ended since the look ran then
		t.left = append(t.left, h)
	case now.Before:
		t.kept = append(t.kept, h)
	default:
		t.fresh = append(t.fresh, h)
	}
}

// older reports whether a process is of a container that was made before the swap.
func (c Circumstances) older(h Holder) bool {
	one, ok := c.container(h.ContainerID)
	return !ok || one.Before
}

// own is what the processes of the Pod hold together.
func (t sorted) own() int64 {
	return sum(sum(total(t.fresh), total(t.kept)), total(t.left))
}

func total(list []Holder) int64 {
	var n int64
	for _, h := range list {
		n = sum(n, h.MiB)
	}
	return n
}

// ended is when the container of a process ended. The end of one that the runtime does not know any more is not after
// that of the old containers.
func (c Circumstances) ended(h Holder) time.Time {
	if one, ok := c.container(h.ContainerID); ok {
		return later(c.Since, one.Ended)
	}
	return c.Since
}

// grown reports whether a resident holds more than was declared on a GPU that it shares with a container that was
// replaced, as one that has imported the memory of the other would.
func (c Circumstances) grown(d Device, t sorted) (finding, bool) {
	if !c.wasReplacedOn(d.UUID) {
		return finding{}, false
	}
	for _, one := range c.Containers {
		now := t.keptBy(one)
		may, declared := c.Residents[one.Name]
		holds := total(now)
		if !declared || len(now) == 0 || holds <= may+c.Params.SlackMiB {
			continue
		}
		return finding{
			state: held, verdict: v1alpha1.VerdictLeaked, from: c.Since,
			why: fmt.Sprintf("%s: container %s, which was not replaced, holds %d MiB and may keep %d: %s", d.UUID, one.Name, holds, may, now[0]),
		}, true
	}
	return finding{}, false
}

// swollen says which container without a declaration holds more than before on a GPU that it shares with one that was
// replaced; empty: none. It may be loading by itself, or serve the new engine, so that this stops nothing.
func (c Circumstances) swollen(d Device, t sorted) string {
	if !c.wasReplacedOn(d.UUID) {
		return ""
	}
	for _, one := range c.Containers {
		now, was := total(t.keptBy(one)), c.Baseline.of(one.ID, d.UUID)
		if _, declared := c.Residents[one.Name]; declared || now < 0 || was < 0 || now <= was+c.Params.SlackMiB {
			continue
		}
		return fmt.Sprintf("%s: container %s, which was not replaced, holds %d MiB, %d more than before, and it is not declared how much it may",
			d.UUID, one.Name, now, now-was)
	}
	return ""
}

// keptBy are the processes of a container that was not replaced.
func (t sorted) keptBy(one Container) []Holder {
	var list []Holder
	for _, h := range t.kept {
		if h.ContainerID == one.ID {
			list = append(list, h)
		}
	}
	return list
}

// wasReplacedOn reports whether a container that held memory of the GPU was replaced.
func (c Circumstances) wasReplacedOn(uuid string) bool {
	for _, p := range c.Baseline.Processes {
		if p.GPU == uuid && c.replaced(p.ContainerID) {
			return true
		}
	}
	return false
}

// excess reports whether more is used than the Pod's running containers hold and was used besides before, or that
// this cannot be told though it matters.
func (c Circumstances) excess(d Device, t sorted) (finding, bool) {
	if d.Coherent || d.Shared {
		return finding{}, false
	}
	if d.Memory == nil {
		return finding{why: d.UUID + ": its used memory is not known"}, true
	}
	own, before := t.own(), c.besides(d)
	switch {
	case own < 0: // the driver tells no sizes, so that there is nothing to subtract
		return finding{}, false
	case before < 0:
		return finding{why: d.UUID + ": its used memory cannot be compared with that before"}, true
	}
	over := d.Memory.Used - own - before
	if over <= c.Params.SlackMiB {
		return finding{}, false
	}
	if may := total(t.undecided); may < 0 || may > 0 && over-may <= c.Params.SlackMiB {
		return finding{why: fmt.Sprintf("%s: it is not known whose %s is", d.UUID, t.undecided[0])}, true
	}
	f := finding{state: held, verdict: v1alpha1.VerdictHeldByOther, from: c.lastEnd()}
	f.old = !slices.ContainsFunc(c.Containers, func(one Container) bool {
		return !one.Before && !one.Ended.IsZero() && !one.Ended.After(c.at)
	})
	f.why = fmt.Sprintf("%s: %d MiB more than before are used, and no process that can be seen holds them", d.UUID, over)
	if h, ok := largest(t.outside); ok {
		f.why = fmt.Sprintf("%s: %d MiB more than before are used, and not by the Pod: %s is the largest other holder", d.UUID, over, h)
		if over-total(t.outside) <= c.Params.SlackMiB { // others hold it all: no container that ended since has to do with it
			f.from = c.Since
		}
	}
	return f, true
}

// besides is what was used on a GPU without any process of the Pod; -1 if that is not known.
func (c Circumstances) besides(d Device) int64 {
	u, ok := c.Baseline.usage(d.UUID)
	if ok && u.Memory != nil && u.Memory.Version == d.Memory.Version && u.OwnMiB >= 0 {
		return max(0, u.Memory.Used-u.OwnMiB)
	}
	return -1
}

// lastEnd is when a container of the Pod last ended. Memory without a process may be of any of them.
func (c Circumstances) lastEnd() time.Time {
	at := c.Since
	for _, one := range c.Containers {
		at = later(at, one.Ended)
	}
	return at
}

func largest(list []Holder) (Holder, bool) {
	if len(list) == 0 {
		return Holder{}, false
	}
	most := list[0]
	for _, h := range list[1:] {
		if h.MiB > most.MiB {
			most = h
		}
	}
	return most, true
}

// blind reports that nothing can be seen, for a reason that no further look changes.
func (s Sample) blind() bool { return s.State == gpu.Absent || s.State == gpu.Released }
