package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

const (
	// stalledAfter is how long a pull may show no progress before it gives its slot back. It
	// goes on without one.
	stalledAfter = time.Minute
	// retryFirst and retryMost bound the wait before a pull is tried again.
	retryFirst = time.Second
	retryMost  = 30 * time.Second
	// broughtBy is how soon an image is seen that kubelet brings, because this node may not pull it.
	broughtBy = 2 * time.Second
)

// images brings images to the node and proves them. Pulls run beside the agent's work, at most
// so many at a time; their failures are remembered by attempt.
type images struct {
	runtime *cri.Client
	clock   clock.WithTicker
	minFree int64
	slots   chan struct{}
	wg      sync.WaitGroup

	mu    sync.Mutex
	pulls map[pullKey]*pull
}

type pullKey struct{ token, image string }

// A pull is one image that one attempt wants.
type pull struct {
	cancel   context.CancelFunc
	running  bool
	queued   bool
	bytes    int64
	began    time.Time
	progress time.Time // when it last came on
	failures int
	err      error
	retryAt  time.Time
}

func newImages(cfg Config) *images {
	return &images{
		runtime: cfg.Runtime, clock: cfg.Clock, minFree: cfg.MinFreeBytes,
		slots: make(chan struct{}, cfg.Parallel), pulls: map[pullKey]*pull{},
	}
}

// proof says what the node has of an image, and what is being done about it. It is asked of the
// runtime each time, since kubelet's collector may remove what nothing uses yet.
func (m *images) proof(ctx context.Context, token, image string) Proof {
	found, err := m.runtime.Image(ctx, image)
	switch {
	case err == nil && !runsHere(found):
		return Proof{
			State: ProofRefused, Why: v1alpha1.RefusedPlatform,
			Message: fmt.Sprintf("image %s is for %s/%s, this node is %s/%s", image, found.OS, found.Architecture, goruntime.GOOS, goruntime.GOARCH),
		}
	case err == nil:
		return Proof{State: Proved, ID: found.ID}
	case !errors.Is(err, cri.ErrImageNotFound):
		return Proof{State: ProofUnknown, Message: err.Error()}
	}
	return m.pulling(pullKey{token, image})
}

func runsHere(i cri.Image) bool {
	return (i.OS == "" || i.OS == goruntime.GOOS) && (i.Architecture == "" || i.Architecture == goruntime.GOARCH)
}

// pulling says how far the pull of an image is that is not on the node.
func (m *images) pulling(key pullKey) Proof {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.pulls[key]
	switch now := m.clock.Now(); {
	case !ok:
		return Proof{State: ProofMissing}
	case p.failures > 0 && (p.running || p.queued): // one wait for one reason, not two in turns
		return p.retrying(now)
	case p.queued:
		return Proof{State: ProofPending, Why: v1alpha1.WaitingSlot, Message: fmt.Sprintf("%d pulls are under way on this node", cap(m.slots))}
	case p.running:
		return Proof{State: ProofPending, Why: v1alpha1.WaitingPull, Message: fmt.Sprintf(
			"image %s: %d MiB in %s", key.image, p.bytes>>20, now.Sub(p.began).Round(time.Second))}
	case p.err == nil:
		return Proof{State: ProofMissing} // it was here and is gone again
	default:
		return p.failure(now)
	}
}

// retrying says why the pull failed before that is tried again now.
func (p *pull) retrying(now time.Time) Proof {
	again := *p
	again.retryAt = now.Add(retryMost)
	f := again.failure(now)
	f.State, f.RetryAt = ProofPending, time.Time{}
	if f.Why == v1alpha1.WaitingUnauthorized {
		f.RetryAt = now.Add(broughtBy)
	}
	return f
}

func (p *pull) failure(now time.Time) Proof {
	f := Proof{State: ProofPending, Message: p.err.Error(), RetryAt: p.retryAt, Why: v1alpha1.WaitingRegistry}
	switch {
	case errors.Is(p.err, cri.ErrImageNotFound):
		return Proof{State: ProofRefused, Why: v1alpha1.RefusedNotFound, Message: p.err.Error()}
	case errors.Is(p.err, cri.ErrWrongPlatform):
		return Proof{State: ProofRefused, Why: v1alpha1.RefusedPlatform, Message: p.err.Error()}
	case errors.Is(p.err, cri.ErrUnauthorized):
		f.Why = v1alpha1.WaitingUnauthorized
	case errors.Is(p.err, cri.ErrNoSpace):
		f.Why = v1alpha1.WaitingDisk
	case errors.Is(p.err, cri.ErrUnavailable):
		f.Why = v1alpha1.WaitingRuntime
	}
	if !now.Before(p.retryAt) {
		f.State = ProofMissing
	} else if f.Why == v1alpha1.WaitingUnauthorized {
		f.RetryAt = earliest(f.RetryAt, now.Add(broughtBy))
	}
	return f
}

// start begins the pull of an image unless it is under way, and calls done when it has ended,
// well or badly. The owner of the images waits for the pull's end.
func (m *images) start(ctx context.Context, token, image string, done func()) {
	key := pullKey{token, image}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pulls[key]
	if p == nil {
		p = &pull{}
		m.pulls[key] = p
	}
	if p.running || p.queued {
		return
	}
	ctx, p.cancel = context.WithCancel(ctx)
	p.queued, p.bytes = true, 0
	m.wg.Go(func() {
		defer done()
		defer p.cancel()
		m.pull(ctx, key, p)
	})
}

func (m *images) pull(ctx context.Context, key pullKey, p *pull) {
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		m.ended(p, ctx.Err())
		return
	}
	giveBack := sync.OnceFunc(func() { <-m.slots })
	defer giveBack()
	m.set(func() {
		p.queued, p.running = false, true
		p.began = m.clock.Now()
		p.progress = p.began
	})
	if err := m.enoughSpace(ctx); err != nil {
		m.ended(p, err)
		return
	}
	logr.FromContextOrDiscard(ctx).V(1).Info("pulling image", "image", key.image)
	m.ended(p, m.runtime.Pull(ctx, key.image, func(seen cri.Progress) {
		m.set(func() {
			if seen.Bytes > p.bytes {
				p.bytes, p.progress = seen.Bytes, m.clock.Now()
			} else if m.clock.Since(p.progress) > stalledAfter {
				giveBack()
			}
		})
	}))
}

// enoughSpace keeps a pull from filling the file system: kubelet would then evict the very Pods
// that are to be kept. Space that cannot be seen is not judged.
func (m *images) enoughSpace(ctx context.Context) error {
	if m.minFree == 0 {
		return nil
	}
	free, err := m.runtime.FreeBytes(ctx)
	if err != nil || free >= uint64(m.minFree) {
		return nil //nolint:nilerr // unknown is not low: the pull itself will tell
	}
	return fmt.Errorf("%w: %d MiB free on the image file system, %d MiB must be: remove unused images or lower --min-free-bytes",
		cri.ErrNoSpace, free>>20, m.minFree>>20)
}

func (m *images) ended(p *pull, err error) {
	m.set(func() {
		p.running, p.queued, p.err = false, false, err
		if err == nil {
			p.failures = 0
			return
		}
		wait := retryMost
		if p.failures < 5 {
			wait = min(retryMost, retryFirst<<p.failures)
		}
		p.failures++
		p.retryAt = m.clock.Now().Add(wait)
	})
}

func (m *images) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// forget ends and drops what other attempts of the same order, or this one, had pulled: always in the same order, so that
// a history that is played again is the same.
func (m *images) forget(match func(token string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(m.pulls), pullKey.compare) {
		if match(key.token) {
			if p := m.pulls[key]; p.cancel != nil {
				p.cancel()
			}
			delete(m.pulls, key)
		}
	}
}

func (k pullKey) compare(o pullKey) int {
	return cmp.Or(cmp.Compare(k.token, o.token), cmp.Compare(k.image, o.image))
}

// wait returns when no pull is under way. The context that the pulls were started with must
// have ended.
func (m *images) wait() { m.wg.Wait() }
