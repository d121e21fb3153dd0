//go:build lab

package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk is a small tmpfs. It needs root.
type disk struct {
	dir string
	o   Options
}

func newDisk(t *testing.T, size string) disk {
	t.Helper()
	d := disk{dir: t.TempDir()}
	if err := unix.Mount("tmpfs", d.dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, 0); err != nil {
			t.Error(err)
		}
	})
	d.o = testOptions(filepath.Join(d.dir, "agent"))
	return d
}

// fill takes all space that is left.
func (d disk) fill(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(d.dir, "ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	defer func() { _ = f.Close() }()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			return
		}
	}
}

func (d disk) free(t *testing.T) {
	t.Helper()
	must(t, os.Remove(filepath.Join(d.dir, "ballast")))
}

func (d disk) remount(t *testing.T, flags uintptr, options string) {
	t.Helper()
	must(t, unix.Mount("tmpfs", d.dir, "tmpfs", unix.MS_REMOUNT|flags, options))
}

func isFull(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrFull) || !errors.Is(err, ErrNotWritable) {
		t.Errorf("%s on a full disk: %v", what, err)
	}
}

// On a full disk the updates under way end within the reserve, and no new one starts once it
// is needed for that.
func TestAFullDisk(t *testing.T) {
	for _, size := range []string{"256k", "512k", "2m"} {
		t.Run(size, func(t *testing.T) {
			d := newDisk(t, size)
			j, _ := open(t, d.o)
			must(t, j.Intend(attempt("first", 1), Action{Kind: Hold}))
			d.fill(t)
			started := 1
			var err error
			for ; err == nil && started < 5000; started++ {
				err = j.Intend(attempt(fmt.Sprint(started), 1), Action{Kind: Pull, Subject: strings.Repeat("image/", 500)})
			}
			isFull(t, "Intend", err)
			isFull(t, "Writable", j.Writable(t.Context()))
			t.Logf("%d updates under way", started-1)

			must(t, j.Close())
			j, report := open(t, d.o) // and restarted there
			equal(t, Report{Schema: 1}, report)
			isFull(t, "Intend after a restart", j.Intend(attempt("late", 1), Action{Kind: Hold}))
			for n := 1; n < started-1; n++ {
				a := attempt(fmt.Sprint(n), 1)
				must(t, j.Intend(a, Action{Kind: Serve}), j.Done(a, Action{Kind: Serve}, "ok"), j.End(a, "InService"))
			}
			d.free(t)
			must(t, j.Writable(t.Context()), j.Intend(attempt("late", 1), Action{Kind: Hold}))
			if r := read(t, j, "first"); !r.Open() || len(r.Steps) != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestNoSpaceForANewFile(t *testing.T) {
	d := newDisk(t, "256k")
	must(t, os.Mkdir(d.o.Dir, 0o700))
	d.fill(t)
	for range 2 {
		_, _, err := Open(t.Context(), d.o)
		isFull(t, "Open", err)
	}
	d.free(t)
	_, report := open(t, d.o)
	equal(t, Report{}, report)
}

func TestDamageOnAFullDisk(t *testing.T) {
	d := newDisk(t, "256k")
	filled(t, d.o, 3)
	d.fill(t)
	must(t, truncate(9000)(d.o))
	d.fill(t)
	_, _, err := Open(t.Context(), d.o)
	isFull(t, "Open", err)
	aside, err := filepath.Glob(filepath.Join(d.o.Dir, corruptPre+"*"))
	must(t, err)
	if len(aside) != 1 {
		t.Errorf("moved aside: %v", aside)
	}
	d.free(t)
	_, report := open(t, d.o)
	if !report.Recovered {
		t.Errorf("%+v", report)
	}
}

// A disk that cannot reserve runs full inside a commit.
func TestACommitThatRunsOutOfSpace(t *testing.T) {
	d := newDisk(t, "512k")
	j, _ := open(t, d.o)
	d.fill(t)
	j.h.limit, j.h.reserved = 1<<30, 1<<30 // as where fallocate is not supported
	var err error
	n := 0
	for ; err == nil && n < 5000; n++ {
		err = j.Intend(attempt(fmt.Sprint(n), 1), Action{Kind: Hold})
	}
	isFull(t, "Intend", err)
	failed := j.h
	for i := range n - 1 {
		if r := read(t, j, fmt.Sprint(i)); len(r.Steps) != 1 {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	if j.h == failed {
		t.Error("the handle whose commit failed is still in use")
	}
	d.remount(t, 0, "size=4m")
	must(t, j.Intend(attempt("late", 1), Action{Kind: Hold}))
}

func TestAReadOnlyDisk(t *testing.T) {
	d := newDisk(t, "4m")
	j, _ := open(t, d.o)
	a := attempt("a", 1)
	must(t, j.Intend(a, Action{Kind: Hold}), j.Close())
	d.remount(t, unix.MS_RDONLY, "")
	if _, _, err := Open(t.Context(), d.o); !errors.Is(err, ErrNotWritable) {
		t.Errorf("Open: %v", err)
	}
	d.remount(t, 0, "")
	j, _ = open(t, d.o)
	if r := read(t, j, "a"); len(r.Steps) != 1 {
		t.Errorf("%+v", r)
	}
}
