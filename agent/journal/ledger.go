package journal

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/types"
)

const maxCountedIDs = 32

// A RestartKind says why a container was started.
type RestartKind string

// The reasons for a start.
const (
	First   RestartKind = "First"   // the first start that the agent saw: no restart
	Planned RestartKind = "Planned" // asked for by an update
	Crash   RestartKind = "Crash"   // not asked for
	Peer    RestartKind = "Peer"    // of a container that the open update of its Pod does not change
)

// A Start is one container seen to have been started.
type Start struct {
	Pod         types.UID
	Container   string
	ContainerID string
	Kind        RestartKind
}

// Restarts are the totals of one container of one Pod.
type Restarts struct {
	Container string    `json:"container"`
	Planned   int64     `json:"planned"`
	Crashes   int64     `json:"crashes"`
	Peer      int64     `json:"peer"`
	LastID    string    `json:"lastID"`  // the container counted last
	Counted   []string  `json:"counted"` // ids counted, the newest last
	Updated   time.Time `json:"updated"`
}

// Count counts a start once, by its container id, whatever its kind was the first time and
// however often the agent restarts. It returns the totals. Errors as those of Intend.
func (j *Journal) Count(s Start) (Restarts, error) {
	var r Restarts
	err := j.update(func(tx *bolt.Tx) error {
		b, key := tx.Bucket([]byte(bucketLedger)), ledgerKey(s.Pod, s.Container)
		raw := b.Get(key)
		var err error
		if r, err = decode[Restarts](key, raw); err != nil {
			r, raw = Restarts{}, nil
		}
		if slices.Contains(r.Counted, s.ContainerID) {
			return errUnchanged
		}
		if err := r.count(s, j.now()); err != nil {
			return err
		}
		data, err := encode(key, r, raw)
		if err != nil {
			return err
		}
		if raw == nil {
			if err := j.trimIfCrowded(tx); err != nil {
				return err
			}
		}
		return b.Put(key, data)
	})
	if err != nil {
		return Restarts{}, fmt.Errorf("count start of container %s of pod %s: %w", s.Container, s.Pod, err)
	}
	return r, nil
}

func (r *Restarts) count(s Start, now time.Time) error {
	switch s.Kind {
	case First:
	case Planned:
		r.Planned++
	case Crash:
		r.Crashes++
	case Peer:
		r.Peer++
	default:
		return fmt.Errorf("unknown kind of start %q", s.Kind)
	}
	r.Container, r.LastID, r.Updated = s.Container, s.ContainerID, now
	r.Counted = newest(append(r.Counted, s.ContainerID), maxCountedIDs)
	return nil
}

// Restarts returns the totals of a Pod's containers in the order of their names. Damaged
// entries are left out.
func (j *Journal) Restarts(pod types.UID) ([]Restarts, error) {
	var out []Restarts
	err := j.view(func(tx *bolt.Tx) error {
		out = nil
		prefix, c := ledgerKey(pod, ""), tx.Bucket([]byte(bucketLedger)).Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if r, err := decode[Restarts](k, v); err == nil {
				out = append(out, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read restarts of pod %s: %w", pod, err)
	}
	return out, nil
}

// dropRestarts removes the entries of a Pod and says how many there were.
func dropRestarts(tx *bolt.Tx, pod types.UID) (int, error) {
	prefix, b := ledgerKey(pod, ""), tx.Bucket([]byte(bucketLedger))
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	return len(keys), deleteKeys(b, keys)
}

func ledgerKey(pod types.UID, container string) []byte {
	return []byte(string(pod) + "/" + container)
}
