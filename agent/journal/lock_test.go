package journal

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

func TestASecondProcessIsLockedOut(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Clock, o.LockTimeout = clock.RealClock{}, 150*time.Millisecond
	kill := secondAgent(t, o.Dir)

	if _, _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
		t.Fatalf("Open: %v", err)
	}
	o.LockTimeout = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	if _, _, err := Open(ctx, o); !errors.Is(err, ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open that may not wait: %v", err)
	}
	kill() // SIGKILL frees the lock
	o.LockTimeout = 5 * time.Second
	_, report := open(t, o)
	equal(t, Report{Schema: 1, BootChanged: true}, report)
}

func TestASecondOpenInTheSameProcessIsLockedOut(t *testing.T) {
	o := testOptions(t.TempDir())
	open(t, o)
	o.Clock, o.LockTimeout = clock.RealClock{}, time.Millisecond
	if _, _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
		t.Errorf("Open: %v", err)
	}
}

func TestAFolderTakenOverByAnotherProcessIsNotWritten(t *testing.T) {
	o := testOptions(t.TempDir() + "/agent")
	j, _ := open(t, o)
	a := attempt("a", 1)
	must(t, j.Intend(a, Action{Kind: Hold}), os.RemoveAll(o.Dir), os.Mkdir(o.Dir, 0o700))
	kill := secondAgent(t, o.Dir)
	for what, err := range map[string]error{"Intend": j.Intend(a, Action{Kind: Patch}), "Writable": j.Writable(t.Context())} {
		if !errors.Is(err, ErrLocked) || !errors.Is(err, ErrNotWritable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	kill()
	must(t, j.Intend(a, Action{Kind: Patch}))
	if r := read(t, j, "a"); len(r.Steps) != 1 || r.Steps[0].Kind != Patch {
		t.Errorf("%+v", r)
	}
}

func TestWritableDoesNotHangWithTheDisk(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	j.mu.Lock() // a write that does not come back
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 2 {
		if err := j.Writable(ctx); !errors.Is(err, ErrNotWritable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Writable: %v", err)
		}
	}
	j.mu.Unlock()
	must(t, j.Writable(t.Context()))
}

func TestManyUpdatesAtOnce(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	var all sync.WaitGroup
	for _, pod := range podNames(8) {
		all.Go(func() {
			a := attempt(pod, 1)
			for _, kind := range []Kind{Pull, Hold, Patch, Serve} {
				if err := errors.Join(j.Intend(a, Action{Kind: kind}), j.Writable(t.Context()), j.Done(a, Action{Kind: kind}, "ok")); err != nil {
					t.Error(err)
				}
				if r, _, err := j.Read(a.Pod); err != nil || r.Steps[len(r.Steps)-1].Outcome != "ok" {
					t.Errorf("%+v, %v", r, err)
				}
				if _, err := j.Stats(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
