package stub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockRetry is how often a taken lock is tried again.
const lockRetry = 10 * time.Millisecond

// A File is a state file. Its methods may be called from several goroutines, processes and containers.
type File struct{ Path string }

// Read returns the state; the zero State if there is no file.
func (f File) Read() (State, error) {
	data, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	s, err := Parse(data)
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	return s, nil
}

// Update changes the state under the lock. Readers see all of the change or nothing.
func (f File) Update(ctx context.Context, change func(*State)) (err error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s, err := f.Read()
	if err != nil {
		return err
	}
	change(&s)
	return f.replace(s.Encode())
}

// replace renames a new file into place. It may be written by all: the engines run as somebody else.
func (f File) replace(data []byte) error {
	next, err := os.CreateTemp(filepath.Dir(f.Path), filepath.Base(f.Path)+".*")
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	err = errors.Join(err, next.Chmod(0o666), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), f.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}

// lock waits for the lock, which goes with the process that holds it.
func (f File) lock(ctx context.Context) (unlock func() error, err error) {
	path := f.Path + ".lock"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	_ = file.Chmod(0o666) // refused where another user made it, who has done so
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, ctx.Err()), file.Close())
		case <-retry.C:
		}
	}
}

// Claim lets process pid hold mib MiB of the device gpu, in place of what it held there. It may be called from inside
// a container: pid is that of the caller's PID namespace, and the library finds the process from outside.
func (f File) Claim(ctx context.Context, pid int, gpu string, mib int) error {
	p, err := Identify(pid)
	if err != nil {
		return err
	}
	p.GPU, p.MiB = gpu, mib
	return f.Add(ctx, p)
}

// Add lets p hold memory, in place of what the same process held on that device.
func (f File) Add(ctx context.Context, p Process) error {
	return f.Update(ctx, func(s *State) {
		s.drop(func(o Process) bool { return o.owner() == p.owner() && o.GPU == p.GPU && o.List == p.List })
		s.Processes = append(s.Processes, p)
	})
}

// Free takes all that process pid holds away from it, on the device gpu, or on all if gpu is empty. The state may
// hold nothing of it.
func (f File) Free(ctx context.Context, pid int, gpu string) error {
	p, err := Identify(pid)
	if err != nil {
		return err
	}
	return f.Update(ctx, func(s *State) {
		s.drop(func(o Process) bool { return o.owner() == p.owner() && (gpu == "" || o.GPU == gpu) })
	})
}

// Raise lets the library tell e once, with an id of its own.
func (f File) Raise(ctx context.Context, e Event) error {
	return f.Update(ctx, func(s *State) {
		for _, o := range s.Events {
			e.ID = max(e.ID, o.ID)
		}
		e.ID++
		s.Events = append(s.Events, e)
	})
}

// Identify names process pid of this PID namespace so that it is found from another one. A process that is gone
// has its PID alone.
func Identify(pid int) (Process, error) {
	p := Process{PID: pid}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	ns, err := os.Readlink(filepath.Join(dir, "ns", "pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if p.NS, err = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(ns, "pid:["), "]")); err != nil {
		return p, fmt.Errorf("PID namespace %q of %d: %w", ns, pid, err)
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, err
	}
	// The name in parentheses may hold anything; the start time is the 20th word after it.
	rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(rest) < 20 {
		return p, fmt.Errorf("stat of %d: %d fields", pid, len(rest))
	}
	p.Start, err = strconv.Atoi(rest[19])
	return p, err
}

// owner is what two entries of one process have in common.
func (p Process) owner() [3]int { return [3]int{p.PID, p.NS, p.Start} }

func (s *State) drop(gone func(Process) bool) {
	kept := s.Processes[:0]
	for _, p := range s.Processes {
		if !gone(p) {
			kept = append(kept, p)
		}
	}
	s.Processes = kept
}
