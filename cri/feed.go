package cri

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A Pace is how often everything is read again, whatever the events say.
type Pace time.Duration

// The paces of a Feed.
const (
	Idle Pace = Pace(10 * time.Second) // no update is open
	Busy Pace = Pace(time.Second)      // one waits for a container
)

const (
	// retryMin is the first wait before a lost subscription is made anew; it doubles.
	retryMin = 250 * time.Millisecond
	// retryDown is the longest wait while the runtime is down.
	retryDown = time.Second
	// retryOff is the longest wait while the runtime answers and gives no events.
	retryOff = time.Minute
)

// Changes are the Pods to look at. They are hints: the same may come twice, and what they
// are about may be over.
type Changes struct {
	// All asks for a new look at every Pod.
	All bool
	// Pods are the UIDs of the Pods of which something changed, sorted.
	Pods []string
}

// A Feed tells when to read the runtime again. Where the runtime has events that are safe to
// take they make it quick; it is complete without them, since it also asks for a new look
// at its pace, after each new subscription, and after each that was lost. Its owner calls
// Run; the other methods may be called from anywhere.
//
// The events are drained as they come and only their Pods are kept, so that a slow reader of
// the Feed never stalls the runtime: containerd 2 blocks the node's container starts and
// exits while a subscriber does not read. containerd 1.7 has one queue from which two
// subscribers steal each other's events, so that there, as with a runtime that is not known,
// none are taken. CRI-O ends the stream at once where its events are off.
type Feed struct {
	client *Client
	ready  chan struct{}
	paced  chan struct{}

	mu   sync.Mutex
	all  bool
	pods map[string]struct{}
	pace Pace
}

// NewFeed returns a Feed at the Idle pace. It does nothing until Run is called.
func (c *Client) NewFeed() *Feed {
	return &Feed{
		client: c,
		ready:  make(chan struct{}, 1),
		paced:  make(chan struct{}, 1),
		pods:   map[string]struct{}{},
		pace:   Idle,
	}
}

// Ready is received from when there are Changes to Take.
func (f *Feed) Ready() <-chan struct{} { return f.ready }

// Take returns what has changed since it was last called.
func (f *Feed) Take() Changes {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := Changes{All: f.all, Pods: slices.Sorted(maps.Keys(f.pods))}
	f.all = false
	clear(f.pods)
	return changes
}

// SetPace changes how often everything is read again; a change asks for a new look at once.
func (f *Feed) SetPace(p Pace) {
	f.mu.Lock()
	changed := f.pace != p
	f.pace = p
	f.mu.Unlock()
	if changed {
		signal(f.paced)
	}
}

// Run feeds until ctx ends, and leaves no goroutine behind. The logger of ctx is told, at
// level 1, when events come and go.
func (f *Feed) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.subscribe(ctx)
	}()
	defer func() { <-done }()
	f.markAll()
	timer := f.client.cfg.Clock.NewTimer(f.period())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.paced:
			if !timer.Stop() {
				select {
				case <-timer.C():
				default:
				}
			}
		case <-timer.C():
		}
		timer.Reset(f.period())
		f.markAll()
	}
}

func (f *Feed) period() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.pace)
}

// subscribe keeps one subscription to the runtime's events until ctx ends.
func (f *Feed) subscribe(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	clock := f.client.cfg.Clock
	wait := retryMin
	for ctx.Err() == nil {
		begin := clock.Now()
		limit := retryOff
		v, err := f.client.Version(ctx)
		switch {
		case err != nil:
			limit = retryDown
		case !hasEvents(v):
			err = fmt.Errorf("runtime %s %s has no events that are safe to take", v.Runtime, v.Version)
		default:
			err = f.drain(ctx)
			f.markAll() // events were lost, and the runtime may have restarted
		}
		if ctx.Err() != nil {
			return
		}
		if clock.Since(begin) > retryOff {
			wait = retryMin
		}
		wait = min(wait, limit)
		log.V(1).Info("no runtime events", "error", err.Error(), "retry", wait.String())
		select {
		case <-ctx.Done():
			return
		case <-clock.After(wait):
		}
		wait *= 2
	}
}

// drain takes events until the stream ends. The error is never nil.
func (f *Feed) drain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.client.runtime.GetContainerEvents(ctx, &criv1.GetEventsRequest{})
	if err != nil {
		return fmt.Errorf("subscribe to events: %w", translate(err))
	}
	f.markAll() // what happened before the subscription
	for {
		event, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("events ended: %w", translate(err))
		}
		f.mark(podUID(event))
	}
}

func (f *Feed) markAll() { f.mark("") }

// mark notes a Pod, or all for an event that does not name one.
func (f *Feed) mark(uid string) {
	f.mu.Lock()
	if uid == "" {
		f.all = true
	} else {
		f.pods[uid] = struct{}{}
	}
	f.mu.Unlock()
	signal(f.ready)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is pending, and it is read after what was just noted
	}
}

// podUID finds the Pod of an event. The sandbox's status is missing once the sandbox is gone.
func podUID(e *criv1.ContainerEventResponse) string {
	if uid := e.GetPodSandboxStatus().GetLabels()[labelPodUID]; uid != "" {
		return uid
	}
	for _, s := range e.GetContainersStatuses() {
		if uid := s.GetLabels()[labelPodUID]; uid != "" {
			return uid
		}
	}
	return ""
}

// hasEvents says whether a subscription does no harm to kubelet or the node.
func hasEvents(v Version) bool {
	switch v.Runtime {
	case "containerd":
		major, known := major(v.Version)
		return known && major >= 2
	case "cri-o":
		return true
	default:
		return false
	}
}

func major(version string) (int, bool) {
	head, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	n, err := strconv.Atoi(head)
	return n, err == nil
}
