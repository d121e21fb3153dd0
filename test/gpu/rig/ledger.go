package rig

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu/attribution"
	"pitstop.dev/test/gpu/claim"
)

// A Library is the stand-in of the driver's library, which lists what processes hold.
type Library interface {
	// Hold lists h, in place of what the same process held on that device.
	Hold(ctx context.Context, h Held) error
	// Drop lists h no more.
	Drop(ctx context.Context, h Held) error
}

// Held is the memory that one process holds on one device.
type Held struct {
	GPU string // UUID
	// PID is this machine's, and Start is that of attribution.Identity.
	PID     int32
	Start   uint64
	MiB     int
	Release time.Duration // that it is held after the process was first seen to be gone; negative: for ever
}

// A Ledger is the memory of a node's GPUs: who holds how much, and how much there is.
type Ledger struct {
	procfs  attribution.Procfs
	library Library
	clock   clock.PassiveClock

	mu   sync.Mutex
	free map[string]int // MiB of each device without its holders
	held []Held
	gone map[attribution.Identity]time.Time // when processes were first seen to be gone
}

// newLedger makes the memory of empty devices with so many MiB each.
func newLedger(c Config) *Ledger {
	l := &Ledger{
		procfs: attribution.Procfs{Root: "/proc"}, library: c.Library, clock: c.Clock,
		free: map[string]int{}, gone: map[attribution.Identity]time.Time{},
	}
	for _, uuid := range c.UUIDs {
		l.free[uuid] = c.MiB
	}
	return l
}

// Claim implements claim.Memory: all devices, or none.
func (l *Ledger) Claim(ctx context.Context, pid int32, r claim.Request) error {
	p, err := l.procfs.Process(pid)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.prune(ctx); err != nil {
		return err
	}
	for _, uuid := range r.GPUs {
		room, ok := l.free[uuid]
		if !ok {
			return fmt.Errorf("no GPU %s", uuid)
		}
		for _, h := range l.held {
			if h.GPU == uuid && (h.PID != pid || h.Start != p.Start) {
				room -= h.MiB
			}
		}
		if room < r.MiB {
			return fmt.Errorf("%w: %s has %d MiB free, %d are wanted", claim.ErrOutOfMemory, uuid, room, r.MiB)
		}
	}
	for _, uuid := range r.GPUs {
		if err := l.hold(ctx, Held{GPU: uuid, PID: pid, Start: p.Start, MiB: r.MiB, Release: r.Release}); err != nil {
			return err
		}
	}
	return nil
}

// Held returns what is held now.
func (l *Ledger) Held(ctx context.Context) ([]Held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.prune(ctx)
	return slices.Clone(l.held), err
}

func (l *Ledger) hold(ctx context.Context, h Held) error {
	l.held = slices.DeleteFunc(l.held, func(o Held) bool { return o.GPU == h.GPU && o.PID == h.PID && o.Start == h.Start })
	l.held = append(l.held, h)
	if l.library == nil {
		return nil
	}
	return l.library.Hold(ctx, h)
}

// prune drops what processes held that have been gone for long enough.
func (l *Ledger) prune(ctx context.Context) error {
	var kept []Held
	for i, h := range l.held {
		gone, err := l.released(h)
		if err == nil && gone && l.library != nil {
			err = l.library.Drop(ctx, h)
		}
		if err != nil {
			l.held = append(kept, l.held[i:]...)
			return err
		}
		if !gone {
			kept = append(kept, h)
		}
	}
	l.held = kept
	return nil
}

func (l *Ledger) released(h Held) (bool, error) {
	who := attribution.Identity{PID: h.PID, Start: h.Start}
	alive, err := l.alive(h)
	if err != nil || alive || h.Release < 0 {
		return false, err
	}
	now := l.clock.Now()
	if _, ok := l.gone[who]; !ok {
		l.gone[who] = now
	}
	return now.Sub(l.gone[who]) >= h.Release, nil
}
