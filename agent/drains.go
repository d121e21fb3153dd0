package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

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

// follow scrapes the Pod until stop, or until its drain is proved; changed is called on news.
func (d *drains) follow(ctx context.Context, token string, pod *corev1.Pod, changed func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.open[pod.UID]; one != nil {
		if one.token == token {
			return
		}
		one.cancel()
	}
	one := &draining{token: token}
	ctx, one.cancel = context.WithCancel(ctx)
	d.open[pod.UID] = one
	d.wg.Go(func() {
		tick := d.clock.NewTicker(scrapeEvery)
		defer tick.Stop()
		for ctx.Err() == nil && !d.scrape(ctx, one, pod) {
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
func (d *drains) state(token string, pod *corev1.Pod) (Drain, readiness.Drain) {
	if why, nothing := readiness.NothingToDrain(pod); nothing {
		return Drain{Over: true, Message: "nothing to drain: " + string(why)}, readiness.Drain{Known: true}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.open[pod.UID]
	switch {
	case one == nil || one.token != token:
		return Drain{Message: "requests are not counted yet"}, readiness.Drain{}
	case one.err != nil:
		return Drain{Message: "the number of requests is unknown: " + one.err.Error()}, one.seen
	}
	return Drain{
		Over:    one.seen.Drained(),
		Message: fmt.Sprintf("%d requests running, %d waiting", one.seen.Last.Running, one.seen.Last.Waiting),
	}, one.seen
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
