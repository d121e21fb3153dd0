package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A probe is the one Writable under way.
type probe struct {
	mu   sync.Mutex
	done chan struct{} // nil: none
	err  error         // valid once done is closed
}

// Writable tries a small write under the conditions of Intend, and returns what Intend would.
// It may be called from a loop that must not hang with the disk: it returns when ctx ends,
// with ErrNotWritable, while the write goes on; calls that come meanwhile wait for that one.
func (j *Journal) Writable(ctx context.Context) error {
	done := j.probe.start(j.tryWrite)
	select {
	case <-done:
		return j.probe.result()
	case <-ctx.Done():
		return fmt.Errorf("write to journal: %w: %w", ErrNotWritable, context.Cause(ctx))
	}
}

func (j *Journal) tryWrite() error {
	err := j.update(func(tx *bolt.Tx) error {
		if err := j.h.makeRoom(tx, margin); err != nil {
			return err
		}
		now := j.now().Format(time.RFC3339Nano)
		return tx.Bucket([]byte(bucketProbe)).Put([]byte("last"), []byte(now))
	})
	if err != nil {
		return fmt.Errorf("write to journal: %w", err)
	}
	return nil
}

// start runs f unless a run is under way, and returns a channel that closes at its end.
func (p *probe) start(f func() error) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done != nil {
		select {
		case <-p.done:
		default:
			return p.done
		}
	}
	done := make(chan struct{})
	p.done = done
	go func() {
		err := f()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}()
	return done
}

func (p *probe) result() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *probe) wait() {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done != nil {
		<-done
	}
}
