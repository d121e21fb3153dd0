package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// report writes the step's stage, with all that is known by now, to the order's status.
func (a *Agent) report(ctx context.Context, s *sight, u Update, step Step) error {
	if step.Stage == v1alpha1.StageDrained {
		s.takeBaseline(u)
	}
	status := a.status(s, u, step)
	if step.Stage == v1alpha1.StageDrained {
		a.recordBaseline(ctx, s, status)
	}
	if err := a.write(ctx, s, status); err != nil {
		return err
	}
	if step.Stage == v1alpha1.StageDrained {
		s.track.current = s.now
		a.drains.stop(s.pod.UID)
	}
	a.announce(ctx, s, step)
	return nil
}

func (a *Agent) write(ctx context.Context, s *sight, status v1alpha1.InPlaceUpdateStatus) error {
	order := s.order.DeepCopy()
	order.Status = status
	out, err := a.api.report(ctx, order)
	if err != nil {
		return err
	}
	a.updates.wrote(out)
	return nil
}

// reportWait reports a wait that lasts, and returns the step with the time of the next report.
func (a *Agent) reportWait(ctx context.Context, s *sight, u Update, step Step) (Step, error) {
	step, status := a.waiting(s, u, step)
	if status == nil {
		return step, nil
	}
	return step, a.write(ctx, s, *status)
}

// waiting returns the report on a wait, nil if none is due, and the step with the time of the next one.
func (a *Agent) waiting(s *sight, u Update, step Step) (Step, *v1alpha1.InPlaceUpdateStatus) {
	if s.track == nil {
		return step, nil
	}
	s.track.trouble = time.Time{}
	st := s.order.Status
	same := st.Attempt == s.order.Spec.Attempt && st.Stage == step.Stage && st.Reason == step.Reason
	due := s.track.since.Add(reportAfter)
	if same && st.Message == step.Message {
		return step, nil
	}
	if same || !s.track.reported.IsZero() {
		due = latest(due, s.track.reported.Add(refreshEvery))
	}
	if step.Reason == v1alpha1.WaitingUnauthorized && !same {
		due = s.now // the coordinator waits for it, to have kubelet bring the image
	}
	if step.Reason == v1alpha1.WaitingUnread { // each update waits for a look, for a moment
		due = latest(due, s.track.memory.awaited.Add(reportAfter))
	}
	if s.now.Before(due) {
		step.Until = earliest(step.Until, due)
		return step, nil
	}
	s.track.reported = s.now
	status := a.status(s, u, step)
	return step, &status
}

// reportTrouble reports that the step at hand cannot be written, once that has lasted. It leaves
// the stage as it is: where an attempt stands is decided by what was done.
func (a *Agent) reportTrouble(ctx context.Context, s *sight, u Update, err error) {
	if s.track == nil || late(err) || ctx.Err() != nil {
		return
	}
	if s.track.trouble.IsZero() {
		s.track.trouble = s.now
	}
	if s.now.Sub(s.track.trouble) < reportAfter || s.now.Sub(s.track.reported) < refreshEvery {
		return
	}
	s.track.reported = s.now
	at := v1alpha1.StagePending
	if s.order.Status.Attempt == s.order.Spec.Attempt {
		at = s.order.Status.Stage
	}
	status := a.status(s, u, Step{Stage: at, Reason: v1alpha1.WaitingAPI, Message: err.Error()})
	if err := a.write(ctx, s, status); err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("trouble is not reported", "cause", err.Error())
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// status is the report on the attempt as it stands.
func (a *Agent) status(s *sight, u Update, step Step) v1alpha1.InPlaceUpdateStatus {
	var st v1alpha1.InPlaceUpdateStatus
	if s.order.Status.Attempt == s.order.Spec.Attempt {
		st = *s.order.Status.DeepCopy()
	}
	st.Attempt, st.Reason, st.Message = s.order.Spec.Attempt, step.Reason, truncate(step.Message)
	// Drained is reported anew for each hold, and never with a time before it.
	again := step.Stage == v1alpha1.StageDrained && step.Do == ActReport
	if st.Stage != step.Stage || again {
		since := latest(s.now, u.Pod.Hold.LoweredAt)
		if s.track != nil && step.Do == ActNone {
			since = s.track.since
		}
		st.Stage, st.StageSince = step.Stage, &metav1.MicroTime{Time: since}
	}
	if st.ProgressSince = st.StageSince; s.track != nil && st.StageSince != nil {
		st.ProgressSince = &metav1.MicroTime{Time: latest(st.StageSince.Time, s.track.patient)}
	}
	if s.pod != nil && !u.Pod.Gone {
		a.fillContainers(s, u, step, &st)
		s.fillGPUs(u, step, &st)
		a.fillTimings(s, u, step, &st)
	}
	fillConditions(s, step, &st)
	return st
}

func truncate(text string) string {
	if len(text) > 1000 {
		return text[:1000] + "..."
	}
	return text
}

// fillContainers writes the baseline at Drained, and what came of it later.
func (a *Agent) fillContainers(s *sight, u Update, step Step, st *v1alpha1.InPlaceUpdateStatus) {
	if step.Stage == v1alpha1.StageDrained && step.Do == ActReport {
		st.Containers = nil
		for _, c := range s.pod.Spec.Containers {
			st.Containers = append(st.Containers, v1alpha1.ContainerReport{Name: c.Name, Before: stateOf(s, c)})
		}
		st.RequestsCut = s.cut(u)
		return
	}
	if rank(step.Stage) < rank(v1alpha1.StageSwapping) || !u.Node.RuntimeUp || !u.Pod.patchedByOrder && len(u.Order.Want) > 0 {
		return // in a Pod of which nothing is to change, what has restarted is a peer
	}
	for i := range st.Containers {
		r := &st.Containers[i]
		j := slices.IndexFunc(u.Containers, func(c Container) bool { return c.Name == r.Name })
		if j < 0 {
			continue
		}
		c := u.Containers[j]
		r.Crashes, r.Peer = c.Crashes, c.Peer
		if r.Before == nil || c.Now.Hash == c.SpecHash {
			r.After = stateOf(s, s.pod.Spec.Containers[j])
		}
		if r.Before != nil && r.Before.Image != c.SpecImage && c.Now.Hash == c.SpecHash && c.Now.ID != r.Before.ContainerID {
			r.Planned = c.starts()
		}
	}
}

// cut is how many requests the end of the drain cuts, nil if none or unknown.
func (s *sight) cut(u Update) *int64 {
	if !u.Order.counts() || u.Drain.Over || !s.drain.Known {
		return nil
	}
	n := s.drain.Last.Running + s.drain.Last.Waiting
	return &n
}

func stateOf(s *sight, c corev1.Container) *v1alpha1.ContainerState {
	now, ok := s.cri.Newest(c.Name)
	if !ok {
		return &v1alpha1.ContainerState{Image: c.Image}
	}
	return &v1alpha1.ContainerState{
		Image: c.Image, ImageID: now.ImageID, ContainerID: now.ID,
		RestartCount: int32(now.RestartCount),
	}
}

func (a *Agent) recordBaseline(ctx context.Context, s *sight, st v1alpha1.InPlaceUpdateStatus) {
	var before []journal.Baseline
	for _, c := range st.Containers {
		now, _ := s.cri.Newest(c.Name)
		before = append(before, journal.Baseline{
			Container: c.Name, ContainerID: c.Before.ContainerID, ImageID: c.Before.ImageID,
			Hash: now.Hash, RestartCount: c.Before.RestartCount,
		})
	}
	before, gpus := journaled(s.track.memory.baseline, before, s.nameOf)
	if err := a.keeper.with(ctx, func(j *journal.Journal) error { return j.Baseline(s.attempt(), before, gpus...) }); err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("baseline is not on record", "cause", err.Error())
	}
}

// fillTimings writes the durations that are known at this stage.
func (a *Agent) fillTimings(s *sight, u Update, step Step, st *v1alpha1.InPlaceUpdateStatus) {
	if st.Timings == nil {
		st.Timings = &v1alpha1.Timings{}
	}
	t := st.Timings
	if step.Stage == v1alpha1.StagePrepared {
		setOnce(&t.Prepare, s.now.Sub(s.track.seen))
	}
	if step.Stage == v1alpha1.StageDrained && u.Order.DrainMode != "" && !s.track.acked.IsZero() {
		t.Drain = millis(s.now.Sub(s.track.acked.Add(u.Order.Propagation)))
	}
	if !u.Pod.patchedByOrder || rank(step.Stage) < rank(v1alpha1.StageSwapping) {
		return
	}
	stopped, started := swapTimes(s, st.Containers)
	if ended, kept := s.track.memory.stopped(u); kept {
		stopped = ended
	}
	if !stopped.IsZero() {
		setOnce(&t.Stop, stopped.Sub(u.Pod.Patched.At))
	}
	if !stopped.IsZero() && !started.IsZero() {
		t.Start = millis(started.Sub(stopped))
	}
	if !started.IsZero() && !s.track.ready.IsZero() {
		setOnce(&t.Load, s.track.ready.Sub(started))
	}
	if acked := s.ackedAt(); step.Stage == v1alpha1.StageInService && !acked.IsZero() {
		t.OutOfService = millis(s.now.Sub(acked))
	}
}

// ackedAt is when the Pod went out of traffic. The gate's message has it until the gate opens;
// after that this process remembers it, or the journal.
func (s *sight) ackedAt() time.Time {
	if !s.track.acked.IsZero() {
		return s.track.acked
	}
	if step, ok := s.record.Step(journal.Action{Kind: journal.Hold}); ok {
		return step.Ended
	}
	return time.Time{}
}

// swapTimes returns when the last old container ended and when the last new one started.
func swapTimes(s *sight, reports []v1alpha1.ContainerReport) (stopped, started time.Time) {
	for _, r := range reports {
		if r.Before == nil || r.Planned == 0 {
			continue
		}
		stopped = latest(stopped, endOf(s, r))
		if r.After == nil {
			continue
		}
		if now, ok := s.cri.Container(r.After.ContainerID); ok {
			started = latest(started, now.StartedAt)
		}
	}
	return stopped, started
}

// endOf returns when the old container of a replaced one ended. Kubelet may collect it as soon as the
// next is made, one that was never started does not end, and of one that the runtime has lost track of it
// does not know: they count until the next was made.
func endOf(s *sight, r v1alpha1.ContainerReport) (end time.Time) {
	old, ok := s.cri.Container(r.Before.ContainerID)
	if ok && old.State != cri.Created && !old.FinishedAt.IsZero() {
		return old.FinishedAt
	}
	for _, c := range s.cri.Containers {
		if c.Name == r.Name && c.CreatedAt.After(s.patched().At) {
			end = earliest(end, c.CreatedAt)
		}
	}
	return end
}

func millis(d time.Duration) *int64 {
	ms := max(0, d.Milliseconds())
	return &ms
}

func setOnce(to **int64, d time.Duration) {
	if *to == nil {
		*to = millis(d)
	}
}

func fillConditions(s *sight, step Step, st *v1alpha1.InPlaceUpdateStatus) {
	complete := metav1.Condition{
		Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: string(step.Stage),
		Message: st.Message, ObservedGeneration: s.order.Generation,
	}
	if step.Stage == v1alpha1.StageInService {
		complete.Status = metav1.ConditionTrue
	}
	if step.Reason != "" {
		complete.Reason = string(step.Reason)
	}
	meta.SetStatusCondition(&st.Conditions, complete)
	if s.pod == nil || rank(step.Stage) < rank(v1alpha1.StageSwapping) || st.Timings == nil || st.Timings.Stop == nil {
		return
	}
	kept := metav1.Condition{
		Type: v1alpha1.ConditionPlacementKept, Status: metav1.ConditionTrue, Reason: "SandboxKept",
		Message: "the Pod kept its sandbox and its IP address", ObservedGeneration: s.order.Generation,
	}
	if n := sandboxesSince(s); n > 0 {
		kept.Status, kept.Reason = metav1.ConditionFalse, "SandboxRebuilt"
		kept.Message = fmt.Sprintf("the Pod's sandbox was rebuilt during the update: its IP address is now %s", s.pod.Status.PodIP)
	}
	meta.SetStatusCondition(&st.Conditions, kept)
}

// sandboxesSince counts the sandboxes made since the images were patched.
func sandboxesSince(s *sight) int {
	at, n := s.patched().At, 0
	for _, b := range s.cri.Sandboxes {
		if !at.IsZero() && b.CreatedAt.After(at) {
			n++
		}
	}
	return n
}

// announce tells people and metrics of a stage that was reported.
func (a *Agent) announce(ctx context.Context, s *sight, step Step) {
	log := logr.FromContextOrDiscard(ctx)
	log.Info("update reported", "attempt", s.order.Spec.Attempt, "stage", step.Stage, "reason", step.Reason, "message", step.Message)
	if !step.Stage.Ended() && step.Stage != v1alpha1.StageFailed {
		return
	}
	a.metrics.countEnd(step.Stage, step.Reason)
	kind, reason := ending(step.Stage)
	a.events.note(s, kind, reason, sentence(step))
}

// ending returns kind and reason of the event for a stage at which an attempt ends.
func ending(s v1alpha1.Stage) (kind, reason string) {
	if s == v1alpha1.StageRefused {
		return corev1.EventTypeWarning, v1alpha1.EventRefused
	}
	if s == v1alpha1.StageFailed {
		return corev1.EventTypeWarning, v1alpha1.EventFailed
	}
	if s == v1alpha1.StageCancelled {
		return corev1.EventTypeNormal, v1alpha1.EventCancelled
	}
	return corev1.EventTypeNormal, v1alpha1.EventInService
}

// sentence says for people how an attempt ended.
func sentence(step Step) string {
	text := "the Pod is in service"
	if step.Stage != v1alpha1.StageInService {
		text = "the update ended " + string(step.Stage)
	}
	if step.Reason != "" {
		text += ", " + string(step.Reason)
	}
	if step.Message != "" {
		text += ": " + step.Message
	}
	return text
}
