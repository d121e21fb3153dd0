package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/test/gpu/claim"
)

// ErrCrashed reports that the engine ended because its Config told it to crash.
var ErrCrashed = errors.New("engine crashed as configured")

// ErrEntryLost reports that the engine ended because its entry is gone or another one.
var ErrEntryLost = errors.New("the entry engine is gone or was started anew")

// An Engine is one start of the engine. Its handlers may be called from many goroutines.
type Engine struct {
	config Config
	clock  clock.Clock
	start  string // id of this start
	first  string // id of the first start that saw the state folder
	crash  <-chan time.Time
	loaded atomic.Bool
	memory []byte
	slots  chan struct{}
	conns  connections

	running, waiting, served atomic.Int64
}

// New makes an engine and counts its start in the state folder.
func New(c Config, clk clock.Clock) (*Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{config: c, clock: clk, start: rand.Text()[:12], slots: make(chan struct{}, c.Slots)}
	e.conns.active = map[net.Conn]struct{}{}
	var err error
	if e.first, err = remember(c.State, e.start); err != nil {
		return nil, err
	}
	crash := c.CrashAfter != nil
	if c.CrashTimes > 0 {
		n, err := countStart(c.State, c.Version)
		if err != nil {
			return nil, err
		}
		crash = crash && n <= c.CrashTimes
	}
	if crash {
		e.crash = clk.After(*c.CrashAfter)
	}
	return e, nil
}

// Run serves on l until ctx ends, then refuses new connections, waits for running requests as
// long as the Config's Grace, takes Shutdown more, and returns nil. An idle engine without a
// Shutdown returns at once. It returns ErrCrashed, with every stream cut, if it was told to crash,
// ErrEntryLost if it was told to end with its entry, and claim.ErrOutOfMemory if its GPUs have too little free.
func (e *Engine) Run(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: e.Handler(), ReadHeaderTimeout: 10 * time.Second, ConnState: e.conns.track}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	err := e.until(ctx, served)
	if err == nil {
		err = e.finish(ctx, srv)
	}
	// The streams that are left are cut, as by the death of a process.
	if cerr := srv.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	return err
}

// until waits for the end of ctx. Before that it loads, once its entry answers.
func (e *Engine) until(ctx context.Context, served <-chan error) error {
	entry := e.watchEntry(ctx)
	defer entry.stop()
	var loaded <-chan time.Time
	for {
		select {
		case <-entry.up:
			if err := e.takeGPUs(ctx); err != nil {
				return err
			}
			entry.up, loaded = nil, e.clock.After(e.config.Load)
		case <-entry.lost:
			return ErrEntryLost
		case <-e.crash:
			return ErrCrashed
		case err := <-served:
			return fmt.Errorf("serve: %w", err)
		case <-loaded:
			e.claim()
			e.loaded.Store(true)
		case <-ctx.Done():
			return nil
		}
	}
}

// takeGPUs takes the memory of its GPUs for this process, or ends the engine, as engines do that find too little free.
func (e *Engine) takeGPUs(ctx context.Context) error {
	if len(e.config.GPUs) == 0 || e.config.GPUMiB == 0 {
		return nil
	}
	return claim.Take(ctx, e.config.GPUSocket, claim.Request{GPUs: e.config.GPUs, MiB: e.config.GPUMiB, Release: e.config.GPURelease})
}

// claim takes the memory and touches every page of it, so that it is resident.
func (e *Engine) claim() {
	e.memory = make([]byte, e.config.ClaimMiB<<20)
	for i := 0; i < len(e.memory); i += os.Getpagesize() {
		e.memory[i] = 1
	}
}

// finish refuses new connections and waits for running requests. ctx has ended.
func (e *Engine) finish(ctx context.Context, srv *http.Server) error {
	if err := srv.Shutdown(ctx); err != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("stop listening: %w", err)
	}
	select {
	case <-e.conns.none():
	case <-e.clock.After(e.config.Grace):
	case <-e.crash:
		return ErrCrashed
	}
	if e.config.Shutdown == 0 {
		return nil
	}
	select {
	case <-e.clock.After(e.config.Shutdown):
		return nil
	case <-e.crash:
		return ErrCrashed
	}
}
