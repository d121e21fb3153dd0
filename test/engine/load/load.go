// Package load runs streaming clients against an engine and counts what became of their
// requests. It sends to loopback and to the lab's network alone.
package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrForeign reports a destination that is neither loopback nor the lab's network 198.18.0.0/16.
var ErrForeign = errors.New("load may go to loopback and to 198.18.0.0/16 only")

// A Config says what is sent. Validate reports what is wrong with it.
type Config struct {
	URL       string        // of the engine's server, without a path: http://198.18.128.7:8000
	Clients   int           // streams at a time, 1 to 256
	Duration  time.Duration // of one stream, up to 1m; 0: 1s
	Chunks    int           // of one stream, up to 1000; 0: 10
	KeepAlive bool          // true: a client keeps its connection; false: a new one per request
	Timeout   time.Duration // of one request beyond Duration; 0: 10s
	Pause     time.Duration // of a client after a failure, so that a dead server is not flooded; 0: 100ms
}

// Validate reports every field that is out of bounds.
func (c Config) Validate() error {
	var errs []error
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" || u.Host == "" {
		errs = append(errs, fmt.Errorf("URL %q: want http://HOST:PORT", c.URL))
	}
	if c.Clients < 1 || c.Clients > 256 {
		errs = append(errs, fmt.Errorf("clients %d: want 1 to 256", c.Clients))
	}
	if c.Duration < 0 || c.Duration > time.Minute {
		errs = append(errs, fmt.Errorf("duration %s: want up to 1m", c.Duration))
	}
	if c.Chunks < 0 || c.Chunks > 1000 {
		errs = append(errs, fmt.Errorf("chunks %d: want up to 1000", c.Chunks))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Duration == 0 {
		c.Duration = time.Second
	}
	if c.Chunks == 0 {
		c.Chunks = 10
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Pause == 0 {
		c.Pause = 100 * time.Millisecond
	}
	return c
}

// A Load is a set of running clients. Its methods may be called from several goroutines.
type Load struct {
	config Config
	url    string
	clock  clock.Clock
	client *http.Client
	cancel context.CancelFunc
	last   chan struct{} // closed: no new requests
	once   sync.Once
	wg     sync.WaitGroup

	mu     sync.Mutex
	report Report
}

// Start starts the clients. The caller must call Stop. The end of ctx cuts what runs, and that is
// not counted as failed.
func Start(ctx context.Context, c Config, clk clock.Clock) (*Load, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	q := url.Values{"duration": {c.Duration.String()}, "chunks": {strconv.Itoa(c.Chunks)}}
	l := &Load{
		config: c,
		url:    c.URL + "/v1/completions?" + q.Encode(),
		clock:  clk,
		last:   make(chan struct{}),
		client: &http.Client{Transport: transport(c)},
		report: Report{Failed: map[Reason]int{}, Versions: map[string]int{}, Starts: map[string]int{}},
	}
	ctx, l.cancel = context.WithCancel(ctx)
	for range c.Clients {
		l.wg.Go(func() { l.run(ctx) })
	}
	return l, nil
}

// Stop sends nothing more, waits for the requests under way, at most for Duration + Timeout, and
// returns the final report. It may be called twice.
func (l *Load) Stop() Report {
	l.once.Do(func() { close(l.last) })
	l.wg.Wait()
	l.cancel()
	l.client.CloseIdleConnections()
	return l.Report()
}

// Report returns the counts so far.
func (l *Load) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report.clone()
}

func (l *Load) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.last:
			return
		default:
		}
		if l.request(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-l.last:
		case <-l.clock.After(l.config.Pause):
		}
	}
}

// request sends one request, counts it, and reports whether it was answered in full.
func (l *Load) request(ctx context.Context) bool {
	rctx, cancel := context.WithTimeoutCause(ctx, l.config.Duration+l.config.Timeout, errTooLong)
	defer cancel()
	l.count(func(r *Report) { r.Sent++ })
	at := l.clock.Now()
	got, err := l.stream(rctx)
	l.count(func(r *Report) {
		switch {
		case err == nil:
			r.OK++
			r.Versions[got.Version]++
			r.Starts[got.Start]++
		case ctx.Err() != nil:
			r.Cancelled++
		default:
			r.fail(at, l.clock.Now(), reasonOf(rctx, err), err)
		}
	})
	return err == nil
}

func (l *Load) count(f func(*Report)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.report)
}
