package agent

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
)

// A Process is the agent without what it reads from and writes to: what one process of it remembers. A
// simulation of nodes has it look at Pods and carries out what it says. It must not be used by two
// goroutines at one time.
type Process struct{ agent *Agent }

// NewProcess returns a process that has just been started on the node.
func NewProcess(node string, c clock.PassiveClock) *Process {
	cfg := Config{NodeName: node, Clock: simulated{PassiveClock: c}, Parallel: 1}
	return &Process{&Agent{
		cfg: cfg, metrics: newMetrics(), tracks: newTracks(),
		images: newImages(cfg), drains: newDrains(cfg), stops: newStops(cfg), looks: newLooks(cfg),
	}}
}

// Restart is a crash and the next process.
func (p *Process) Restart() {
	a := p.agent
	a.tracks, a.images, a.drains, a.stops = newTracks(), newImages(a.cfg), newDrains(a.cfg), newStops(a.cfg)
}

// simulated is a clock of which only the time is asked for: nothing runs beside the looks.
type simulated struct {
	clock.WithTicker
	clock.PassiveClock
}

func (c simulated) Now() time.Time { return c.PassiveClock.Now() }

func (c simulated) Since(t time.Time) time.Duration { return c.PassiveClock.Since(t) }

// A Reading is what one look finds.
type Reading struct {
	Key types.NamespacedName
	// Pod and Order are as the API has them; nil: there is none.
	Pod   *corev1.Pod
	Order *v1alpha1.InPlaceUpdate
	// Node, Runtime and Record are what node, container runtime and journal have to say.
	Node    Node
	Runtime cri.Pod
	Record  journal.Record
	// Image says whether the image is on the node; of one that is not the process knows how its pull goes.
	Image func(image string) (p Proof, there bool)
	// Idle: the engine has no request left, which matters where there may be some.
	Idle bool
	// Hash is kubelet's for a container with an image.
	Hash func(container, image string) string
}

// A Look is one look at one Pod, and the step that follows from it.
type Look struct {
	Step   Step
	Update Update

	agent *Agent
	sight *sight
}

// Look looks at a Pod.
func (p *Process) Look(r Reading) *Look {
	a := p.agent
	s := &sight{key: r.Key, now: a.cfg.Clock.Now()}
	a.see(s, r.Pod, r.Order)
	l := &Look{agent: a, sight: s}
	l.Update, l.Step = a.decide(s, func() { l.read(r) })
	a.moveTrack(s, l.Step)
	return l
}

func (l *Look) read(r Reading) {
	s := l.sight
	s.node, s.cri, s.record, s.hash = r.Node, r.Runtime, r.Record, r.Hash
	s.proof = func(image string) Proof {
		if p, there := r.Image(image); there {
			return p
		}
		return l.agent.images.pulling(pullKey{s.token, image})
	}
	if r.Idle {
		drained := readiness.Drain{}.Next(s.now.Add(-time.Minute), readiness.Requests{}, nil).Next(s.now, readiness.Requests{}, nil)
		l.agent.drains.open[s.pod.UID] = &draining{token: s.token, seen: drained, cancel: func() {}}
	}
}

// Key names the Pod.
func (l *Look) Key() types.NamespacedName { return l.sight.key }

// Token names the attempt that the look is about.
func (l *Look) Token() string { return l.sight.token }

// Reports returns the status that an ActReport writes.
func (l *Look) Reports() v1alpha1.InPlaceUpdateStatus {
	return l.agent.status(l.sight, l.Update, l.Step)
}

// Waits returns when a wait is to be looked at again at the latest, zero if only when something changes, and
// the status to write, nil if there is none.
func (l *Look) Waits() (until time.Time, status *v1alpha1.InPlaceUpdateStatus) {
	step := l.Step
	if l.sight.order != nil && step.Do == ActNone {
		step, status = l.agent.waiting(l.sight, l.Update, step)
	}
	return step.Until, status
}

// Writes returns the patch of the Pod's status by which the step is taken: ActHold, ActAnnounce,
// ActAcknowledge or ActOpen.
func (l *Look) Writes() ([]byte, error) {
	s, a := l.sight, l.agent
	switch l.Step.Do { //nolint:exhaustive // the others write something else
	case ActHold:
		a.drains.stop(s.pod.UID)
		return lower(s, l.Update)
	case ActAnnounce:
		return readiness.Announce(s.pod, l.Update.announces())
	case ActAcknowledge:
		return acknowledgement(s, l.Update)
	case ActOpen:
		a.drains.stop(s.pod.UID)
		return readiness.Raise(s.pod, s.opening(), s.now)
	default:
		return nil, fmt.Errorf("%q: %w", l.Step.Do, errNoWrite)
	}
}

var errNoWrite = errors.New("is no write to a Pod's status")

// Patches returns the images that an ActPatch writes, by container, and the mark that it leaves.
func (l *Look) Patches() (images map[string]string, mark string) {
	images = map[string]string{}
	for _, c := range l.sight.order.Spec.Containers {
		images[c.Name] = c.Image
	}
	return images, l.sight.mark().String()
}

// Stops notes that the container of an ActStop is being killed.
func (l *Look) Stops() { l.agent.stops.note(l.Step.ContainerID) }

// Ends drops what is kept for an attempt that is over.
func (l *Look) Ends() {
	if one := l.agent.tracks.drop(l.sight.key); one != nil {
		l.agent.images.forget(func(token string) bool { return sameOrder(token, one.token) })
		l.agent.drains.stop(one.pod)
	}
}

// Pulls notes that the pull of an ActPull begins. It returns what is to be called at its end with how it
// went, nil if it is under way already.
func (l *Look) Pulls() (ended func(error)) {
	m, key := l.agent.images, pullKey{l.sight.token, l.Step.Image}
	one := m.pulls[key]
	if one == nil {
		one = &pull{}
		m.pulls[key] = one
	}
	if one.running || one.queued {
		return nil
	}
	one.running, one.began = true, l.sight.now
	return func(err error) {
		if m.pulls[key] == one {
			m.ended(one, err)
		}
	}
}
