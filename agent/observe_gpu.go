package agent

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/residency"
)

// How often the GPUs of a Pod are looked at, and how long a look is waited for.
const (
	lookOften  = 500 * time.Millisecond // while something waits for it
	lookSeldom = 5 * time.Second        // once all is well, until the update ends
	// lookPatience is how long a held Pod waits for a look at GPUs that can be read in part, blindPatience for one at GPUs
	// of which nothing can be read, and servingPatience how long one that serves does. Then the update goes on: a node whose
	// probe is broken for good must be upgradable.
	lookPatience    = 2 * time.Second
	blindPatience   = 10 * time.Second
	servingPatience = 2 * time.Minute
	// verdictGrace is how long after the release deadline the looks may take that end in a verdict: it names who holds
	// the memory, as the end of a crash loop would not.
	verdictGrace = lookTimeout + 2*lookOften
)

// A memory is what this process has seen of the GPUs of one open attempt.
type memory struct {
	asked    time.Time           // latest look
	awaited  time.Time           // since when a look is waited for; zero: none is
	last     residency.Sample    // of the latest look that is over
	good     residency.Sample    // the latest one that makes a baseline
	baseline *residency.Baseline // as reported with Drained
	watch    residency.Watch
	patched  time.Time                // the swap that the rest is about
	ended    time.Time                // of the last old container; zero: not known yet
	ready    time.Time                // when the new engine was first seen to be ready
	starts   map[string]cri.Container // by container: the first one after the swap, as the runtime had it last
	retried  map[string]bool          // containers whose first start failed for want of memory
}

// observeGPUs fills in what is known of the Pod's GPUs. Pods without devices, and nodes on which nobody can look, are
// left as they are.
func (a *Agent) observeGPUs(s *sight, u *Update) {
	m := &s.track.memory
	if a.cfg.Residency == nil || len(extended(s.pod)) == 0 || u.Report.Stage.Ended() || m.none() {
		return
	}
	if m.baseline == nil {
		m.baseline = s.recordedBaseline()
	}
	swapped := u.Pod.patchedByOrder || u.swapOpen() && m.baseline != nil
	u.GPUs.Judged = swapped && (!u.reached(v1alpha1.StageVerified) || u.failed())
	if u.GPUs.Judged {
		a.judge(s, u)
	}
	m.awaitGPUs(u, a.cfg.NodeName, s.now)
	if every := lookEvery(u, m, s.now); every > 0 {
		u.GPUs.LookAt = m.asked.Add(every)
		if !s.now.Before(u.GPUs.LookAt) {
			u.GPUs.Due, u.GPUs.LookAt = true, s.now.Add(every)
			m.asked = s.now
		}
	}
}

// takeLooks takes what the looks at the Pod's GPUs have found since the last time.
func (a *Agent) takeLooks(s *sight) {
	if a.cfg.Residency == nil {
		return
	}
	m := &s.track.memory
	s.looks = a.looks.take(s.pod.UID)
	for _, sample := range s.looks {
		m.last = sample
		if _, ok := residency.Take(sample, string(s.pod.UID)); ok {
			m.good = sample
		}
	}
}

// none reports whether the Pod is known to have no GPUs, or the node no library to look at them.
func (m *memory) none() bool {
	return !m.last.At.IsZero() && m.baseline == nil && m.good.At.IsZero() &&
		(m.last.State == gpu.Absent || m.last.State == gpu.Up && m.last.Fault == "" && len(m.last.Devices) == 0)
}

// awaitGPUs fills in what has to be seen of the GPUs before the next step on the way to the swap: before a Pod is held
// that they can be read, and which they are, under the hold what they hold, for the baseline, and after a restart whether
// the driver is there. All that time they are looked at now and then: it may be let go of at any moment.
func (m *memory) awaitGPUs(u *Update, node string, now time.Time) {
	g, held := &u.GPUs, u.Pod.Hold.Placed()
	if g.Watched = !u.swapped() && len(u.Order.Want) > 0 && u.Order.Permit.Allows(v1alpha1.PermitDrain); !g.Watched {
		return
	}
	switch {
	case m.last.State == gpu.Released:
		m.awaited = time.Time{}
		g.Released, g.Unseen = true, cmp.Or(m.last.Fault, "the GPU driver is released")+
			", so that nobody can see what the Pod's GPUs hold; kubectl pitstop gpu release "+node+" --end takes it again"
		return
	case held && (u.drainedReported() && !m.firstLook(u) || !m.good.At.Before(u.Pod.Hold.LoweredAt)), !held && m.read():
		m.awaited = time.Time{}
		return
	case m.awaited.IsZero(), m.awaited.Before(u.Pod.Hold.LoweredAt):
		m.awaited = now
	}
	patience := servingPatience
	switch {
	case held && m.read():
		patience = lookPatience
	case held:
		patience = blindPatience
	}
	g.AwaitUntil = m.awaited.Add(min(patience, u.Order.Deadline/2))
	g.Unseen = "the Pod's GPUs are being looked at"
	if fault := m.fault(); fault != "" {
		g.Unseen = "what the Pod's GPUs hold cannot be read: " + fault + "; the update goes on without it at " + g.AwaitUntil.UTC().Format(time.RFC3339)
	}
}

// firstLook reports whether a Pod is drained and nobody in this process has looked yet, as after a restart: the driver may
// have been released since. What follows a patch that is not seen through goes on all the same.
func (m *memory) firstLook(u *Update) bool { return m.last.At.IsZero() && !u.swapOpen() }

// read reports whether the latest look could read the GPUs, if not each of them.
func (m *memory) read() bool { return m.last.State == gpu.Up && m.last.Fault == "" }

// fault says why the latest look is no baseline; empty if it is one, or there was none.
func (m *memory) fault() string {
	for _, d := range m.last.Devices {
		if m.last.Fault == "" && d.Fault != "" {
			return d.Fault
		}
	}
	if m.last.Fault == "" && m.last.State == gpu.Absent {
		return "the library of the driver is gone"
	}
	return m.last.Fault
}

// lookEvery is how often the GPUs are to be looked at as things stand; 0: not at all.
func lookEvery(u *Update, m *memory, now time.Time) time.Duration {
	g := u.GPUs
	switch {
	case g.awaitsLook(now) && u.Pod.Hold.Placed():
		return lookOften
	case g.Watched:
		return lookSeldom
	case !g.Judged || m.baseline == nil:
		return 0
	case u.failed() || residency.Passes(g.Verdict):
		return lookSeldom
	}
	return lookOften
}

// judge takes what was seen after the swap into account.
func (a *Agent) judge(s *sight, u *Update) {
	m := &s.track.memory
	defer func() { u.GPUs.ExcusedUntil = a.excusedUntil(s, u) }()
	if m.baseline == nil {
		u.GPUs.Verdict, u.GPUs.Message = v1alpha1.VerdictUnknown, "what the GPUs held before the swap is not known"
		return
	}
	c := a.circumstances(s, u)
	if !u.Node.RuntimeUp {
		s.looks = nil // whose a process is cannot be told without it
	}
	m.noteReady(u, s.now)
	for _, sample := range s.looks {
		m.watch = m.watch.Next(sample, c)
	}
	worst := m.watch.Pod()
	if residency.Passes(worst.Verdict) && m.unseen() {
		worst.Verdict = "" // the look that comes next, even one that fails, ends this
	}
	u.GPUs.Verdict, u.GPUs.Message = worst.Verdict, worst.Why
	if worst.Verdict == "" && !worst.By.IsZero() {
		u.GPUs.HeldUntil = worst.By.Add(verdictGrace)
	}
	for i := range u.Containers {
		s.starve(&u.Containers[i])
	}
}

// excusedUntil is the release deadline, with time for the looks that end in a verdict, unless the memory is known to be free.
func (a *Agent) excusedUntil(s *sight, u *Update) time.Time {
	if u.memoryProven() {
		return time.Time{}
	}
	ended := s.track.memory.ended
	if s.track.memory.baseline == nil {
		ended = s.oldEnded(u)
	}
	if ended.IsZero() {
		ended = s.now
	}
	return ended.Add(residency.Params{Release: a.cfg.ReleaseDeadline}.WithDefaults().Release + verdictGrace)
}

// noteReady notes that the new engine was ready. For a while after the patch it is the old one that kubelet calls ready.
func (m *memory) noteReady(u *Update, now time.Time) {
	if m.ready.IsZero() && u.Pod.ContainersReady && u.wholeAtSpec() {
		m.ready = now
	}
}

// unseen reports whether nobody has looked since the new engine was ready: what was seen before is not what it holds.
func (m *memory) unseen() bool { return !m.ready.IsZero() && m.last.At.Before(m.ready) }

func (a *Agent) circumstances(s *sight, u *Update) residency.Circumstances {
	m, at := &s.track.memory, u.Pod.Patched.At
	if !m.patched.Equal(at) { // what was seen before belongs to the swap of another attempt
		m.patched, m.ended, m.watch, m.ready, m.starts = at, time.Time{}, residency.Watch{}, time.Time{}, nil
	}
	if m.ended.IsZero() && u.Node.RuntimeUp {
		m.ended = s.oldEnded(u)
	}
	c := residency.Circumstances{
		PodUID: string(s.pod.UID), Baseline: m.baseline, Since: m.ended, Residents: residents(s),
		Params: residency.Params{Release: a.cfg.ReleaseDeadline},
	}
	for _, one := range s.cri.Containers {
		newest, _ := s.cri.Newest(one.Name)
		now := residency.Container{
			ID: one.ID, Name: one.Name, Before: one.CreatedAt.Before(at),
			Current: one.ID == newest.ID && one.State != cri.Exited,
		}
		if one.State == cri.Exited {
			now.Ended = one.FinishedAt
		}
		c.Containers = append(c.Containers, now)
	}
	return c
}

// residents are the MiB that containers of the Pod may keep, as declared. What is not a number declares nothing.
func residents(s *sight) map[string]int64 {
	out := map[string]int64{}
	for key, value := range s.pod.Annotations {
		name, ok := strings.CutPrefix(key, v1alpha1.ResidentPrefix)
		if n, err := v1alpha1.ResidentMiB(value); ok && err == nil {
			out[name] = n
		}
	}
	return out
}

// nameOf is the name of a container that the runtime knows; empty if it does not.
func (s *sight) nameOf(id string) string {
	one, _ := s.cri.Container(id)
	return one.Name
}

// takeBaseline makes the baseline that is reported with Drained of a look under the present hold.
func (s *sight) takeBaseline(u Update) {
	m := &s.track.memory
	m.baseline = nil
	if m.good.At.IsZero() || m.good.At.Before(u.Pod.Hold.LoweredAt) {
		return
	}
	if b, ok := residency.Take(m.good, string(s.pod.UID)); ok {
		m.baseline = &b
	}
}

// journaled is the baseline as the journal keeps it, with the containers that it is to be added to.
func journaled(b *residency.Baseline, before []journal.Baseline, names func(id string) string) ([]journal.Baseline, []journal.GPU) {
	if b == nil {
		return before, nil
	}
	for _, p := range b.Processes {
		i := slices.IndexFunc(before, func(o journal.Baseline) bool { return o.ContainerID == p.ContainerID })
		if i < 0 { // of a sidecar, or of a container that has ended
			i = len(before)
			before = append(before, journal.Baseline{Container: names(p.ContainerID), ContainerID: p.ContainerID})
		}
		before[i].Processes = append(before[i].Processes, journal.Process{PID: p.PID, Started: p.Started, GPU: p.GPU, MiB: p.MiB})
	}
	var gpus []journal.GPU
	for _, g := range b.GPUs {
		m := cmp.Or(g.Memory, &gpu.Memory{})
		gpus = append(gpus, journal.GPU{UUID: g.UUID, Version: m.Version, Used: m.Used, Reserved: m.Reserved, Own: g.OwnMiB})
	}
	return before, gpus
}

// recordedBaseline is the baseline that an agent before this one took; nil if it is lost, or of another boot.
func (s *sight) recordedBaseline() *residency.Baseline {
	r := s.record
	if len(r.GPUs) == 0 || v1alpha1.Token(r.IPU, r.Number) != s.token {
		return nil
	}
	b := &residency.Baseline{BootID: r.BootID}
	for _, g := range r.GPUs {
		u := residency.Usage{UUID: g.UUID, OwnMiB: g.Own}
		if g.Version > 0 {
			u.Memory = &gpu.Memory{Version: g.Version, Used: g.Used, Reserved: g.Reserved}
		}
		b.GPUs = append(b.GPUs, u)
	}
	for _, c := range r.Before {
		for _, p := range c.Processes {
			b.Processes = append(b.Processes, residency.Process{PID: p.PID, Started: p.Started, ContainerID: c.ContainerID, GPU: p.GPU, MiB: p.MiB})
		}
	}
	return b
}
