package agent

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
)

// A brain is what decides: Next and FinishOrphan, or a copy with a fault.
type brain struct {
	next   func(Update, time.Time) Step
	finish func(Update, time.Time) Step
	keep   func(Update, time.Time) Step
}

func honest() brain { return brain{next: Next, finish: FinishOrphan, keep: KeepHeld} }

// A simAgent runs the state machine in a world. What it reads and what it writes is made by the
// agent's own functions; only the calls in between are the world's.
type simAgent struct {
	brain
	w       *world
	memory  *Agent // lost in a crash
	metrics *metrics
	dirty   map[string]bool
	wakes   map[string]time.Time // timers, by Pod
	last    map[string]Step      // latest step that was not followed by another, by Pod
	records map[types.UID]journal.Record
	jobs    []*job
	follows map[string]followed // drains, by Pod
	crash   int                 // one effect in so many is followed by a crash; 0: none
}

// A job is one pull that waits for its slot or has it.
type job struct {
	key  pullKey
	pull *pull
	pod  *simPod
	over bool
}

type followed struct {
	token string
	since time.Time
}

func newSimAgent(w *world, b brain) *simAgent {
	a := &simAgent{brain: b, w: w, metrics: newMetrics(), records: map[types.UID]journal.Record{}}
	a.restart()
	return a
}

// restart is a crash and the next process: only what is in the API, the runtime and the journal
// is left.
func (a *simAgent) restart() {
	cfg := Config{NodeName: "node", Clock: a.w.clock, Parallel: 1, Residency: simGPUs{a.w}, Health: simGPUs{a.w}}
	a.memory = &Agent{
		cfg: cfg, metrics: a.metrics, tracks: newTracks(),
		images: newImages(cfg), drains: newDrains(cfg), stops: newStops(cfg), looks: newLooks(cfg),
	}
	a.dirty, a.wakes, a.last = map[string]bool{}, map[string]time.Time{}, map[string]Step{}
	a.jobs, a.follows = nil, map[string]followed{}
	for _, p := range a.w.pods {
		p.rules.forgets(p)
		a.wake(p)
	}
}

func (a *simAgent) wake(p *simPod) { a.dirty[p.name] = true }

func (a *simAgent) tracked(p *simPod) bool {
	_, ok := a.memory.tracks.open[keyOfSim(p)]
	return ok
}

func keyOfSim(p *simPod) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: p.name}
}

// work takes one Pod one step on, and reports false if no Pod is to be looked at.
func (a *simAgent) work() bool {
	var due []*simPod
	for _, p := range a.w.pods {
		if a.dirty[p.name] {
			due = append(due, p)
		}
	}
	if len(due) == 0 {
		return false
	}
	p := due[a.w.rng.IntN(len(due))]
	a.dirty[p.name] = false
	delete(a.wakes, p.name)
	step, moved := a.turn(p)
	if moved {
		a.wake(p)
	} else {
		a.rest(p, step)
	}
	if moved && a.crash > 0 && a.w.rng.IntN(a.crash) == 0 {
		a.w.note(nil, "the agent crashes")
		a.restart()
	}
	return true
}

// rest notes what the Pod waits for.
func (a *simAgent) rest(p *simPod, step Step) {
	p.rules.rests(a.w, p, step)
	a.last[p.name] = step
	if !step.Until.IsZero() {
		a.wakes[p.name] = step.Until
	}
	if p.pod == nil {
		return
	}
	if data, needed := readiness.Sync(p.pod, a.w.now); needed {
		a.w.patchStatus(p, data)
		p.rules.wroteGate(a.w, p)
	}
}

func (a *simAgent) turn(p *simPod) (step Step, moved bool) {
	s := &sight{key: keyOfSim(p), now: a.w.now, pod: p.pod, order: p.ipu}
	if s.pod != nil {
		s.gate = readiness.GateOf(s.pod)
	}
	read := func() { a.read(p, s) }
	switch {
	case s.order != nil:
		u := a.memory.observe(s, read)
		step = a.next(u, s.now)
		if u.GPUs.Due {
			a.look(p)
		}
		moved = a.take(p, s, u, step)
		if !moved && step.Do != ActDone && s.order == p.ipu {
			step = a.reportWait(p, s, u, step)
		}
	case s.pod != nil && s.pod.Annotations[v1alpha1.HoldInPlace] != "":
		u := a.memory.observeOrphan(s, read)
		if p.unit {
			step = a.keep(u, s.now)
		} else {
			step = a.finish(u, s.now)
		}
		moved = a.take(p, s, u, step)
	default:
		a.end(p, s)
		step = Step{Do: ActDone}
	}
	return step, moved
}

// read asks the world's node.
func (a *simAgent) read(p *simPod, s *sight) {
	w := a.w
	s.record, s.hash = a.records[s.pod.UID], w.hash
	s.proof = func(image string) Proof { return a.proof(s.token, image) }
	if w.runtimeUp {
		s.cri = cri.Pod{Sandboxes: p.truth.Sandboxes, Containers: slices.Clone(p.truth.Containers)}
		slices.SortStableFunc(s.cri.Containers, func(a, b cri.Container) int { return b.CreatedAt.Compare(a.CreatedAt) })
	}
	s.node = Node{RuntimeUp: w.runtimeUp, JournalOpen: w.journalUp, KubeletUp: w.kubeletUp}
	asks := s.order != nil && v1alpha1.PatchMarkOf(s.pod).Token != s.token && s.order.Spec.Permit.Allows(v1alpha1.PermitDrain)
	if until := w.kubeletStarted.Add(20 * time.Second); p.devices && asks && w.now.Before(until) {
		s.node.NotNow, s.node.NotNowUntil = v1alpha1.WaitingSettle, until
	}
	if asks {
		a.memory.notWhileSick(s)
	}
	a.scrape(p, s)
}

func (a *simAgent) proof(token, image string) Proof {
	switch {
	case !a.w.runtimeUp:
		return Proof{Message: "the runtime is down"}
	case a.w.images[image] && registry(image).foreign:
		return Proof{State: ProofRefused, Why: v1alpha1.RefusedPlatform}
	case a.w.images[image]:
		return Proof{State: Proved, ID: registry(image).id}
	}
	return a.memory.images.pulling(pullKey{token, image})
}

// take carries out one step, and checks it against the rules.
func (a *simAgent) take(p *simPod, s *sight, u Update, step Step) (moved bool) {
	w := a.w
	if step.Do != ActNone && step.Do != ActDone {
		w.note(p, "%s %s %s %s%s", step.Do, step.Stage, step.Reason, step.Image, step.ContainerID)
	}
	a.memory.moveTrack(s, step)
	p.rules.before(w, p, s, step)
	switch step.Do {
	case ActNone:
		if step.Reason == v1alpha1.WaitingDrain && u.Order.counts() {
			a.follow(p, s.token)
		}
		return false
	case ActDone:
		a.end(p, s)
		return false
	case ActRetry:
		a.noteRetry(s, step.Container)
	case ActReport:
		if step.Stage == v1alpha1.StageDrained {
			s.takeBaseline(u)
		}
		a.write(p, s, a.memory.status(s, u, step))
		if step.Stage == v1alpha1.StageDrained {
			a.recordBaseline(s, p.ipu.Status.Containers)
			delete(a.follows, p.name)
		}
	case ActPull:
		if step.Stage == v1alpha1.StagePreparing && !w.journalUp {
			return false
		}
		a.pull(p, s.token, step.Image)
	case ActHold:
		delete(a.follows, p.name)
		if !u.swapped() && !w.journalUp {
			return false
		}
		a.patchStatus(p, step)(lower(s, u))
	case ActAnnounce:
		a.patchStatus(p, step)(readiness.Announce(s.pod, u.announces()))
	case ActAcknowledge:
		a.patchStatus(p, step)(acknowledgement(s, u))
	case ActPatch:
		if !w.patchImages(p, imagePatch(s)) {
			w.broken(p, "the patch tests for what is not so")
		}
	case ActStop:
		a.memory.stops.note(step.ContainerID)
		w.stop(p, step.ContainerID, w.jitter(time.Second))
	case ActOpen:
		a.memory.drains.stop(s.pod.UID)
		delete(a.follows, p.name)
		a.patchStatus(p, step)(readiness.Raise(s.pod, s.opening(), s.now))
	default:
		w.broken(p, "unknown action %q", step.Do)
	}
	p.rules.after(w, s, step)
	return true
}

func (a *simAgent) patchStatus(p *simPod, step Step) func([]byte, error) {
	return func(data []byte, err error) {
		if err != nil {
			a.w.broken(p, "%s: %v", step.Do, err)
			return
		}
		a.w.patchStatus(p, data)
		if step.Do == ActOpen {
			p.rules.wroteGate(a.w, p)
		}
	}
}

func (a *simAgent) write(p *simPod, s *sight, status v1alpha1.InPlaceUpdateStatus) {
	p.rules.reports(a.w, p, s.order, status)
	p.ipu = s.order.DeepCopy()
	p.ipu.Status = status
	a.wake(p)
}

// reportWait is Agent.reportWait, with the world's write.
func (a *simAgent) reportWait(p *simPod, s *sight, u Update, step Step) Step {
	step, status := a.memory.waiting(s, u, step)
	if status != nil {
		a.w.note(p, "waits %s %s", step.Stage, step.Reason)
		a.write(p, s, *status)
	}
	return step
}

// end drops what is kept for an attempt that is over.
func (a *simAgent) end(p *simPod, s *sight) {
	if one := a.memory.tracks.drop(s.key); one != nil {
		a.memory.images.forget(func(token string) bool { return sameOrder(token, one.token) })
		a.memory.looks.forget(one.pod)
		delete(a.follows, p.name)
	}
	if s.pod == nil {
		return
	}
	if r, ok := a.records[s.pod.UID]; ok && a.w.journalUp {
		r.Ended = a.w.now
		a.records[s.pod.UID] = r
	}
}

// recordBaseline keeps the ids of all baselines since the Pod was last in service, as the
// journal does.
func (a *simAgent) recordBaseline(s *sight, reports []v1alpha1.ContainerReport) {
	if !a.w.journalUp {
		return
	}
	old := a.records[s.pod.UID]
	r := journal.Record{Attempt: s.attempt(), BootID: "boot"}
	if old.Open() {
		r.PriorIDs = slices.Clone(old.PriorIDs)
	}
	for _, c := range reports {
		r.PriorIDs = append(r.PriorIDs, c.Before.ContainerID)
		r.Before = append(r.Before, journal.Baseline{Container: c.Name, ContainerID: c.Before.ContainerID})
	}
	r.Before, r.GPUs = journaled(s.track.memory.baseline, r.Before, s.nameOf)
	a.records[s.pod.UID] = r
}

// follow counts requests from now on.
func (a *simAgent) follow(p *simPod, token string) {
	if a.follows[p.name].token == token {
		return
	}
	a.follows[p.name] = followed{token, a.w.now}
	a.w.after(latest(p.idle, a.w.now).Sub(a.w.now)+500*time.Millisecond, func() { a.wake(p) })
}

// pull queues a pull; one at a time is under way.
func (a *simAgent) pull(p *simPod, token, image string) {
	m, key := a.memory.images, pullKey{token, image}
	if m.pulls[key] == nil {
		m.pulls[key] = &pull{}
	}
	one := m.pulls[key]
	if one.running || one.queued {
		return
	}
	j := &job{key: key, pull: one, pod: p}
	one.queued, one.cancel = true, func() { a.pulled(j, fmt.Errorf("pull ended: %w", cri.ErrUnavailable)) }
	a.jobs = append(a.jobs, j)
	a.nextPull()
}

func (a *simAgent) nextPull() {
	if len(a.jobs) == 0 || a.jobs[0].pull.running {
		return
	}
	j, w := a.jobs[0], a.w
	j.pull.queued, j.pull.running, j.pull.began = false, true, w.now
	a.wake(j.pod)
	kind := registry(j.key.image)
	w.after(kind.pullTime+w.jitter(time.Second), func() {
		switch {
		case j.over || !slices.Contains(a.jobs, j):
			return // cancelled, or of a process that is no more
		case !w.runtimeUp:
			a.pulled(j, cri.ErrUnavailable)
		case !w.registryUp:
			a.pulled(j, cri.ErrRegistryUnreachable)
		case kind.err != nil:
			a.pulled(j, kind.err)
		default:
			w.images[j.key.image] = true
			a.pulled(j, nil)
		}
	})
}

func (a *simAgent) pulled(j *job, err error) {
	if j.over {
		return
	}
	j.over = true
	a.jobs = slices.DeleteFunc(a.jobs, func(o *job) bool { return o == j })
	j.pull.running, j.pull.queued, j.pull.err = false, false, err
	if err == nil {
		j.pull.failures = 0
	} else {
		j.pull.retryAt = a.w.now.Add(min(retryMost, retryFirst<<min(j.pull.failures, 5)))
		j.pull.failures++
	}
	a.wake(j.pod)
	a.nextPull()
}

// settled reports whether the Pod's update is over: ended, or failed for so long that it will
// not come good.
func (a *simAgent) settled(p *simPod) bool {
	step, ok := a.last[p.name]
	if !ok || a.dirty[p.name] {
		return false
	}
	if step.Stage == v1alpha1.StageFailed && p.ipu != nil && p.ipu.Status.StageSince != nil {
		return len(a.w.events) == 0 || a.w.now.After(p.ipu.Status.StageSince.Add(20*time.Minute))
	}
	return step.Do == ActDone
}
