package residency

import (
	"cmp"
	"slices"
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
	culprit  Holder
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
		if i == 0 || badness(g.Verdict) > badness(worst.Verdict) {
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
			f = finding{state: held, verdict: v1alpha1.VerdictMoved, by: c.Since.Add(c.Params.Release), own: f.own, why: "the Pod has other GPUs than before the swap: " + names(s)}
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
		return finding{own: -1, why: uuid + " is not among the Pod's GPUs"}
	}
	return c.judge(s.Devices[i])
}

// moved reports whether the Pod has other GPUs than before. One that has none just now has not been told its GPUs.
func (c Circumstances) moved(s Sample) bool {
	if len(s.Devices) == 0 {
		return false
	}
	return len(s.Devices) != len(c.Baseline.GPUs) || slices.ContainsFunc(s.Devices, func(d Device) bool {
		_, ok := c.Baseline.usage(d.UUID)
		return !ok
	})
}

func names(s Sample) string {
	text := ""
	for i, d := range s.Devices {
		if i > 0 {
			text += ", "
		}
		text += d.UUID
	}
	return text
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
		if f.state != g.of || f.culprit.PID != g.culprit.PID || f.culprit.Started != g.culprit.Started {
			g.since = s.At
		}
		g.of, g.culprit, g.readable = f.state, f.culprit, s.At
	}
	twice := s.At.Sub(g.since) >= apart
	switch {
	case f.state == clean && (twice || proven(g.Verdict)):
		g.Verdict, g.Why, g.By = f.verdict, "", time.Time{}
	case proven(g.Verdict): // what comes later is not the old containers'
	case f.state == clean:
		g.By = time.Time{}
		g.back()
	case f.state == held && twice && !s.At.Before(f.by):
		g.Verdict, g.Why, g.By = f.verdict, f.why, f.by
	case f.state == held:
		g.Why, g.By = f.why, f.by
		g.back()
	case Stops(g.Verdict): // a look that fails does not undo what was seen
	default:
		g.Why = f.why
		if s.blind() || s.At.Sub(later(g.readable, c.Since)) >= c.Params.Patience {
			g.Verdict = v1alpha1.VerdictUnknown
		}
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
