package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const lockPoll = 50 * time.Millisecond

// acquire locks the file at path for this process, within the time-out. It returns ErrLocked.
func acquire(ctx context.Context, path string, o Options) (*os.File, error) {
	timeout := o.Clock.NewTimer(o.LockTimeout)
	defer timeout.Stop()
	for {
		f, err := tryLock(path)
		if !errors.Is(err, ErrLocked) {
			return f, err
		}
		poll := o.Clock.NewTimer(lockPoll)
		select {
		case <-poll.C():
		case <-timeout.C():
			poll.Stop()
			return nil, err
		case <-ctx.Done():
			poll.Stop()
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// tryLock locks the file at path if it is free. A lock belongs to the inode: where the file
// was replaced between opening and locking, another process may hold the new one.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, notWritable(err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrLocked
	case err != nil:
		err = notWritable(fmt.Errorf("lock %s: %w", path, err))
	case !isFile(f, path):
		err = ErrLocked
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// relock takes the lock again where somebody deleted its file.
func (j *Journal) relock() error {
	if isFile(j.lock, j.path(lockFile)) {
		return nil
	}
	if err := os.MkdirAll(j.o.Dir, 0o700); err != nil {
		return notWritable(err)
	}
	f, err := tryLock(j.path(lockFile))
	if err != nil {
		return notWritable(err)
	}
	_ = j.lock.Close() // its file is gone
	j.lock = f
	return nil
}
