package journal

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

const (
	reserveStep = 1 << 20  // the unit in which space is reserved
	allocStep   = 64 << 10 // by which bbolt makes the file longer
)

// room is the free space, in bytes, that must be reserved beyond a write.
type room int64

const (
	noMargin room = 0
	margin   room = 128 << 10 // the later writes of a good many open updates
)

// makeRoom reserves space until the margin is there. Outcomes need none: they take what there
// is.
func (h *handle) makeRoom(tx *bolt.Tx, r room) error {
	if r == noMargin {
		return nil
	}
	need := tx.Size() - h.freeBytes() + int64(r)
	if need <= h.reserved {
		return nil
	}
	err := h.reserve((need + reserveStep - 1) / reserveStep * reserveStep)
	if err != nil {
		err = h.reserve(need) // a small file system may have less than a step
	}
	if err != nil {
		return notWritable(fmt.Errorf("reserve space: %w", err))
	}
	return nil
}

// reserve gives the first n bytes of the file their blocks. Where the file system cannot do
// that, it reserves nothing and says it has: commits then find out.
func (h *handle) reserve(n int64) error {
	if n <= h.reserved {
		return nil
	}
	if n > h.limit {
		return unix.EFBIG
	}
	err := unix.Fallocate(int(h.file.Fd()), 0, 0, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		h.reserved = n
		return nil
	}
	if err == nil {
		err = h.file.Sync()
	}
	if err == nil {
		h.reserved = n
	}
	return err
}

// freeBytes is the space inside the file that the next transactions can use.
func (h *handle) freeBytes() int64 {
	s := h.db.Stats()
	return int64(s.FreePageN+s.PendingPageN) * int64(h.db.Info().PageSize)
}
