//go:build lab

package crash

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/journal"
	"pitstop.dev/test/crash/victim"
)

// A fault is what becomes of the journal while its agent is dead.
type fault struct {
	name string
	// keeps: what the journal had is there again in the end.
	keeps bool
	// small: the journal is on a file system of its own, with little space.
	small bool
	// apply does the damage.
	apply func(*scene)
	// shared: the work goes on, since another agent does it too.
	shared bool
	// lift ends it; nil: it is not to be ended, and the agent must cope by itself.
	lift func(*scene)
}

var faults = []fault{
	{name: "kept", keeps: true, apply: func(*scene) {}},
	{name: "deleted", apply: func(s *scene) { must(s.t, os.RemoveAll(s.journal())) }},
	{name: "database-deleted", apply: func(s *scene) { must(s.t, os.Remove(s.database())) }},
	{name: "truncated", apply: func(s *scene) { must(s.t, os.Truncate(s.database(), 3*pageSize+17)) }},
	{name: "zero-length", apply: func(s *scene) { must(s.t, os.Truncate(s.database(), 0)) }},
	{name: "torn", apply: (*scene).tear},
	{name: "newer-schema", keeps: true, apply: func(s *scene) { s.setSchema("2") }, lift: func(s *scene) { s.setSchema("1") }},
	{name: "full-disk", small: true, apply: (*scene).fill, lift: func(s *scene) { must(s.t, os.Remove(s.ballast())) }},
	{name: "locked", apply: (*scene).lock, lift: (*scene).unlock},
	{name: "second-agent", shared: true, apply: (*scene).share, lift: (*scene).unlock},
}

const pageSize = 4096

func (s *scene) database() string { return filepath.Join(s.journal(), "journal.db") }
func (s *scene) ballast() string  { return filepath.Join(s.journal(), "ballast") }

// mount puts the journal on a small file system.
func (s *scene) mount() {
	t := s.t
	t.Helper()
	must(t, os.MkdirAll(s.journal(), 0o755))
	if err := unix.Mount("tmpfs", s.journal(), "tmpfs", 0, "size=512k"); err != nil {
		t.Fatalf("mount (needs root): %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(s.journal(), 0)) })
}

// tear writes noise over one of the pages in use.
func (s *scene) tear() {
	t := s.t
	t.Helper()
	seed := fnv.New64()
	_, _ = seed.Write([]byte(t.Name()))
	random := rand.New(rand.NewSource(int64(seed.Sum64())))
	noise := make([]byte, pageSize)
	_, _ = random.Read(noise)
	f, err := os.OpenFile(s.database(), os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(noise, random.Int63n(12)*pageSize)
	must(t, errors.Join(err, f.Close()))
}

func (s *scene) setSchema(version string) {
	s.t.Helper()
	db, err := bolt.Open(s.database(), 0o600, nil)
	must(s.t, err)
	must(s.t, errors.Join(db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte(version))
	}), db.Close()))
}

// fill takes all space that is left, and then what the journal has reserved: as far as updates of other Pods may
// begin, and some of what is kept for their ends. On the very edge the next page that comes free would end the fault.
func (s *scene) fill() {
	t := s.t
	t.Helper()
	s.fillDisk()
	j, _, err := journal.Open(t.Context(), s.journalOptions())
	must(t, err)
	for n := 0; err == nil; n++ {
		other := journal.Attempt{Pod: types.UID(fmt.Sprint("other-", n)), IPU: "other", Number: 1}
		err = j.Intend(other, journal.Action{Kind: journal.Pull, Subject: strings.Repeat("image/", 500)})
	}
	if !errors.Is(err, journal.ErrFull) {
		t.Fatal(err)
	}
	for n := range 8 {
		other := journal.Attempt{Pod: types.UID(fmt.Sprint("other-", n)), IPU: "other", Number: 1}
		must(t, j.Done(other, journal.Action{Kind: journal.Pull, Subject: strings.Repeat("image/", 500)}, strings.Repeat("outcome ", 500)))
	}
	must(t, j.Close())
}

func (s *scene) fillDisk() {
	t := s.t
	t.Helper()
	f, err := os.OpenFile(s.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, pageSize))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	must(t, f.Close())
}

// lock has a second agent take the journal and hang.
func (s *scene) lock() {
	s.t.Helper()
	s.holder = s.start(victim.Options{Point: victim.Point{Kind: victim.Committed, N: 1}, Freeze: true})
	if !eventually(s.t, patient, s.holder.stopped) {
		s.t.Fatalf("the second agent does not hang\n%s", s.story())
	}
}

// share has a second agent take the journal and work beside the first.
func (s *scene) share() { s.holder = s.start(victim.Options{}) }

func (s *scene) unlock() { s.holder.kill() }

func (s *scene) journalOptions() journal.Options {
	return journal.Options{Dir: s.journal(), NodeName: s.name, BootID: bootID(s.t)}
}

func bootID(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	return strings.TrimSpace(string(data))
}

// traced returns the lines of the trace.
func (s *scene) traced() []string {
	data, err := os.ReadFile(s.trace())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}
