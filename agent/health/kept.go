package health

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"pitstop.dev/agent/durable"
	"pitstop.dev/gpu/health"
)

// KeptFile is the name of the file in Config.Dir. One that cannot be understood is put aside with the ending .bad.
const KeptFile = "gpus.json"

const (
	// keptVersion is that of a record.
	keptVersion = 1
	// keptMost bounds a record, in bytes.
	keptMost = 1 << 20
	// keepFor bounds the wait for the disk. The watching goes on without it.
	keepFor = 2 * time.Second
)

// A record is what a restarted agent has to know and nobody else would tell it.
type record struct {
	Version int `json:"version"`
	// Boot is the boot id of the node. What was known of the GPUs is void after another one.
	Boot string        `json:"boot"`
	GPUs health.Memory `json:"gpus"`
	// Release has an end only as long as that is ahead: the driver is let go of, or about to be.
	Release Release `json:"release"`
}

var (
	errNotUnderstood = errors.New("not understood")
	errDiskHangs     = errors.New("the disk does not answer")
)

// readRecord reads the record at path; the zero one if there is none. It returns errNotUnderstood for a file that is none.
func readRecord(path string) (r record, data []byte, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil, nil
	}
	if err != nil {
		return record{}, nil, err
	}
	defer f.Close() //nolint:errcheck // it was read
	if data, err = io.ReadAll(io.LimitReader(f, keptMost)); err != nil {
		return record{}, nil, err
	}
	switch err := json.Unmarshal(data, &r); {
	case err != nil:
		return record{}, nil, fmt.Errorf("%w: %w", errNotUnderstood, err)
	case r.Version != keptVersion:
		return record{}, nil, fmt.Errorf("%w: version %d, this agent writes %d", errNotUnderstood, r.Version, keptVersion)
	}
	return r, data, nil
}

// recall returns what of a record counts for an agent that starts at now on a node with the boot id. Where a boot id is
// not known the node may not have been rebooted. A release outlives a reboot, which may be part of the same work; it
// ends by itself.
func (r record) recall(boot string, now time.Time) record {
	if r.Boot != boot && r.Boot != "" && boot != "" {
		r.GPUs = health.Memory{}
	}
	if !r.Release.Until.IsZero() {
		r.GPUs.LetGo = true // it was, or the agent ended just before it
	}
	if r.Release.Until.Sub(now) > mostAhead || !r.Release.Until.After(now) {
		r.Release.Until = time.Time{}
	}
	return r
}

// A keeper keeps a record in a file. One goroutine uses it.
type keeper struct {
	path  string // empty: nothing is kept
	clock clock.WithTicker
	// has is what the file holds; nil: not known.
	has []byte
	// writing is what is being written, if pending is not nil.
	writing []byte
	pending chan error
	failed  bool
}

// load returns the record of an agent before. One that cannot be had counts as none.
func (k *keeper) load(ctx context.Context) record {
	if k.path == "" {
		return record{}
	}
	r, data, err := readRecord(k.path)
	if errors.Is(err, errNotUnderstood) {
		err = errors.Join(err, os.Rename(k.path, k.path+".bad"))
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("what was known of the GPUs cannot be read, they are judged anew", "file", k.path, "cause", err.Error())
	}
	k.has = data
	return r
}

// save writes a record that the file does not hold yet. One that cannot be written is written by a later call.
func (k *keeper) save(ctx context.Context, r record) {
	if k.path == "" || k.pending != nil && !k.settle(ctx, nil) {
		return
	}
	r.Version = keptVersion
	data, err := json.Marshal(r)
	if err != nil {
		k.complain(ctx, err)
		return
	}
	if bytes.Equal(data, k.has) || k.has == nil && !k.failed && len(r.GPUs.GPUs) == 0 && r.Release == (Release{}) {
		return // a node without GPUs gets no file
	}
	k.writing, k.pending = data, make(chan error, 1)
	go func(done chan<- error, path string) { done <- durable.Replace(path, data) }(k.pending, k.path)
	timer := k.clock.NewTimer(keepFor)
	defer timer.Stop()
	k.settle(ctx, timer.C())
}

// settle takes the outcome of the write under way, waiting no longer than until; nil: not at all.
func (k *keeper) settle(ctx context.Context, until <-chan time.Time) (done bool) {
	var err error
	if until == nil {
		select {
		case err = <-k.pending:
		default:
			return false
		}
	} else {
		select {
		case err = <-k.pending:
		case <-until:
			k.complain(ctx, errDiskHangs)
			return false
		}
	}
	k.pending = nil
	if err != nil {
		k.has = nil // either
		k.complain(ctx, err)
		return true
	}
	if k.failed {
		logr.FromContextOrDiscard(ctx).Info("what is known of the GPUs is kept again", "file", k.path)
	}
	k.has, k.failed = k.writing, false
	return true
}

// complain logs the first failure of a series.
func (k *keeper) complain(ctx context.Context, err error) {
	if !k.failed {
		logr.FromContextOrDiscard(ctx).Info("what is known of the GPUs cannot be kept, a restart of the agent would forget it",
			"file", k.path, "cause", err.Error())
	}
	k.failed = true
}

// Begin recalls what an agent before has kept, asks the Node, and lets go of the driver where one of them says so. It has
// to return before anything else reads the GPUs, and does so within callFor, but for a disk that hangs; Run begins itself
// where nobody has.
func (m *Monitor) Begin(ctx context.Context) {
	if m.cfg.Reader == nil || m.begun {
		return
	}
	m.begun = true
	now := m.clock.Now()
	kept := m.keeper.load(ctx).recall(m.cfg.BootID, now)
	m.state = m.cfg.Judge.Recall(kept.GPUs, now)
	m.publish(sight{verdicts: m.state.Verdicts(), release: kept.Release})
	if until := kept.Release.Until; m.cfg.Releaser != nil && !until.IsZero() {
		logr.FromContextOrDiscard(ctx).Info("release of the GPU driver", "what", "goes on until "+until.UTC().Format(time.RFC3339))
		m.cfg.Releaser.Release(until)
	}
	m.readNode(ctx, now)
}

// keep keeps what a restarted agent has to know, if it has changed.
func (m *Monitor) keep(ctx context.Context, now time.Time) {
	r := record{Boot: m.cfg.BootID, GPUs: m.state.Memory(), Release: m.last().release}
	if !r.Release.Until.After(now) {
		r.Release.Until = time.Time{}
	}
	m.keeper.save(ctx, r)
}
