package health

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

const (
	// readFor bounds one look at the GPUs.
	readFor = 4 * time.Second
	// nodeEvery is the time between two looks at the Node, where the release of the driver is asked for. While it goes on
	// each round looks: whoever ends it waits for the driver.
	nodeEvery = 20 * time.Second
	// absentEvery is the time between two looks for GPUs on a node that has none.
	absentEvery = time.Minute
)

// An API is what a Monitor needs of the API server.
type API interface {
	// Pods returns the Pods of the node, and whether these are known: the API server has listed them. They are shared:
	// nobody may change them.
	Pods() (pods []*corev1.Pod, known bool)
	// Node reads the Node.
	Node(context.Context) (*corev1.Node, error)
	// PatchNodeStatus applies a strategic-merge patch to the status of the Node, and returns what it became.
	PatchNodeStatus(ctx context.Context, data []byte) (*corev1.Node, error)
	// PatchPodStatus applies a strategic-merge patch to the status of a Pod.
	PatchPodStatus(ctx context.Context, pod *corev1.Pod, data []byte) error
	// Event records an event about an object.
	Event(about *corev1.ObjectReference, kind, reason, message string)
}

// An Assigner knows which GPUs Pods were given.
type Assigner interface {
	// Assigned returns the GPUs of each Pod, by UID, as UUIDs of GPUs or of MIG devices. A Pod of which that is not
	// known is not in it.
	Assigned(ctx context.Context, pods []*corev1.Pod, r gpu.Reading) map[types.UID][]string
}

// A Releaser lets go of the GPU driver until a time, and takes it again at once for the zero time.
type Releaser interface{ Release(until time.Time) }

// A Config says how the GPUs of a node are watched.
type Config struct {
	// Reader reads the GPUs. nil: there is no probe, and nothing is watched or written.
	Reader gpu.Reader
	// Releaser lets go of the driver; nil: it cannot be let go of.
	Releaser Releaser
	// Assigner knows the GPUs of Pods; nil: nothing is known of any.
	Assigner Assigner
	// Residency knows who holds memory; nil: nobody is known.
	Residency Residency
	// Dir is the folder in which what a restarted agent has to know is kept, on a local file system; empty: nothing is.
	Dir string
	// BootID is that of the node; empty: not known.
	BootID string
	// Judge says how GPUs are judged. The zero value is health.Default.
	Judge health.Config
	// Every is the time between two readings. Default 5 s.
	Every time.Duration
	// Heartbeat is how old the sign of life in the Node's condition may grow. Default 5 min.
	Heartbeat time.Duration
}

// Validate reports what is wrong.
func (c Config) Validate() error {
	c = c.withDefaults()
	errs := []error{c.Judge.Validate()}
	if c.Every < 0 || c.Heartbeat < 0 {
		errs = append(errs, errors.New("the times between readings and heartbeats of GPU health must not be negative"))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Judge.Classes == nil && c.Judge.Bad == 0 {
		c.Judge = health.Default()
	}
	c.Every = cmp.Or(c.Every, 5*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 5*time.Minute)
	return c
}

// A Monitor watches the GPUs of a node. Its methods may be called from several goroutines, and of a nil one too: it
// knows nothing.
type Monitor struct {
	cfg   Config
	api   API
	clock clock.WithTicker

	// What the loop alone uses.
	keeper   keeper
	begun    bool
	looked   bool // at the Node
	bare     bool // a node without GPUs, when it was looked at last
	state    health.State
	seq      uint64
	node     *corev1.Node
	nodeAt   time.Time
	lookedAt time.Time
	unread   int                    // rounds in a row in which no GPU was read
	unknown  map[types.UID]int      // rounds in a row in which it was not known which GPUs a Pod has
	said     corev1.ConditionStatus // of the Node, by the last event
	waiting  []gpu.Event            // until the Pods are known
	unheard  bool                   // something could not be written in the last round
	unsaid   error                  // why the Node could not be written when that was last tried

	mu   sync.Mutex
	seen sight

	asking guard[holding]
}

// A sight is what the last round has found.
type sight struct {
	reading      gpu.Reading
	verdicts     []health.Verdict
	unattributed []health.Error
	missed       time.Time
	release      Release
	pods         map[types.UID]podSight
	podsKnown    bool
	errors       map[errorKey]int
	failed       int    // rounds in a row in which the probe told nothing
	stale        string // says how old it is, if it is too old to count
}

type podSight struct {
	name  types.NamespacedName
	uuids []string
	judgement
}

// errorKey is what errors are counted by. There are as many as GPUs and classes.
type errorKey struct {
	uuid  string
	class health.Class
}

// NewMonitor returns a Monitor that does nothing until Run.
func NewMonitor(cfg Config, api API, c clock.WithTicker) *Monitor {
	m := &Monitor{cfg: cfg.withDefaults(), api: api, clock: c, unknown: map[types.UID]int{}, keeper: keeper{clock: c}}
	if cfg.Dir != "" {
		m.keeper.path = filepath.Join(cfg.Dir, KeptFile)
	}
	return m
}

// Run watches until ctx ends. Without a probe it returns at once.
func (m *Monitor) Run(ctx context.Context) {
	if m.cfg.Reader == nil {
		return
	}
	tick := m.clock.NewTicker(m.cfg.Every)
	defer tick.Stop()
	for {
		m.Round(ctx)
		select {
		case <-ctx.Done():
			m.end(ctx)
			return
		case <-tick.C():
		}
	}
}

// Round looks once, judges, and reports. What is judged is kept before anybody is told: an agent that ends in between
// finds what it would have told, and one that ends before has told nothing.
func (m *Monitor) Round(ctx context.Context) {
	if m.cfg.Reader == nil {
		return
	}
	m.Begin(ctx)
	now := m.clock.Now()
	if m.last().reading.State == gpu.Absent && now.Sub(m.lookedAt) < absentEvery {
		return
	}
	m.lookedAt = now
	if !m.bare || m.node == nil {
		m.readNode(ctx, now) // before the GPUs are read: the driver may have to be let go of
	}
	reading := m.read(ctx)
	pods, known := m.api.Pods()
	if m.bare = m.without(reading, pods); m.bare {
		m.publish(sight{reading: reading, release: m.last().release})
		return
	}
	assigned := map[types.UID][]string{}
	if m.cfg.Assigner != nil && known {
		assigned = m.cfg.Assigner.Assigned(ctx, pods, reading)
	}
	events := m.events()
	if !known {
		events, m.waiting = whileBlind(events, m.cfg.Judge.Expected)
	}
	var verdicts []health.Verdict
	m.state, verdicts = health.Next(m.cfg.Judge, m.state, health.Input{Reading: reading, Events: events, Windows: windowsOf(pods, assigned)})
	m.keep(ctx, now)
	next := sight{
		reading: reading, verdicts: verdicts, unattributed: m.state.Unattributed(), missed: m.state.Missed(),
		release: m.last().release, podsKnown: known, pods: m.judgePods(pods, assigned, verdicts, reading), errors: counted(m.last().errors, verdicts),
	}
	m.tell(ctx, next)
	m.publish(next)
	m.report(ctx, pods, next, now)
}

// events returns what the driver has told and was not judged yet.
func (m *Monitor) events() []gpu.Event {
	told := m.cfg.Reader.Events(m.seq)
	for _, e := range told {
		m.seq = max(m.seq, e.Seq)
	}
	told, m.waiting = slices.Concat(m.waiting, told), nil
	return told
}

// end keeps what the driver has told since the last round: nobody will hear it again.
func (m *Monitor) end(ctx context.Context) {
	now, assigned := m.clock.Now(), map[types.UID][]string{}
	for uid, p := range m.last().pods {
		assigned[uid] = p.uuids
	}
	pods, known := m.api.Pods()
	events := m.events()
	if !known {
		events, _ = whileBlind(events, m.cfg.Judge.Expected)
	}
	m.state, _ = health.Next(m.cfg.Judge, m.state, health.Input{
		Reading: gpu.Reading{At: now, State: gpu.Unknown}, Events: events, Windows: windowsOf(pods, assigned),
	})
	m.keep(ctx, now)
}

// without reports whether this is a node without GPUs: there is no library for any, none is known, and no agent before has
// said anything of some.
func (m *Monitor) without(r gpu.Reading, pods []*corev1.Pod) bool {
	return r.State == gpu.Absent && !m.state.Known() && (m.node == nil || nodeCondition(m.node) == nil) &&
		!slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return podCondition(p) != nil })
}

func (m *Monitor) read(ctx context.Context) gpu.Reading {
	ctx, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	r := m.cfg.Reader.Read(ctx)
	if r.At.IsZero() {
		r.At = m.clock.Now()
	}
	m.unread++
	if r.State == gpu.Up && len(r.Devices) > 0 {
		m.unread = 0
	}
	return r
}

func (m *Monitor) last() sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

func (m *Monitor) publish(s sight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.reading.State == gpu.Unknown {
		s.failed = m.seen.failed + 1
	}
	m.seen = s
}

// judgePods judges the GPUs of all Pods that were given some. Where that could not be found out, a Pod that was judged
// before is unknown after two such rounds.
func (m *Monitor) judgePods(pods []*corev1.Pod, assigned map[types.UID][]string, all []health.Verdict, r gpu.Reading) map[types.UID]podSight {
	out := map[types.UID]podSight{}
	before := m.unknown
	m.unknown = map[types.UID]int{}
	for _, pod := range pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		uuids, known := assigned[pod.UID]
		switch {
		case known && len(uuids) > 0 && len(all) == 0:
			out[pod.UID] = podSight{name: name, uuids: uuids, judgement: judgement{Summary: health.Summary{
				Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownUnread, Message: whyNone(r), Gone: r.State == gpu.Absent,
			}}}
		case known && len(uuids) > 0:
			out[pod.UID] = podSight{name: name, uuids: uuids, judgement: judgePod(all, uuids)}
		case known || podCondition(pod) == nil:
		default:
			m.unknown[pod.UID] = before[pod.UID] + 1
			if m.unknown[pod.UID] >= m.cfg.Judge.Bad {
				out[pod.UID] = podSight{name: name, judgement: judgement{Summary: health.Summary{
					Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownUnassigned,
				}}}
			}
		}
	}
	return out
}

// counted adds what is new to the counts, each error of a window once.
func counted(before map[errorKey]int, verdicts []health.Verdict) map[errorKey]int {
	out := map[errorKey]int{}
	for _, v := range verdicts {
		for _, class := range []health.Class{health.Application, health.None, health.Reset, health.Reboot, health.Workflow} {
			key := errorKey{v.UUID, class}
			out[key] = before[key]
			for _, e := range v.Errors {
				if e.Fresh && e.Class == class {
					out[key]++
				}
			}
		}
	}
	return out
}

// tell logs what an operator acts on, once.
func (m *Monitor) tell(ctx context.Context, next sight) {
	log := logr.FromContextOrDiscard(ctx)
	before := m.last().verdicts
	for _, v := range next.verdicts {
		i := slices.IndexFunc(before, func(o health.Verdict) bool { return o.UUID == v.UUID })
		if i < 0 || before[i].Status != v.Status || before[i].Reason != v.Reason {
			log.Info("GPU health", "gpu", v.UUID, "index", v.Index, "healthy", v.Status, "reason", v.Reason, "cause", v.Message)
		}
		for _, e := range v.Errors {
			if e.Fresh {
				log.Info("GPU error", "gpu", v.UUID, "kind", e.Kind, "xid", e.XID, "class", e.Class, "expected", e.Expected)
			}
		}
	}
	for _, e := range next.unattributed {
		if e.Fresh {
			log.Info("GPU error of no known GPU", "kind", e.Kind, "xid", e.XID, "class", e.Class)
		}
	}
}

// Sick returns why nothing new may be started on the GPUs of a Pod; empty if nothing is known to be wrong with them. uuids
// are GPUs that it was found to have besides those that are known here. What an agent before this one has found holds until
// this one knows better.
func (m *Monitor) Sick(pod *corev1.Pod, uuids []string) string {
	if m == nil || m.cfg.Reader == nil {
		return ""
	}
	seen := m.last()
	now := seen.pods[pod.UID].Summary
	some, _ := health.Of(seen.verdicts, uuids)
	if why := cmp.Or(sick(now), sick(health.Sum(some, nil))); why != "" || now.Status == corev1.ConditionTrue {
		return why
	}
	if c := podCondition(pod); c != nil && c.Status == corev1.ConditionFalse {
		return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
	}
	return ""
}

func sick(s health.Summary) string {
	if s.Status != corev1.ConditionFalse {
		return ""
	}
	return strings.TrimSuffix(string(s.Reason)+": "+s.Message, ": ")
}
