package agent

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
)

// The rules are what the agent promises about one Pod, told from what really happens to it.
type rules struct {
	patches   map[string]int  // by token
	planned   map[string]int  // kills for a new image, by token and container
	swapping  bool            // patched under a hold that has not been given back
	failed    bool            // that hold was put on for a failure, and the Pod has not come good
	killed    time.Time       // first kill since the latest patch
	patient   time.Time       // latest wait for people or the coordinator
	blind     bool            // a look at its GPUs has failed
	letGo     bool            // the latest one found that the driver is released
	forgetful bool            // the journal could not be written, or was lost
	gone      map[string]bool // containers that a patch replaced
	replaced  time.Time       // when the last of them ended
	turns     int             // at one moment
	at        time.Time
}

func (r *rules) init() {
	r.patches, r.planned, r.gone = map[string]int{}, map[string]int{}, map[string]bool{}
}

// forgets takes that the agent has crashed: that it had to wait for others counts as far as it has reported so.
func (r *rules) forgets(p *simPod) {
	if p.ipu == nil || p.ipu.Status.Reason == v1alpha1.WaitingPermit || p.ipu.Status.Reason == v1alpha1.WaitingHeld {
		return
	}
	if reported := ptr.Deref(p.ipu.Status.ProgressSince, metav1.MicroTime{}).Time; reported.Before(r.patient) {
		r.patient = reported
	}
}

// before checks a step against the world as it is found.
func (r *rules) before(w *world, p *simPod, s *sight, step Step) {
	if r.at != w.now {
		r.at, r.turns = w.now, 0
	}
	if r.turns++; r.turns > 60 {
		w.broken(p, "goes round and round: %s %s %s", step.Do, step.Stage, step.Reason)
	}
	switch step.Do {
	case ActHold:
		r.healthy(w, p, s)
		r.holds(w, p, s, step)
	case ActPatch:
		r.patchesImages(w, p, s)
		r.driverThere(w, p, s, step)
	case ActStop:
		r.stops(w, p, s, step)
	case ActOpen:
		r.opens(w, p, s)
	case ActNone, ActDone, ActReport, ActPull, ActAcknowledge, ActAnnounce, ActRetry:
	}
}

// after notes what a step has done.
func (r *rules) after(w *world, s *sight, step Step) {
	switch step.Do {
	case ActPatch:
		r.swapping, r.failed = true, false
		r.patches[s.token]++
		r.killed = time.Time{}
	case ActHold:
		r.swapping = r.patches[s.token] > 0
		r.failed = step.Stage == v1alpha1.StageFailed
	case ActOpen:
		r.swapping, r.failed = false, false
	case ActStop:
		if r.killed.IsZero() {
			r.killed = w.now
		}
	case ActNone, ActDone, ActReport, ActPull, ActAcknowledge, ActAnnounce, ActRetry:
	}
}

func (r *rules) permitted(w *world, p *simPod, s *sight, permit v1alpha1.Permit) {
	if s.order != nil && !s.order.Spec.Permit.Allows(permit) {
		w.broken(p, "goes beyond its permit %s", s.order.Spec.Permit)
	}
}

// holds: only with every image on the node, or for what failed after its patch.
func (r *rules) holds(w *world, p *simPod, s *sight, step Step) {
	if step.Stage == v1alpha1.StageFailed {
		if r.patches[s.token] == 0 {
			w.broken(p, "holds for a failure, and has patched nothing")
		}
		return
	}
	r.permitted(w, p, s, v1alpha1.PermitDrain)
	r.imagesThere(w, p, s)
	r.driverThere(w, p, s, step)
}

func (r *rules) imagesThere(w *world, p *simPod, s *sight) {
	for _, c := range s.order.Spec.Containers {
		if !w.images[c.Image] || registry(c.Image).foreign {
			w.broken(p, "image %s is not proved", c.Image)
		}
	}
}

// patchesImages: out of traffic, drained, with the baseline of this hold on record, every image
// there, and nothing left to do for kubelet from a patch before.
func (r *rules) patchesImages(w *world, p *simPod, s *sight) {
	if r.patches[s.token] > 0 {
		w.broken(p, "attempt %s patches twice", s.token)
	}
	r.permitted(w, p, s, v1alpha1.PermitSwap)
	r.imagesThere(w, p, s)
	st, spec, gate := s.order.Status, s.order.Spec, readiness.GateOf(p.pod)
	if st.Attempt != spec.Attempt || st.Stage != v1alpha1.StageDrained || st.StageSince.Time.Before(gate.LoweredAt) {
		w.broken(p, "patches at %s of attempt %d, before this hold's baseline is on record", st.Stage, st.Attempt)
	}
	if p.pod.Annotations[v1alpha1.HoldInPlace] == "" || gate.Open || !readiness.Acknowledged(p.pod) || readiness.Ready(p.pod) {
		w.broken(p, "patches a Pod in traffic")
	}
	end := gate.AcknowledgedAt.Add(spec.Propagation())
	if gate.Token != "" && (gate.AcknowledgedAt.IsZero() || w.now.Before(end)) {
		w.broken(p, "patches within the propagation delay")
	}
	_, nothing := readiness.NothingToDrain(p.pod)
	if d := spec.Drain; d != nil && !nothing && w.now.Before(end.Add(d.Timeout())) &&
		(d.Mode == v1alpha1.DrainDelay || w.now.Before(p.idle)) {
		w.broken(p, "patches while requests run")
	}
	r.router(w, p, s, end)
	for _, c := range p.pod.Spec.Containers {
		if now := p.newest(c.Name); r.swapping && now.State == cri.Running && now.Hash != w.hash(c.Name, c.Image) {
			w.broken(p, "patches while kubelet acts on the patch before")
		}
	}
}

// router: the Pod's router is asked for this attempt or not at all, and its answer is to this drain.
func (r *rules) router(w *world, p *simPod, s *sight, end time.Time) {
	want, d := "", s.order.Spec.Drain
	if d != nil && d.Mode == v1alpha1.DrainRouter {
		want = s.token
	}
	_, nothing := readiness.NothingToDrain(p.pod)
	switch {
	case p.asked != want:
		w.broken(p, "patches while the router is asked for %q and not %q", p.asked, want)
	case want != "" && !nothing && !p.answered && w.now.Before(end.Add(d.Timeout())):
		w.broken(p, "patches before the router has answered")
	}
}

// stops: only an old container whose time is over, with kubelet there to start the next.
func (r *rules) stops(w *world, p *simPod, s *sight, step Step) {
	c, mark := p.find(step.ContainerID), v1alpha1.PatchMarkOf(p.pod)
	timeout := mark.StopTimeout // what is known when the order is gone
	if s.order != nil {
		timeout = s.order.Spec.StopTimeout()
	}
	switch {
	case c == nil || c.State != cri.Running:
		w.broken(p, "stops %q, which does not run", step.ContainerID)
	case !r.swapping && r.patches[s.token] == 0:
		w.broken(p, "stops what it has not patched")
	case !w.kubeletUp || w.now.Before(mark.At.Add(timeout)):
		w.broken(p, "stops %s too early", c.ID)
	}
	for _, spec := range p.pod.Spec.Containers {
		if c != nil && spec.Name == c.Name && c.Hash == w.hash(c.Name, spec.Image) {
			w.broken(p, "stops %s, which is a new one", c.ID)
		}
	}
}

// takesBack: an attempt opens its own hold before the patch where an image is lost or the driver is released, and else
// only after its end. A drain is not begun twice for nothing.
func (r *rules) takesBack(w *world, p *simPod, s *sight) {
	if s.order == nil || len(s.order.Spec.Containers) == 0 || p.pod.Annotations[v1alpha1.HoldInPlace] != s.token ||
		reportOf(s.order).Stage.Ended() || !w.runtimeUp || r.letGo {
		return
	}
	same := true
	for i, spec := range p.pod.Spec.Containers {
		for _, want := range s.order.Spec.Containers {
			if !w.images[want.Image] {
				return
			}
			same = same && (want.Name != spec.Name || want.Image == p.pod.Spec.Containers[i].Image)
		}
	}
	if !same {
		w.broken(p, "gives the Pod back for nothing")
	}
}

// opens: whenever nothing was patched, else only for new containers that are proved, with
// permit Serve; and where more is asked for, or may be wrong, only for those that are ready.
func (r *rules) opens(w *world, p *simPod, s *sight) {
	if !r.swapping {
		r.takesBack(w, p, s)
		return
	}
	r.permitted(w, p, s, v1alpha1.PermitServe)
	own := s.order != nil && r.patches[s.token] > 0
	early := s.order != nil && len(s.order.Spec.Containers) > 0 && s.order.Spec.OpenAt == v1alpha1.OpenAtProved && (!own || !r.failed)
	for i, spec := range p.pod.Spec.Containers {
		c := p.newest(spec.Name)
		isNew := c.Hash == w.hash(spec.Name, spec.Image) && c.State != cri.Exited && c.ImageID == registry(spec.Image).id
		changed := own && len(s.order.Status.Containers) > i && s.order.Status.Containers[i].Before.Image != spec.Image
		switch {
		case early && own && !changed:
		case !isNew:
			w.broken(p, "opens for container %s, which is not proved", spec.Name)
		case !early && !p.up[c.ID]:
			w.broken(p, "opens for container %s, which is not ready", spec.Name)
		case changed && c.ID == s.order.Status.Containers[i].Before.ContainerID:
			w.broken(p, "opens for container %s of the baseline", spec.Name)
		}
	}
}

// wroteGate: the agent never leaves the gate open under a hold.
func (r *rules) wroteGate(w *world, p *simPod) {
	if readiness.GateOf(p.pod).Open && len(readiness.Holds(p.pod)) > 0 {
		w.broken(p, "opens the gate, and holds stand")
	}
	_, answer := p.pod.Annotations[v1alpha1.Drained]
	if p.pod.Annotations[v1alpha1.HoldInPlace] == "" && (answer || readiness.Announced(p.pod) != "") {
		w.broken(p, "gives the Pod back, and marks for its router are left")
	}
}

// reports: stages follow one another as the package comment says.
func (r *rules) reports(w *world, p *simPod, order *v1alpha1.InPlaceUpdate, to v1alpha1.InPlaceUpdateStatus) {
	from, podGone := order.Status.Stage, to.Reason == v1alpha1.EndedPodGone
	if order.Status.Attempt != order.Spec.Attempt {
		from = ""
	}
	patched := r.patches[order.Token()] > 0
	r.residency(w, p, order, to)
	r.failed = r.failed && to.Stage != v1alpha1.StageVerified // it came good after all
	switch {
	case from.Ended() && to.Stage != from:
		w.broken(p, "goes on from %s to %s", from, to.Stage)
	case from == v1alpha1.StageFailed && to.Stage != from && to.Stage != v1alpha1.StageVerified && !podGone:
		w.broken(p, "goes from Failed to %s", to.Stage)
	case (to.Stage == v1alpha1.StageRefused || to.Stage == v1alpha1.StageCancelled) && patched && !podGone:
		w.broken(p, "is %s after its patch", to.Stage)
	case isLate(to.Reason) && from != v1alpha1.StageFailed && w.now.Before(r.patient.Add(order.Spec.ProgressDeadline())):
		w.broken(p, "is late %s after it had to wait for others", w.now.Sub(r.patient))
	case to.Reason == v1alpha1.FailedStopStuck && w.now.Before(r.killed.Add(killGrace)):
		w.broken(p, "takes a stop for stuck %s after its first kill", w.now.Sub(r.killed))
	case to.Stage == v1alpha1.StageDrained && to.StageSince.Time.Equal(w.now):
		r.baseline(w, p, to)
	case to.Stage == v1alpha1.StageInService && len(order.Spec.Containers) > 0:
		r.inService(w, p, order)
		r.timed(w, p, to)
	}
}

// timed: who replaced a container says how long its stop took.
func (r *rules) timed(w *world, p *simPod, st v1alpha1.InPlaceUpdateStatus) {
	for _, c := range st.Containers {
		if c.Planned > 0 && st.Timings.Stop == nil {
			w.broken(p, "replaced container %s, and does not say how long its stop took", c.Before.ContainerID)
		}
	}
}

func isLate(why v1alpha1.Reason) bool {
	return why == v1alpha1.RefusedDeadline || why == v1alpha1.FailedDeadline
}

func (r *rules) baseline(w *world, p *simPod, st v1alpha1.InPlaceUpdateStatus) {
	for i, spec := range p.pod.Spec.Containers {
		c := p.newest(spec.Name)
		if len(st.Containers) <= i || st.Containers[i].Before == nil || st.Containers[i].Before.ContainerID != c.ID {
			w.broken(p, "the baseline lacks container %s", c.ID)
		}
	}
}

func (r *rules) inService(w *world, p *simPod, order *v1alpha1.InPlaceUpdate) {
	if !readiness.Ready(p.pod) || len(readiness.Holds(p.pod)) > 0 {
		w.broken(p, "is InService, and is not")
	}
	for _, want := range order.Spec.Containers {
		c := p.newest(want.Name)
		if c.State != cri.Running || c.Hash != w.hash(want.Name, want.Image) || c.ImageID != registry(want.Image).id {
			w.broken(p, "is InService, and container %s does not run %s", want.Name, want.Image)
		}
	}
	if p.pod.Labels[v1alpha1.LabelRevision] != order.Spec.Revision {
		w.broken(p, "is InService with the labels of another attempt")
	}
}

// exited: a container is killed for a new image once per patch.
func (r *rules) exited(w *world, p *simPod, c cri.Container) {
	if p.gone() || !p.stopping[c.ID] {
		return
	}
	for _, spec := range p.pod.Spec.Containers {
		if spec.Name != c.Name || c.Hash == w.hash(c.Name, spec.Image) {
			continue
		}
		r.gone[c.ID], r.replaced = true, w.now
		key := v1alpha1.PatchMarkOf(p.pod).Token + " " + c.Name
		if r.planned[key]++; r.planned[key] > 1 {
			w.broken(p, "container %s is replaced twice for one patch", c.Name)
		}
	}
}

// rests: nothing waits without a reason, or for what nothing tells of.
func (r *rules) rests(w *world, p *simPod, step Step) {
	if step.Do == ActNone && (step.Reason == v1alpha1.WaitingPermit || step.Reason == v1alpha1.WaitingHeld) {
		r.patient = w.now
	}
	failed := step.Stage == v1alpha1.StageFailed
	tells := step.Reason == v1alpha1.WaitingPermit || step.Reason == v1alpha1.WaitingHeld || step.Reason == v1alpha1.WaitingRuntime ||
		p.ipu == nil && step.Reason == v1alpha1.WaitingLoad ||
		step.Stage.Ended() // and kubelet, or a person, takes an earlier swap to its end
	switch {
	case step.Do != ActNone: // ended, or the journal has failed since it was looked at
	case p.ipu == nil && p.unit: // its order comes anew
	case step.Reason == "":
		w.broken(p, "waits at %s without a reason", step.Stage)
	case step.Until.IsZero() && !failed && !tells:
		w.broken(p, "waits for %s without an end", step.Reason)
	case !step.Until.IsZero() && !step.Until.After(w.now):
		w.broken(p, "waits for %s until a time that is over", step.Reason)
	}
}

// ended checks what is left once nothing more comes.
func (r *rules) ended(w *world, p *simPod) {
	held, open := false, false
	if !p.gone() {
		held, open = p.pod.Annotations[v1alpha1.HoldInPlace] != "", readiness.GateOf(p.pod).Open
		if _, answer := p.pod.Annotations[v1alpha1.Drained]; !held && (answer || p.asked != "") {
			w.broken(p, "marks for its router are left")
		}
	}
	if p.ipu == nil {
		if held && !p.unit && p.serves(w) {
			w.broken(p, "has no order, and a hold is left")
		}
		return
	}
	if st := p.ipu.Status; st.Attempt != p.ipu.Spec.Attempt || !st.Stage.Ended() && st.Stage != v1alpha1.StageFailed {
		w.broken(p, "never ends: attempt %d at %s of attempt %d", p.ipu.Spec.Attempt, st.Stage, st.Attempt)
	}
	if p.gone() {
		return
	}
	switch stage := p.ipu.Status.Stage; {
	case held && stage != v1alpha1.StageFailed && !r.swapping:
		w.broken(p, "is %s, and a hold is left", stage)
	case !held && !open:
		w.broken(p, "is %s without a hold, and the gate is closed", stage)
	case stage == v1alpha1.StageRefused && strings.HasSuffix(p.pod.Labels[v1alpha1.LabelRevision], "/"+p.ipu.Spec.Revision):
		w.broken(p, "is Refused, and has its labels")
	}
	if r.patches[p.ipu.Token()] > 0 && p.ipu.Status.Stage == v1alpha1.StageFailed && !held && !readiness.ContainersReady(p.pod) {
		w.broken(p, "is Failed, and not held")
	}
}
