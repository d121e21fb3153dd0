package journal

import (
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

const compactAbove = 4 << 20

// compact copies a file that is large and mostly free into a small one. bbolt never shrinks a
// file by itself. It is done only when the file is opened; where space is lacking it is left
// for another time.
func (j *Journal) compact(l layout) error {
	if l.bytes < compactAbove || l.used > l.bytes/2 {
		return nil
	}
	err := j.copyCompact()
	if errors.Is(err, errDamaged) {
		return err
	}
	if err != nil {
		return os.RemoveAll(j.path(newFile))
	}
	return j.place()
}

func (j *Journal) copyCompact() error {
	src, err := j.openBolt(dbFile)
	if err != nil {
		return err
	}
	dst, err := j.openBolt(newFile)
	if err != nil {
		return errors.Join(err, src.close())
	}
	err = guard(func() error { return bolt.Compact(dst.db, src.db, 0) })
	if errors.Is(err, errDamaged) {
		src.poisoned, dst.poisoned = true, true
	}
	if err := errors.Join(err, dst.close(), src.close()); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}
