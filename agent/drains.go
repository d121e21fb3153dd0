package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// scrapeEvery is the time between two looks at a draining engine. It is more than the half second
// that readiness asks for between two that count: the first look takes longer than the second.
const scrapeEvery = 550 * time.Millisecond

// drains follows the requests of the Pods that drain, beside the agent's work: an engine may
// take its time to answer.
type drains struct {
	scraper *readiness.Scraper
	clock   clock.WithTicker
	wg      sync.WaitGroup

	mu   sync.Mutex
	open map[types.UID]*draining
}

type draining struct {
	token  string
	cancel context.CancelFunc
	seen   readiness.Drain
	err    error
}

func newDrains(cfg Config) *drains {
	return &drains{scraper: cfg.Scraper, clock: cfg.Clock, open: map[types.UID]*draining{}}
}

// follow scrapes the Pod until stop, or until its drain is proved; changed is called on news. What
// a router has to say may come at any time, and the engine's word has to hold then: it is asked on.
func (d *drains) follow(ctx context.Context, o Order, pod *corev1.Pod, changed func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.open[pod.UID]; one != nil {
		if one.token == o.Token {
			return
		}
		one.cancel()
	}
	one := &draining{token: o.Token}
	ctx, one.cancel = context.WithCancel(ctx)
	d.open[pod.UID] = one
	d.wg.Go(func() {
		tick := d.clock.NewTicker(scrapeEvery)
		defer tick.Stop()
		for ctx.Err() == nil && (!d.scrape(ctx, one, pod) || o.DrainMode == v1alpha1.DrainRouter) {
			changed()
			select {
			case <-ctx.Done():
			case <-tick.C():
			}
		}
		changed()
	})
}

// scrape looks once and reports whether the drain is proved.
func (d *drains) scrape(ctx context.Context, one *draining, pod *corev1.Pod) bool {
	r, err := d.scraper.Requests(ctx, pod)
	d.mu.Lock()
	defer d.mu.Unlock()
	one.seen, one.err = one.seen.Next(d.clock.Now(), r, err), err
	return one.seen.Drained()
}

// state returns what is known of the Pod's requests for this attempt.
func (d *drains) state(o Order, pod *corev1.Pod) (Drain, readiness.Drain) {
	if why, nothing := readiness.NothingToDrain(pod); nothing {
		return Drain{Over: true, Message: "nothing to drain: " + string(why)}, readiness.Drain{Known: true}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.open[pod.UID]
	if one == nil || one.token != o.Token {
		one = &draining{token: o.Token, err: errNotCounted}
	}
	state := one.state()
	if o.DrainMode == v1alpha1.DrainRouter {
		state = one.routed(pod)
	}
	return state, one.seen
}

// errNotCounted reports that an engine was not asked yet.
var errNotCounted = errors.New("not asked yet")

// state is what the engine says.
func (one *draining) state() Drain {
	if one.err != nil {
		return Drain{Message: "the number of requests is unknown: " + one.err.Error()}
	}
	return Drain{
		Over:    one.seen.Drained(),
		Message: fmt.Sprintf("%d requests running, %d waiting", one.seen.Last.Running, one.seen.Last.Waiting),
	}
}

// routed is what router and engine say together. The router's word is enough where the engine
// publishes no requests, and never has in this drain.
func (one *draining) routed(pod *corev1.Pod) Drain {
	engine := one.state()
	switch {
	case !readiness.Answered(pod, one.token):
		return Drain{Message: "the router has not answered; " + engine.Message}
	case errors.Is(one.err, readiness.ErrUnmeasured) && !one.seen.Known:
		return Drain{Over: true, Message: "the router has no request left; " + one.err.Error()}
	}
	return Drain{Over: engine.Over, Message: "the router has no request left; " + engine.Message}
}

// stop ends the scraping of a Pod and forgets what was seen.
func (d *drains) stop(pod types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.open[pod]; one != nil {
		one.cancel()
		delete(d.open, pod)
	}
}

func (d *drains) wait() { d.wg.Wait() }
