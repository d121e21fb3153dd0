package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
)

const (
	// maxSteps bounds the steps of one turn, so that one Pod never keeps a worker.
	maxSteps = 12
	// reportAfter is how long a stage or reason lasts before it is reported, where no one waits
	// for the report.
	reportAfter = 5 * time.Second
	// refreshEvery is the time between two reports of the same wait with another message.
	refreshEvery = 10 * time.Second
)

// errLookAgain reports that what was read is outdated: the next look reads anew.
var errLookAgain = errors.New("what was read is outdated")

// reconcile takes one Pod as far as it goes now, and returns when it is to be looked at again
// at the latest; zero if only when something changes.
func (a *Agent) reconcile(ctx context.Context, key types.NamespacedName) (time.Time, error) {
	for range maxSteps {
		s, err := a.look(ctx, key)
		if err != nil {
			return time.Time{}, err
		}
		step, moved, err := a.turn(ctx, &s)
		a.setPace()
		if err != nil {
			return time.Time{}, a.outdated(&s, err)
		}
		if !moved {
			a.count(ctx, &s)
			return step.Until, a.syncGate(ctx, &s)
		}
	}
	return a.cfg.Clock.Now(), nil
}

// turn decides one step and takes it. moved reports whether there may be another one now.
func (a *Agent) turn(ctx context.Context, s *sight) (step Step, moved bool, err error) {
	u, step := a.decide(s, func() { a.read(ctx, s) })
	if u.GPUs.Due {
		a.looks.ask(ctx, s.pod, a.wake(s.key))
	}
	moved, err = a.take(ctx, s, u, step)
	switch {
	case s.order == nil:
	case err != nil:
		a.reportTrouble(ctx, s, u, err)
	case !moved && step.Do != ActDone:
		step, err = a.reportWait(ctx, s, u, step)
	}
	return step, moved, err
}

// decide returns the next step, and what it rests on.
func (a *Agent) decide(s *sight, read func()) (Update, Step) {
	if s.strange() {
		s.order = nil
	}
	switch {
	case s.order != nil:
		u := a.observe(s, read)
		return u, Next(u, s.now)
	case s.pod != nil && readiness.HasGate(s.pod) && s.pod.Annotations[v1alpha1.HoldInPlace] != "":
		u := a.observeOrphan(s, read)
		if ofServingGroup(s.pod) {
			return u, KeepHeld(u, s.now)
		}
		return u, FinishOrphan(u, s.now)
	default:
		return Update{}, Step{Do: ActDone}
	}
}

// strange reports whether the order means nothing to the Pod that is here now, and says so
// already: it is about an earlier Pod of the name, or was refused as not to be followed.
func (s *sight) strange() bool {
	if s.order == nil || s.pod == nil || s.order.Status.Attempt != s.order.Spec.Attempt || !s.order.Status.Stage.Ended() {
		return false
	}
	reason := s.order.Status.Reason
	notOurs := reason == v1alpha1.RefusedForeign || reason == v1alpha1.RefusedNotOwned
	return s.order.Spec.PodUID != s.pod.UID ||
		notOurs && !sameOrder(s.pod.Annotations[v1alpha1.HoldInPlace], s.order.Token())
}

// late reports whether an error only says that what was read is outdated.
func late(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) ||
		errors.Is(err, journal.ErrSuperseded) || errors.Is(err, errLookAgain)
}

// outdated turns errors that only say that the cache is late into errLookAgain.
func (a *Agent) outdated(s *sight, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		if s.pod != nil {
			a.pods.forget(s.pod)
		}
		if s.order != nil {
			a.updates.forget(s.order)
		}
		return errLookAgain
	case late(err):
		return errLookAgain
	}
	return err
}

// take carries out one step. moved reports whether the world is another one now.
func (a *Agent) take(ctx context.Context, s *sight, u Update, step Step) (moved bool, err error) {
	log := logr.FromContextOrDiscard(ctx).V(1)
	if step.Do != ActNone && step.Do != ActDone {
		log.Info("step", "do", step.Do, "stage", step.Stage, "attempt", u.Order.Attempt, "reason", step.Reason)
	}
	a.moveTrack(s, step)
	switch step.Do {
	case ActNone:
		if step.Reason == v1alpha1.WaitingDrain && u.Order.counts() {
			a.drains.follow(ctx, u.Order, s.pod, a.wake(s.key))
		}
		return false, nil
	case ActDone:
		a.end(ctx, s, cmp.Or(string(step.Stage), "OrderGone"))
		return false, nil
	case ActReport:
		if err := a.report(ctx, s, u, step); err != nil || step.Stage != v1alpha1.StageDrained {
			return true, err
		}
		return true, a.swapAtOnce(ctx, s, u)
	case ActPull:
		return a.pull(ctx, s, step)
	case ActHold:
		return a.hold(ctx, s, u)
	case ActAnnounce:
		return true, a.askRouter(ctx, s, u)
	case ActAcknowledge:
		return true, a.acknowledge(ctx, s, u)
	case ActPatch:
		return true, a.patch(ctx, s)
	case ActStop:
		a.hint(ctx, s, journal.Action{Kind: journal.Stop, Subject: step.ContainerID})
		a.stops.kill(ctx, step.ContainerID, a.wake(s.key))
		return true, nil
	case ActRetry:
		a.planRetry(ctx, s, step.Container)
		return true, nil
	case ActOpen:
		return true, a.open(ctx, s)
	}
	return false, fmt.Errorf("unknown action %q", step.Do)
}

// swapAtOnce patches a Pod whose drain was reported this moment, if that is what comes next. What
// the report rests on holds for the patch as well, and the API server took it for the order as it
// stands: another look would only keep the Pod out of service for longer.
func (a *Agent) swapAtOnce(ctx context.Context, s *sight, u Update) error {
	order, ok := a.updates.get(s.key)
	if !ok || order.Token() != s.token {
		return nil
	}
	s.order, s.now, u.Report = order, a.cfg.Clock.Now(), reportOf(order)
	step := Next(u, s.now)
	if step.Do != ActPatch {
		return nil
	}
	a.moveTrack(s, step)
	return a.patch(ctx, s)
}

// moveTrack notes since when the attempt stands where the step says.
func (a *Agent) moveTrack(s *sight, step Step) {
	if s.track == nil || step.Stage == "" {
		return
	}
	if step.patient() {
		s.track.patient = s.now
	}
	if s.track.stage == step.Stage {
		return
	}
	if s.track.stage != "" && !s.track.since.IsZero() {
		a.metrics.observeStage(s.track.stage, s.now.Sub(s.track.since))
	}
	a.tracks.move(s.track, step.Stage, s.now)
}

// wake returns a function that has the Pod looked at again.
func (a *Agent) wake(key types.NamespacedName) func() { return func() { a.queue.Add(key) } }

// setPace relists the runtime more often while an update is open.
func (a *Agent) setPace() {
	pace := cri.Idle
	if a.tracks.busy() {
		pace = cri.Busy
	}
	a.feed.SetPace(pace)
}

// end drops what is kept for an attempt that is over.
func (a *Agent) end(ctx context.Context, s *sight, outcome string) {
	if one := a.tracks.drop(s.key); one != nil {
		a.images.forget(func(token string) bool { return sameOrder(token, one.token) })
		a.drains.stop(one.pod)
		a.looks.forget(one.pod)
	}
	switch {
	case s.pod == nil:
		return
	case s.record.Seq == 0:
		s.record = a.keeper.read(ctx, s.pod.UID)
	}
	if s.record.Seq != 0 && s.record.Open() {
		err := a.keeper.with(ctx, func(j *journal.Journal) error { return j.End(s.record.Attempt, outcome) })
		if err != nil {
			logr.FromContextOrDiscard(ctx).V(1).Info("end is not on record", "cause", err.Error())
		}
	}
}

// syncGate makes the gate of the Pod agree with its holds, whoever set them.
func (a *Agent) syncGate(ctx context.Context, s *sight) error {
	if s.pod == nil {
		return nil
	}
	pod, ok := a.pods.get(s.key)
	if !ok || pod.UID != s.pod.UID {
		return nil
	}
	data, needed := readiness.Sync(pod, s.now)
	if !needed {
		return nil
	}
	out, err := a.api.patchPodStatus(ctx, pod, data)
	if err != nil {
		return a.outdated(s, fmt.Errorf("gate: %w", err))
	}
	a.pods.wrote(out)
	return nil
}
