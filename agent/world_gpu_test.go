package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/residency"
)

// A simGPU is one GPU of a Pod: who holds how much of it.
type simGPU struct {
	uuid    string
	holders []residency.Holder
}

const (
	gpuMiB     = 80_000
	releaseFor = 2 * time.Minute
)

// memoryPlan is what becomes of the memory of a Pod's ended containers.
type memoryPlan struct {
	gpus    int
	modest  bool          // two of its engines have room on a GPU
	frees   time.Duration // after the end of its container
	imports bool          // another Pod has it until then
	blind   int           // one look in so many fails; 0: none
}

// equip gives a Pod its GPUs.
func (w *world) equip(p *simPod) {
	for range p.memory.gpus {
		p.gpus = append(p.gpus, &simGPU{uuid: w.id("GPU")})
	}
	if p.devices {
		for i := range p.pod.Spec.Containers {
			p.pod.Spec.Containers[i].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}
	}
}

// needs is what an engine takes of each GPU.
func (p *simPod) needs(container string) int64 {
	switch {
	case p.memory.modest:
		return 10_000
	case container == "c0":
		return 50_000
	}
	return 20_000
}

// claim has a container take its memory, and reports false where that is not free.
func (w *world) claim(p *simPod, c *cri.Container) bool {
	if p.gone() {
		return true
	}
	for _, g := range p.gpus {
		used := int64(0)
		for _, h := range g.holders {
			used += h.MiB
		}
		if used+p.needs(c.Name) > gpuMiB {
			return false
		}
	}
	for _, g := range p.gpus {
		w.serial++
		g.holders = append(g.holders, residency.Holder{
			PID: int32(w.serial), Started: uint64(w.serial), MiB: p.needs(c.Name), Command: "engine",
			Ownership: residency.Contained, PodUID: string(p.pod.UID), ContainerID: c.ID,
		})
	}
	return true
}

// release has the memory of an ended container go as the Pod's plan says.
func (w *world) release(p *simPod, id string) {
	for _, g := range p.gpus {
		for i := range g.holders {
			if h := &g.holders[i]; h.ContainerID == id && p.memory.imports {
				w.serial++
				*h = residency.Holder{PID: int32(w.serial), Started: uint64(w.serial), MiB: h.MiB, Command: "cache", Ownership: residency.Outside, PodUID: "other", ContainerID: "of " + id}
			}
		}
	}
	w.after(p.memory.frees+w.jitter(400*time.Millisecond), func() { p.free(id) })
}

// starve notes that a container runs while memory of one that has ended is held: what becomes of it is not its
// image's fault alone.
func (p *simPod) starve() {
	if len(p.leftovers()) == 0 {
		return
	}
	for _, c := range p.truth.Containers {
		if c.State == cri.Running {
			p.starved[c.Name]++
		}
	}
}

func (p *simPod) free(id string) {
	for _, g := range p.gpus {
		g.holders = slices.DeleteFunc(g.holders, func(h residency.Holder) bool { return h.ContainerID == id || h.ContainerID == "of "+id })
	}
}

// leftovers are the containers that have ended and whose memory is held.
func (p *simPod) leftovers() []string {
	var ids []string
	for _, g := range p.gpus {
		for _, h := range g.holders {
			if c := p.find(h.ContainerID); c == nil || c.State != cri.Running {
				ids = append(ids, h.ContainerID)
			}
		}
	}
	return ids
}

// look is one look of the agent at the Pod's GPUs. Its answer is that of the process that asked.
func (a *simAgent) look(p *simPod) {
	l, w, pod := a.memory.looks, a.w, p.pod
	if !l.begin(pod.UID) {
		return
	}
	latency := w.jitter(200 * time.Millisecond)
	let := w.letGo
	fails := !w.gpuUp || p.memory.blind > 0 && w.rng.IntN(p.memory.blind) == 0
	if fails && !let && w.rng.IntN(2) == 0 { // that it is released is known without the probe
		latency = lookTimeout
	}
	w.after(latency, func() {
		s := residency.Sample{At: w.now, State: gpu.Up, BootID: "boot"}
		if l == w.agent.memory.looks { // else of a process that is no more
			p.rules.letGo = let
		}
		switch {
		case let:
			s.State, s.Fault = gpu.Released, "the GPU driver is released"
			p.rules.blind = true
		case fails || !w.gpuUp:
			s.State, s.Fault = gpu.Unknown, "the probe did not answer"
			p.rules.blind = true
		default:
			s.Devices = p.sampled()
		}
		l.put(pod.UID, s)
		a.wake(p)
	})
}

func (p *simPod) sampled() []residency.Device {
	var devices []residency.Device
	for _, g := range p.gpus {
		d := residency.Device{UUID: g.uuid, Memory: &gpu.Memory{Version: 2, Total: gpuMiB, Used: 90}, Holders: slices.Clone(g.holders)}
		for _, h := range g.holders {
			d.Memory.Used += h.MiB
		}
		devices = append(devices, d)
	}
	return devices
}

// simGPUs says to the agent that there is somebody who looks; the world's looks are those of simAgent.look.
type simGPUs struct{ w *world }

func (simGPUs) Look(context.Context, *corev1.Pod) (residency.Sample, error) {
	return residency.Sample{}, errors.New("looks are the world's")
}

func (g simGPUs) Sick(_ *corev1.Pod, uuids []string) (why string) {
	if !g.w.sick || len(uuids) == 0 {
		return ""
	}
	return "XID 79"
}

func (w *world) probeFails(d time.Duration) {
	w.gpuUp = false
	w.after(d, func() { w.gpuUp = true })
}

func (w *world) gpusSicken(d time.Duration) {
	w.sick = true
	w.after(d, func() { w.sick = false })
}

func (w *world) driverReleased(d time.Duration) {
	w.letGo = true
	w.after(d, func() { w.letGo = false })
}

// heal ends what would keep a Pod's memory, or hide it.
func (w *world) heal(p *simPod) {
	p.memory.frees, p.memory.blind = time.Millisecond, 0
	w.gpuUp, w.sick, w.letGo = true, false, false
	for _, id := range p.leftovers() {
		w.after(time.Second, func() { p.free(id) })
	}
}

// forgetful notes that what the agent knew of the Pods may be lost.
func (w *world) forgetful() {
	for _, p := range w.pods {
		p.rules.forgetful = true
	}
}

// noteRetry is Agent.planRetry, with the world's journal.
func (a *simAgent) noteRetry(s *sight, container string) {
	s.noteRetry(container)
	if r, ok := a.records[s.pod.UID]; ok && a.w.journalUp {
		r.Steps = append(slices.Clone(r.Steps), journal.Step{Action: journal.Action{Kind: journal.Retry, Subject: container}})
		a.records[s.pod.UID] = r
	}
}

// healthy: no update starts on a GPU that is known to be sick.
func (r *rules) healthy(w *world, p *simPod, s *sight) {
	if w.sick && s.track != nil && len(s.track.memory.last.Devices) > 0 && r.patches[s.token] == 0 {
		w.broken(p, "holds a Pod with a sick GPU")
	}
}

// driverThere: no update starts while the agent has last been told that the driver is released, nor goes on to the patch
// where an agent before it was told so: it waits for its first look, if its deadline leaves it the time. A mere drain is no
// update.
func (r *rules) driverThere(w *world, p *simPod, s *sight, step Step) {
	if !r.letGo || r.swapping || s.track == nil || len(s.order.Spec.Containers) == 0 {
		return
	}
	waits := step.Do == ActPatch && s.order.Spec.ProgressDeadline()/2 > lookTimeout
	if waits || !s.track.memory.last.At.IsZero() {
		w.broken(p, "goes on while the driver is released")
	}
}

// residency: a Pod is verified with verdicts that pass, which say what is so; and it fails for its memory only
// where that is really held, after the deadline.
func (r *rules) residency(w *world, p *simPod, order *v1alpha1.InPlaceUpdate, to v1alpha1.InPlaceUpdateStatus) {
	if to.Stage == v1alpha1.StageDrained { // what others hold by then is not this swap's
		for _, id := range p.leftovers() {
			if of, other := strings.CutPrefix(id, "of "); other {
				delete(r.gone, of)
			}
		}
	}
	if r.patches[order.Token()] == 0 {
		return
	}
	if to.Stage == v1alpha1.StageVerified || to.Stage == v1alpha1.StageInService {
		for _, g := range to.GPUs {
			if !residency.Passes(g.Verdict) {
				w.broken(p, "is %s, and GPU %s is %q", to.Stage, g.UUID, g.Verdict)
			}
			if g.Verdict != v1alpha1.VerdictUnknown && r.heldFromBefore(p) {
				w.broken(p, "GPU %s is %s, and memory from before is held by %v", g.UUID, g.Verdict, p.leftovers())
			}
		}
		if len(p.gpus) > 0 && p.devices && !r.blind && !r.forgetful && len(to.GPUs) != len(p.gpus) {
			w.broken(p, "reports %d GPUs of %d", len(to.GPUs), len(p.gpus))
		}
	}
	held := to.Reason == v1alpha1.FailedLeaked || to.Reason == v1alpha1.FailedHeldByOther
	switch {
	case order.Status.Stage == v1alpha1.StageFailed:
	case held && len(p.leftovers()) == 0:
		w.broken(p, "fails for memory that nobody holds")
	case held && w.now.Before(r.replaced.Add(releaseFor)):
		w.broken(p, "fails for its memory %s after the end of the old container", w.now.Sub(r.replaced))
	case to.Reason == v1alpha1.FailedMoved:
		w.broken(p, "has not moved")
	case to.Reason == v1alpha1.FailedCrashLooping && p.devices && r.heldFromBefore(p) &&
		w.now.Before(r.replaced.Add(releaseFor)):
		w.broken(p, "is crash looping, and its memory is held")
	}
	for _, c := range to.Containers {
		if c.Planned > 2 || c.Planned > 1 && p.starved[c.Name] == 0 {
			w.broken(p, "planned %d restarts of %s, which ran beside held memory %d times", c.Planned, c.Name, p.starved[c.Name])
		}
	}
}

// heldFromBefore reports whether memory of a container that a patch replaced is held.
func (r *rules) heldFromBefore(p *simPod) bool {
	return slices.ContainsFunc(p.leftovers(), func(id string) bool { return r.gone[strings.TrimPrefix(id, "of ")] })
}
