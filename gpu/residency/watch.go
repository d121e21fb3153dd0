package residency

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// A Watch is what the samples so far say of the Pod's GPUs. The zero value has seen nothing. It is a value: Next
// returns another one.
type Watch struct {
	// GPUs are those of the baseline; without one those of the samples, or one without a UUID.
	GPUs []GPU
	// HeldAt is the latest sample in which memory of the replaced containers was held.
	HeldAt time.Time
}

// A GPU is the judgement on one GPU.
type GPU struct {
	UUID string
	// Verdict is empty while there is none.
	Verdict v1alpha1.Verdict
	// Why says what is held by whom, or what is not known; empty if nothing is wrong.
	Why string
	// By is when memory that is held now must have been given back; zero if none is.
	By time.Time
	// OwnMiB is what the Pod's processes held at the latest look that could tell; -1 if none could.
	OwnMiB int64

	since    time.Time // first sample of the run that the latest one that says something belongs to
	of       state     // that run's
	turns    int       // how many runs there were
	readable time.Time // latest sample that says something
}

// Passes reports whether a verdict lets the update go on.
func Passes(v v1alpha1.Verdict) bool {
	return v == v1alpha1.VerdictUnknown || proven(v)
}

// proven reports whether a verdict says that all is well, and not only that nothing is known.
func proven(v v1alpha1.Verdict) bool {
	return v == v1alpha1.VerdictReleased || v == v1alpha1.VerdictReloaded || v == v1alpha1.VerdictRetained
}

// Stops reports whether a verdict stops the update.
func Stops(v v1alpha1.Verdict) bool {
	return v == v1alpha1.VerdictLeaked || v == v1alpha1.VerdictHeldByOther || v == v1alpha1.VerdictMoved
}

// Pod is the judgement on all GPUs together: that on the worst one. Its verdict is empty while one is missing that
// may yet come, unless the update is to be stopped already.
func (w Watch) Pod() GPU {
	var worst GPU
	for i, g := range w.GPUs {
		by := badness(g.Verdict) - badness(worst.Verdict)
		if i == 0 || by > 0 || by == 0 && g.By.After(worst.By) {
			worst = g
		}
	}
	return worst
}

func badness(v v1alpha1.Verdict) int {
	return slices.Index([]v1alpha1.Verdict{
		v1alpha1.VerdictReleased, v1alpha1.VerdictReloaded, v1alpha1.VerdictRetained, v1alpha1.VerdictUnknown, "",
		v1alpha1.VerdictMoved, v1alpha1.VerdictHeldByOther, v1alpha1.VerdictLeaked,
	}, v)
}

// Next returns the watch with one more sample. A verdict that says that all is well stays one; the others follow what
// is found.
func (w Watch) Next(s Sample, c Circumstances) Watch {
	c.Params = c.Params.WithDefaults()
	switch {
	case c.Baseline == nil:
		return w.lost(s, "what the GPUs held before the swap is not known")
	case s.Fault == "" && !s.blind() && s.BootID != c.Baseline.BootID:
		return w.lost(s, "the node was booted since the swap")
	case c.Since.IsZero() || s.At.Before(c.Since):
		return w
	}
	c.at = s.At
	next := Watch{GPUs: slices.Clone(w.GPUs), HeldAt: w.HeldAt}
	for _, u := range c.Baseline.GPUs {
		next.add(u.UUID)
	}
	moved := s.Fault == "" && !s.blind() && c.moved(s)
	for i := range next.GPUs {
		g := &next.GPUs[i]
		f := c.find(s, g.UUID)
		if moved {
			f = finding{state: held, verdict: v1alpha1.VerdictMoved, from: c.Since, own: f.own, why: "the Pod has other GPUs than before the swap: " + names(s)}
		}
		if f.state == held && f.old {
			next.HeldAt = s.At
		}
		g.next(s, f, c)
	}
	return next
}

// find judges one GPU of a sample.
func (c Circumstances) find(s Sample, uuid string) finding {
	if s.Fault != "" || s.blind() {
		return finding{own: -1, why: cmp.Or(s.Fault, "the GPUs cannot be looked at: "+string(s.State))}
	}
	i := slices.IndexFunc(s.Devices, func(d Device) bool { return d.UUID == uuid })
	if i < 0 {
		return finding{own: -1, why: uuid + " is not among the Pod's GPUs" + s.untold()}
	}
	return c.judge(s.Devices[i])
}

// moved reports whether the Pod is known to have other GPUs than before. One that has none just now has not been told
// its GPUs, and a device that is not known may be any of those that are missing.
func (c Circumstances) moved(s Sample) bool {
	if len(s.Devices) == 0 {
		return false
	}
	return !s.Partial && len(s.Devices) < len(c.Baseline.GPUs) || slices.ContainsFunc(s.Devices, func(d Device) bool {
		_, ok := c.Baseline.usage(d.UUID)
		return !ok && d.UUID != ""
	})
}

// untold says which device of a sample is not known.
func (s Sample) untold() string {
	for _, d := range s.Devices {
		if d.UUID == "" {
			return ": " + d.Fault
		}
	}
	return ""
}

func names(s Sample) string {
	var uuids []string
	for _, d := range s.Devices {
		uuids = append(uuids, cmp.Or(d.UUID, "one that is not known"))
	}
	return strings.Join(uuids, ", ")
}

// lost is the watch without a baseline: nothing can be told, whatever is found.
func (w Watch) lost(s Sample, why string) Watch {
	next := Watch{GPUs: slices.Clone(w.GPUs), HeldAt: w.HeldAt}
	for _, d := range s.Devices {
		next.add(d.UUID)
	}
	if len(next.GPUs) == 0 {
		next.add("")
	}
	for i := range next.GPUs {
		if next.GPUs[i].Verdict == "" {
			next.GPUs[i].Verdict, next.GPUs[i].Why = v1alpha1.VerdictUnknown, why
		}
	}
	return next
}

func (w *Watch) add(uuid string) {
	if !slices.ContainsFunc(w.GPUs, func(g GPU) bool { return g.UUID == uuid }) {
		w.GPUs = append(w.GPUs, GPU{UUID: uuid, OwnMiB: -1})
	}
}

// next takes one finding.
func (g *GPU) next(s Sample, f finding, c Circumstances) {
	if f.own >= 0 {
		g.OwnMiB = f.own
	}
	if f.state != unknown {
		if f.state != g.of {
			g.since, g.turns = s.At, g.turns+1
		}
		g.of, g.readable = f.state, s.At
	}
	by, twice := g.due(f, c), s.At.Sub(g.since) >= apart
	switch {
	case f.state == clean && (twice || proven(g.Verdict)):
		g.Verdict, g.Why, g.By = f.verdict, "", time.Time{}
	case proven(g.Verdict): // what comes later is not the old containers'
	case f.state == held && twice && !s.At.Before(by):
		g.Verdict, g.Why, g.By = f.verdict, f.why, by
	case f.state == clean:
		g.By = time.Time{}
		g.back()
		g.unsettled(s, by, c)
	case f.state == held:
		g.Why, g.By = f.why, by
		g.back()
		g.unsettled(s, by, c)
	case Stops(g.Verdict): // a look that fails does not undo what was seen
	default:
		g.Why = f.why
		if s.blind() || s.At.Sub(later(g.readable, c.Since)) >= c.Params.Patience {
			g.Verdict = v1alpha1.VerdictUnknown
		}
	}
}

// due is when a GPU must have been given back. A container that has ended since the swap has the time from its own end,
// but not where the GPU was held before that already: who holds it may change, and the time is that of the swap.
func (g *GPU) due(f finding, c Circumstances) time.Time {
	from := f.from
	if g.since.Before(from) {
		from = g.since
	}
	return later(c.Since, from).Add(c.Params.Release)
}

// unsettled ends the wait for a GPU that is held in one look and free in the next, some time after the deadline.
func (g *GPU) unsettled(s Sample, by time.Time, c Circumstances) {
	if g.Verdict == "" && g.turns > 3 && s.At.Sub(by) >= c.Params.Patience {
		g.Verdict = v1alpha1.VerdictUnknown
		g.Why = cmp.Or(g.Why, g.UUID+" is held in one look and free in the next")
	}
}

// back takes an Unknown back once there is something to judge by again.
func (g *GPU) back() {
	if g.Verdict == v1alpha1.VerdictUnknown {
		g.Verdict = ""
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
