package journal

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	bolt "go.etcd.io/bbolt"
)

const (
	metaSchema = "schema"
	metaNode   = "node"
	metaBoot   = "boot"
)

// An identity is what the meta bucket says.
type identity struct {
	schema     int
	node, boot string
}

// identify reads the meta bucket of a checked file without a chance to write to it.
func (j *Journal) identify() (identity, error) {
	var id identity
	err := guard(func() error {
		db, err := bolt.Open(j.path(dbFile), 0o600, &bolt.Options{ReadOnly: true, Timeout: lockPoll})
		if err != nil {
			return openError(err)
		}
		err = db.View(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(bucketMeta))
			if b == nil {
				return fmt.Errorf("%w: no meta bucket", errDamaged)
			}
			id.node, id.boot = string(b.Get([]byte(metaNode))), string(b.Get([]byte(metaBoot)))
			id.schema, err = strconv.Atoi(string(b.Get([]byte(metaSchema))))
			if err != nil || id.schema < 1 {
				return fmt.Errorf("%w: schema: %w", errDamaged, err)
			}
			return id.wants(tx)
		})
		return errors.Join(err, db.Close())
	})
	return id, err
}

// wants checks that a file of our schema has our buckets.
func (id identity) wants(tx *bolt.Tx) error {
	if id.schema != Schema {
		return nil
	}
	for _, name := range []string{bucketPods, bucketHistory, bucketLedger, bucketProbe} {
		if tx.Bucket([]byte(name)) == nil {
			return fmt.Errorf("%w: no bucket %s", errDamaged, name)
		}
	}
	return nil
}

// mark sets a key of the meta bucket and returns 1 if that is a change.
func mark(tx *bolt.Tx, key, value string) int {
	b := tx.Bucket([]byte(bucketMeta))
	if bytes.Equal(b.Get([]byte(key)), []byte(value)) {
		return 0
	}
	if err := b.Put([]byte(key), []byte(value)); err != nil {
		panic(err) // a constant key and a short value are always accepted
	}
	return 1
}

func unlessChanged(n int) error {
	if n == 0 {
		return errUnchanged
	}
	return nil
}
