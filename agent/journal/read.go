package journal

import (
	"cmp"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/types"
)

// Read returns the record of a Pod's latest attempt, open or ended, and whether there is one.
// It returns ErrCorrupt if the record fails its checksum: whoever reads it does as if there
// were none.
func (j *Journal) Read(pod types.UID) (Record, bool, error) {
	var (
		r     Record
		found bool
	)
	err := j.view(func(tx *bolt.Tx) error {
		key := []byte(pod)
		raw := tx.Bucket([]byte(bucketPods)).Get(key)
		found = raw != nil
		var err error
		r, err = decode[Record](key, raw)
		return err
	})
	if err != nil {
		return Record{}, false, fmt.Errorf("read record of pod %s: %w", pod, err)
	}
	return r.in(j.o.BootID), found, nil
}

// Records returns the open records, the one written last at the end. Damaged ones are left
// out.
func (j *Journal) Records() ([]Record, error) {
	open, err := j.records(func(r Record) bool { return r.Open() })
	if err != nil {
		return nil, fmt.Errorf("read open records: %w", err)
	}
	return open, nil
}

// History returns all that is on record of a Pod, ended and replaced attempts included, the
// one written last at the end.
func (j *Journal) History(pod types.UID) ([]Record, error) {
	all, err := j.records(func(r Record) bool { return r.Pod == pod })
	if err != nil {
		return nil, fmt.Errorf("read history of pod %s: %w", pod, err)
	}
	return all, nil
}

func (j *Journal) records(want func(Record) bool) ([]Record, error) {
	var out []Record
	err := j.view(func(tx *bolt.Tx) error {
		out = nil
		return eachRecord(tx, func(e entry) error {
			if e.damage == nil && want(e.record) {
				out = append(out, e.record.in(j.o.BootID))
			}
			return nil
		})
	})
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return out, err
}
