package journal

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

// An entry is a record where it lies.
type entry struct {
	bucket string
	key    []byte
	record Record
	damage error // ErrCorrupt
}

// eachRecord calls f for every record of the attempts at hand and of the history.
func eachRecord(tx *bolt.Tx, f func(entry) error) error {
	for _, name := range []string{bucketPods, bucketHistory} {
		err := tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
			r, err := decode[Record](k, v)
			return f(entry{bucket: name, key: bytes.Clone(k), record: r, damage: err})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// trimmed says what trim took away and what it left, and the highest sequence number that it
// saw.
type trimmed struct {
	damaged, old int
	records      int // left
	entries      int // of the ledger, left
	seq          uint64
}

// trimIfCrowded trims once a quarter more is there than may be kept, or than the last trim had
// to leave: trim reads it all.
func (j *Journal) trimIfCrowded(tx *bolt.Tx) error {
	keys := func(name string) int { return tx.Bucket([]byte(name)).Stats().KeyN }
	count := max(keys(bucketPods)+keys(bucketHistory), keys(bucketLedger)/4)
	if count < max(j.crowd, j.o.MaxRecords*5/4) {
		return nil
	}
	t, err := trim(tx, j.o, j.now())
	j.crowd = max(t.records, t.entries/4) * 5 / 4
	return err
}

// trim drops what is damaged, too old, or too much. An open record goes only by age.
func trim(tx *bolt.Tx, o Options, now time.Time) (trimmed, error) {
	var (
		t     trimmed
		drop  []entry
		ended []entry
	)
	err := eachRecord(tx, func(e entry) error {
		t.records++
		t.seq = max(t.seq, e.record.Seq)
		switch {
		case e.damage != nil:
			t.damaged++
			drop = append(drop, e)
		case now.Sub(e.record.Updated) > o.MaxAge:
			t.old++
			drop = append(drop, e)
		case e.bucket == bucketHistory || !e.record.Open():
			ended = append(ended, e)
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	slices.SortFunc(ended, func(a, b entry) int { return cmp.Compare(a.record.Seq, b.record.Seq) })
	surplus := max(0, len(ended)-o.MaxRecords)
	t.old += surplus
	drop = append(drop, ended[:surplus]...)
	t.records -= len(drop)
	for _, e := range drop {
		if err := tx.Bucket([]byte(e.bucket)).Delete(e.key); err != nil {
			return t, err
		}
	}
	l, err := trimLedger(tx, o, now)
	t.damaged, t.old, t.entries = t.damaged+l.damaged, t.old+l.old, l.entries
	return t, err
}

func trimLedger(tx *bolt.Tx, o Options, now time.Time) (trimmed, error) {
	type aged struct {
		key     []byte
		updated time.Time
	}
	var (
		t    trimmed
		drop [][]byte
		keep []aged
	)
	b := tx.Bucket([]byte(bucketLedger))
	err := b.ForEach(func(k, v []byte) error {
		r, err := decode[Restarts](k, v)
		switch key := bytes.Clone(k); {
		case err != nil:
			t.damaged++
			drop = append(drop, key)
		case now.Sub(r.Updated) > o.MaxAge:
			t.old++
			drop = append(drop, key)
		default:
			keep = append(keep, aged{key: key, updated: r.Updated})
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	slices.SortFunc(keep, func(a, b aged) int { return a.updated.Compare(b.updated) })
	surplus := max(0, len(keep)-4*o.MaxRecords)
	t.old += surplus
	for _, a := range keep[:surplus] {
		drop = append(drop, a.key)
	}
	t.entries = len(keep) - surplus
	return t, deleteKeys(b, drop)
}

func deleteKeys(b *bolt.Bucket, keys [][]byte) error {
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
