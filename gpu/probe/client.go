// Package probe reads the GPUs of a node through a child process, pitstop-gpu-probe. NVIDIA's library can end a
// process or hang in it, so that it must not be loaded by the agent; here such a thing is a Reading that says Unknown.
//
// There is one child at most. It is started by the first Read and kept. One that is slow, dead or garbled is ended:
// asked to, first, so that it lets go of the driver in order, and killed after a grace. One that cannot be killed sits in
// the driver; no second one is started beside it. The next start waits for a back-off.
package probe

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu"
)

// MaxRelease bounds how long NVML is let go of.
const MaxRelease = time.Hour

// A Config says how to run the child. Zero fields have the default.
type Config struct {
	// Path is that of pitstop-gpu-probe. Default /pitstop-gpu-probe, where the agent's image has it.
	Path string
	// Args go to the child, such as --library=PATH.
	Args []string
	// Env is added to the agent's environment.
	Env []string
	// Timeout is how long the child may take for a reading. A Read without a deadline has this one. Default 5 s.
	Timeout time.Duration
	// StartTimeout is how long it may take to begin: a driver without its persistence daemon initialises each GPU
	// then. Default 60 s.
	StartTimeout time.Duration
	// Grace is how long a child may take to end when asked to, and again when killed. Default 3 s.
	Grace time.Duration
	// MinPause and MaxPause bound the pause between two starts; it doubles with each start that came to nothing.
	// Default 1 s and 60 s.
	MinPause, MaxPause time.Duration
	// Keep is how many events are kept. Default 1024.
	Keep int
	// Clock is the real one by default.
	Clock clock.WithTicker

	// kill ends the process with a PID; tests have one that cannot be killed.
	kill func(pid int) error
}

func (c Config) withDefaults() Config {
	c.Path = cmp.Or(c.Path, "/pitstop-gpu-probe")
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.StartTimeout = cmp.Or(c.StartTimeout, 60*time.Second)
	c.Grace = cmp.Or(c.Grace, 3*time.Second)
	c.MinPause = cmp.Or(c.MinPause, time.Second)
	c.MaxPause = max(c.MinPause, cmp.Or(c.MaxPause, 60*time.Second))
	c.Keep = cmp.Or(c.Keep, 1024)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.kill == nil {
		c.kill = kill
	}
	return c
}

// A Client is a gpu.Reader. Its methods may be called from several goroutines; readings are taken one after the other.
type Client struct {
	cfg      Config
	requests chan request
	// wake tells the keeper that a release was asked for.
	wake chan struct{}
	// done is closed when Run has returned.
	done chan struct{}
	ring *ring

	mu sync.Mutex
	// released is the end of the release; zero: none.
	released time.Time
	// doing is what the keeper is busy with, for those whose deadline comes first.
	doing string
}

// A request is one Read.
type request struct {
	// gone is closed once nobody waits for the answer.
	gone   <-chan struct{}
	answer chan<- gpu.Reading
}

var _ gpu.Reader = (*Client)(nil)

// New returns a Client that answers once Run is called. It starts nothing.
func New(cfg Config) *Client {
	cfg = cfg.withDefaults()
	return &Client{
		cfg: cfg, requests: make(chan request), wake: make(chan struct{}, 1), done: make(chan struct{}),
		ring: newRing(cfg.Clock, cfg.Keep),
	}
}

// Read implements gpu.Reader. A caller whose deadline comes first gets Unknown, and the child goes on: how long it may
// take is a matter of Config, so that an impatient caller kills nothing.
func (c *Client) Read(ctx context.Context) gpu.Reading {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var expired <-chan time.Time
	if _, limited := ctx.Deadline(); !limited {
		timer := c.cfg.Clock.NewTimer(c.cfg.Timeout)
		defer timer.Stop()
		expired = timer.C()
	}
	answer := make(chan gpu.Reading, 1)
	requests := c.requests
	for {
		select {
		case requests <- request{gone: ctx.Done(), answer: answer}:
			requests = nil
		case r := <-answer:
			return c.stamp(r)
		case <-ctx.Done():
			return c.late()
		case <-expired:
			return c.late()
		case <-c.done:
			return c.unknown("the GPU probe is not run any more")
		}
	}
}

// Events implements gpu.Reader. An EventGap is put in where a child that listened has ended.
func (c *Client) Events(after uint64) []gpu.Event { return c.ring.after(after) }

// Release lets go of NVML, so that a GPU can be reset or its MIG mode changed: the child is ended in order, and none is
// started before until, or for an hour at most. Readings are Released once the child is gone. Another call changes
// the end; a time that is past ends the release.
func (c *Client) Release(until time.Time) {
	now := c.cfg.Clock.Now()
	if limit := now.Add(MaxRelease); until.After(limit) {
		until = limit
	}
	if !until.After(now) {
		until = time.Time{}
	}
	c.mu.Lock()
	c.released = until
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // it has not looked since the last one
	}
}

// releasedUntil returns the end of the release under way, and whether there is one.
func (c *Client) releasedUntil() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released, c.cfg.Clock.Now().Before(c.released)
}

// busy notes what the keeper does.
func (c *Client) busy(with string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doing = with
}

func (c *Client) late() gpu.Reading {
	c.mu.Lock()
	doing := cmp.Or(c.doing, "it is not run")
	c.mu.Unlock()
	return c.unknown("the GPU probe did not answer in time: %s", doing)
}

func (c *Client) unknown(format string, args ...any) gpu.Reading {
	return c.stamp(gpu.Reading{State: gpu.Unknown, Message: fmt.Sprintf(format, args...)})
}

func (c *Client) stamp(r gpu.Reading) gpu.Reading {
	if r.At.IsZero() {
		r.At = c.cfg.Clock.Now()
	}
	return r
}
