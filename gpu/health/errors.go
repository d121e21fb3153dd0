package health

import (
	"slices"
	"time"

	"pitstop.dev/gpu"
)

const (
	// mostErrors bounds what is kept of one GPU.
	mostErrors = 32
	// errorsFor is how long an error is kept that does not stand.
	errorsFor = 24 * time.Hour
)

// An owner says whose events are meant: those of a GPU with these UUIDs, its own and those of its MIG devices.
type owner []string

func (o owner) is(uuid string) bool { return slices.Contains(o, uuid) }

// gather adds the round's events of one GPU to what is known. Those of the same kind in a window are one. stands
// reports whether one of the new ones makes the GPU sick.
func (c Config) gather(known []Error, in Input, mine owner) (all []Error, stands bool) {
	all = slices.Clone(known)
	for i := range all {
		all[i].Fresh = false
	}
	for _, e := range in.Events {
		if !mine.is(e.UUID) || e.Kind != gpu.EventXID && e.Kind != gpu.EventUnavailable {
			continue
		}
		one := c.classify(e)
		one.Expected = slices.Contains(c.Expected, e.XID) &&
			slices.ContainsFunc(in.Windows, func(w Window) bool { return w.covers(mine, e.At) })
		one.Stands = one.Class.Grave() && !one.Expected
		stands = stands || one.Stands
		all = c.add(all, one)
	}
	return bounded(all, in.Reading.At), stands
}

// bounded drops what is old, then the oldest of what does not stand.
func bounded(all []Error, now time.Time) []Error {
	all = slices.DeleteFunc(all, func(e Error) bool { return !e.Stands && now.Sub(e.Last) > errorsFor })
	for len(all) > mostErrors {
		i := max(0, slices.IndexFunc(all, func(e Error) bool { return !e.Stands }))
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// classify says what an event is.
func (c Config) classify(e gpu.Event) Error {
	out := Error{Kind: e.Kind, XID: e.XID, Class: Reboot, First: e.At, Last: e.At, Count: 1, Fresh: true}
	if e.Kind == gpu.EventXID {
		out.Class = c.Classes.Class(e.XID)
	}
	return out
}

// add puts one error to the others, or counts it with its like.
func (c Config) add(errors []Error, e Error) []Error {
	for i := range errors {
		o := &errors[i]
		if o.Kind == e.Kind && o.XID == e.XID && o.Expected == e.Expected && e.First.Sub(o.First) <= c.Window {
			o.Count++
			if e.Last.After(o.Last) {
				o.Last = e.Last
			}
			o.Stands = o.Stands || e.Stands
			return errors
		}
	}
	return append(errors, e)
}
