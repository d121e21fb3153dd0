package journal

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

const (
	bucketMeta    = "meta"
	bucketPods    = "pods"
	bucketHistory = "history"
	bucketLedger  = "ledger"
	bucketProbe   = "probe"
)

var (
	// errUnchanged ends a transaction that has nothing to write; the caller sees success.
	errUnchanged = errors.New("unchanged")
	// errDamaged reports a file or a mapping that bbolt cannot be trusted with.
	errDamaged = errors.New("journal file is damaged")
)

// A handle is the open database.
type handle struct {
	db       *bolt.DB
	file     *os.File // the one that db has open
	limit    int64    // bytes that may be reserved
	reserved int64    // bytes of the file that have their blocks
	// suspect: a commit failed, so that what is in memory may not be what is on disk.
	suspect bool
	// poisoned: a transaction panicked and may have left db's locks held; nothing of db may be
	// called again, not even Close.
	poisoned bool
}

// close gives the file back. A poisoned handle leaks its mapping (a few MiB of address space),
// and with it the lock on the file, which therefore has to be opened here.
func (h *handle) close() error {
	switch {
	case h == nil:
		return nil
	case h.poisoned:
		return release(h.file)
	default:
		return h.db.Close()
	}
}

func release(f *os.File) error {
	if f == nil {
		return nil
	}
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// guard turns a panic, and a fault on a page that is not there, into errDamaged. It holds for
// the calling goroutine only: bbolt's own goroutines (Tx.Check) must not run on a file that
// may be damaged.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	return f()
}

// view runs a read transaction.
func (j *Journal) view(f func(*bolt.Tx) error) error {
	return j.transact(func(h *handle) error { return h.db.View(f) })
}

// update runs a write transaction and returns once it is durable. f may be run twice.
func (j *Journal) update(f func(*bolt.Tx) error) error {
	var (
		n    int
		took time.Duration
	)
	err := j.transact(func(h *handle) error {
		var refused error
		start := j.o.Clock.Now()
		err := h.db.Update(func(tx *bolt.Tx) error {
			refused = f(tx)
			return refused
		})
		if refused != nil {
			return refused
		}
		if err != nil {
			h.suspect = true
			return notWritable(err)
		}
		j.commits++
		n, took = j.commits, j.o.Clock.Since(start)
		return nil
	})
	switch {
	case errors.Is(err, errUnchanged):
		return nil
	case err != nil:
		return err
	}
	if j.o.Observe != nil {
		j.o.Observe(took)
	}
	if j.o.AfterCommit != nil {
		j.o.AfterCommit(n)
	}
	return nil
}

// transact runs one transaction, and once more on a new handle if the first one is damaged.
func (j *Journal) transact(f func(*handle) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.try(f)
	if errors.Is(err, errDamaged) {
		err = j.try(f)
	}
	return err
}

func (j *Journal) try(f func(*handle) error) error {
	if err := j.ready(); err != nil {
		return err
	}
	err := guard(func() error { return f(j.h) })
	if errors.Is(err, errDamaged) {
		j.h.poisoned = true
	}
	return err
}

// ready opens the file again where the handle cannot be used, or where it is no longer the
// file of that name, so that a write would be lost.
func (j *Journal) ready() error {
	if j.closed {
		return ErrClosed
	}
	if j.h != nil && !j.h.suspect && !j.h.poisoned && j.inPlace() {
		return nil
	}
	if j.h != nil {
		_ = j.h.close() // given up in any case
		j.h = nil
	}
	if err := j.relock(); err != nil {
		return err
	}
	h, report, err := j.openFile()
	if err != nil {
		return err
	}
	if report.Schema == 0 { // made anew, though there was one a moment ago
		report.Recovered = true
		j.recoveries++
	}
	j.h, j.report = h, report
	return nil
}

func (j *Journal) inPlace() bool {
	return isFile(j.h.file, j.path(dbFile)) && isFile(j.lock, j.path(lockFile))
}

func isFile(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}

// notWritable marks err, and with ErrFull where space is the reason. bbolt wraps some errors
// as text; those stay plain ErrNotWritable.
func notWritable(err error) error {
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, berrors.ErrMaxSizeReached} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w: %w", ErrNotWritable, ErrFull, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrNotWritable, err)
}
