package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"pitstop.dev/agent/durable"
)

const (
	lockFile   = "journal.lock"
	dbFile     = "journal.db"
	newFile    = "journal.db.new" // being built; renamed when complete
	markerFile = "journal.init"
	corruptPre = "journal.corrupt-"

	keepCorrupt = 2
)

var errForeign = errors.New("journal of another node")

// openFile opens the database, whatever it finds: nothing, a file of ours, or damage. The lock
// is held.
func (j *Journal) openFile() (*handle, Report, error) {
	if err := os.RemoveAll(j.path(newFile)); err != nil {
		return nil, Report{}, notWritable(err)
	}
	h, report, err := j.openExisting()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if exists(j.path(markerFile)) {
			report = Report{Recovered: true, Cause: err}
		}
		h, err = j.create()
	case errors.Is(err, errDamaged) || errors.Is(err, errForeign):
		report = Report{Recovered: true, Cause: err}
		if report.Quarantined, err = j.quarantine(); err == nil {
			h, err = j.create()
		}
	}
	if err != nil {
		return nil, report, err
	}
	if h.reserve(reserveStep) != nil {
		_ = h.reserve(allocStep + int64(margin)) // what a small disk has; makeRoom asks again
	}
	if err := j.writeMarker(); err != nil && !errors.Is(err, ErrFull) {
		return nil, report, errors.Join(err, h.close())
	}
	return h, report, nil
}

// openExisting checks the file before bbolt may see it, and reads what it is before anything
// writes to it. It returns fs.ErrNotExist, errDamaged, errForeign or ErrNewerSchema.
func (j *Journal) openExisting() (*handle, Report, error) {
	layout, err := check(j.path(dbFile))
	if err != nil {
		return nil, Report{}, err
	}
	id, err := j.identify()
	if err != nil {
		return nil, Report{}, err
	}
	if id.schema > Schema {
		return nil, Report{}, fmt.Errorf("%w: %d, this program writes %d", ErrNewerSchema, id.schema, Schema)
	}
	if id.node != j.o.NodeName {
		return nil, Report{}, fmt.Errorf("%w: %q", errForeign, id.node)
	}
	if err := j.compact(layout); err != nil {
		return nil, Report{}, err
	}
	h, err := j.openBolt(dbFile)
	if err != nil {
		return nil, Report{}, err
	}
	dropped, err := j.settle(h)
	if err != nil {
		return nil, Report{}, errors.Join(err, h.close())
	}
	return h, Report{Schema: id.schema, RolledBack: layout.rolledBack, BootChanged: id.boot != j.o.BootID, Dropped: dropped}, nil
}

// settle brings an open file up to date: trimmed and marked with this boot; the next schema is
// to migrate older files in the same transaction. It returns
// how much failed its checksum, and errDamaged. That it cannot write, on a full disk say, is no
// reason to refuse the file.
func (j *Journal) settle(h *handle) (dropped int, err error) {
	err = guard(func() error {
		return h.db.Update(func(tx *bolt.Tx) error {
			t, err := trim(tx, j.o, j.now())
			if err != nil {
				return err
			}
			dropped = t.damaged
			changed := t.damaged + t.old + mark(tx, metaBoot, j.o.BootID)
			// No checksum covers bbolt's counter.
			if pods := tx.Bucket([]byte(bucketPods)); pods.Sequence() < t.seq {
				changed++
				if err := pods.SetSequence(t.seq); err != nil {
					return err
				}
			}
			return unlessChanged(changed)
		})
	})
	switch {
	case errors.Is(err, errDamaged):
		h.poisoned = true
		return 0, err
	case err != nil && !errors.Is(err, errUnchanged):
		h.suspect = true
	}
	return dropped, nil
}

// create puts an empty database in place, complete or not at all, and opens it.
func (j *Journal) create() (*handle, error) {
	h, err := j.openBolt(newFile)
	if err != nil {
		return nil, err
	}
	err = h.db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{bucketMeta, bucketPods, bucketHistory, bucketLedger, bucketProbe} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		mark(tx, metaSchema, strconv.Itoa(Schema))
		mark(tx, metaNode, j.o.NodeName)
		mark(tx, metaBoot, j.o.BootID)
		return nil
	})
	if err := errors.Join(err, h.close()); err != nil {
		return nil, notWritable(errors.Join(err, os.Remove(j.path(newFile))))
	}
	if err := j.place(); err != nil {
		return nil, err
	}
	return j.openBolt(dbFile)
}

// place gives the new file its name.
func (j *Journal) place() error {
	if err := os.Rename(j.path(newFile), j.path(dbFile)); err != nil {
		return notWritable(err)
	}
	return syncDir(j.o.Dir)
}

// openBolt opens a file that is absent or has passed the check.
func (j *Journal) openBolt(name string) (*handle, error) {
	h := &handle{limit: j.o.MaxBytes}
	err := guard(func() error {
		var err error
		h.db, err = bolt.Open(j.path(name), 0o600, &bolt.Options{
			Timeout:         time.Second,                   // only a foreign tool can hold it
			MaxSize:         int(j.o.MaxBytes + allocStep), // which bbolt asks for beyond what it uses
			InitialMmapSize: int(j.o.MaxBytes),             // never mapped anew
			OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
				var err error
				h.file, err = os.OpenFile(path, flag, mode)
				return h.file, err
			},
		})
		return err
	})
	if err != nil {
		err = openError(err)
		if errors.Is(err, errDamaged) {
			err = errors.Join(err, release(h.file))
		}
		return nil, err
	}
	h.db.AllocSize = allocStep
	return h, nil
}

// openError sorts what bolt.Open returned.
func openError(err error) error {
	switch {
	case errors.Is(err, errDamaged):
		return err
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", errDamaged, err)
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: %w", ErrLocked, err)
	default:
		return notWritable(err)
	}
}

// quarantine moves the file aside and returns where to; the newest two are kept.
func (j *Journal) quarantine() (string, error) {
	base := j.path(corruptPre + j.now().Format("20060102T150405.000000000Z"))
	to := base
	for n := 1; exists(to); n++ {
		to = fmt.Sprintf("%s-%d", base, n)
	}
	if err := os.Rename(j.path(dbFile), to); err != nil {
		return "", notWritable(err)
	}
	aside, err := filepath.Glob(j.path(corruptPre + "*"))
	if err != nil {
		return to, err
	}
	aside = slices.DeleteFunc(aside, func(path string) bool { return path == to })
	slices.Sort(aside)
	for _, old := range aside[:max(0, len(aside)+1-keepCorrupt)] {
		if err := os.RemoveAll(old); err != nil {
			return to, notWritable(err)
		}
	}
	return to, syncDir(j.o.Dir)
}

func (j *Journal) writeMarker() error {
	if exists(j.path(markerFile)) {
		return nil
	}
	f, err := os.OpenFile(j.path(markerFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return notWritable(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return notWritable(err)
	}
	return syncDir(j.o.Dir)
}

func syncDir(path string) error {
	if err := durable.SyncDir(path); err != nil {
		return notWritable(err)
	}
	return nil
}

// exists takes what it cannot look at for existing.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
