package journal

import (
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/types"
)

// Intend returns once the intent is on disk; only then may the effect happen. An intent that
// is already open on record costs no write. The first write of an attempt replaces the record
// of an earlier one, which moves to the history. It returns ErrSuperseded if a later attempt
// is on record, and ErrNotWritable (with ErrFull where space is the reason) if nothing was
// recorded. On a full disk the first intent of an attempt is refused while the attempts under
// way go on, as long as the reserve lasts.
func (j *Journal) Intend(a Attempt, act Action) error {
	err := j.write(a, margin, func(r *Record, now time.Time) bool { return r.intend(act, now) })
	return wrap(err, a, "intent of "+string(act.Kind))
}

// Done records the outcome of an action, also one whose intent is not on record. Saying the
// same again costs no write. Where it fails the effect stands all the same: the step stays
// open on record and a restarted agent looks at the world. Errors as those of Intend.
func (j *Journal) Done(a Attempt, act Action, outcome string) error {
	err := j.write(a, noMargin, func(r *Record, now time.Time) bool { return r.done(act, outcome, now) })
	return wrap(err, a, "outcome of "+string(act.Kind))
}

// Baseline records the containers as they are before the swap, and the GPUs where they are known. A later
// baseline of the attempt replaces the earlier one; PriorIDs keeps the ids of both. Errors as those of Intend.
func (j *Journal) Baseline(a Attempt, before []Baseline, gpus ...GPU) error {
	err := j.write(a, margin, func(r *Record, _ time.Time) bool { return r.baseline(before, gpus) })
	return wrap(err, a, "baseline")
}

// End records that the update is over: the Pod is in service again, or was never touched. The
// next attempt then starts without prior container ids. A failed update that keeps its hold
// has not ended. An attempt that is not on record needs no end.
func (j *Journal) End(a Attempt, outcome string) error {
	err := j.write(a, noMargin, func(r *Record, now time.Time) bool {
		if r.Seq == 0 || !r.Open() && r.Outcome == outcome {
			return false
		}
		r.Ended, r.Outcome = now, outcome
		return true
	})
	return wrap(err, a, "end")
}

// Forget ends what is on record of a Pod that is gone and drops its restart ledger.
func (j *Journal) Forget(pod types.UID) error {
	err := j.update(func(tx *bolt.Tx) error {
		dropped, err := dropRestarts(tx, pod)
		if err != nil {
			return err
		}
		key, pods := []byte(pod), tx.Bucket([]byte(bucketPods))
		raw := pods.Get(key)
		if raw == nil {
			return unlessChanged(dropped)
		}
		if r, err := decode[Record](key, raw); err == nil {
			if err := j.retire(tx, r, raw, podGone); err != nil {
				return err
			}
		}
		return pods.Delete(key)
	})
	if err != nil {
		return fmt.Errorf("forget pod %s: %w", pod, err)
	}
	return nil
}

// Outcomes that the journal itself gives to records that were open.
const (
	podGone  = "PodGone"
	replaced = "Superseded"
)

// write applies edit to the record of a, made anew where the attempt is. An edit that says
// that it changed nothing leaves the file alone.
func (j *Journal) write(a Attempt, room room, edit func(*Record, time.Time) bool) error {
	if a.Pod == "" || a.IPU == "" {
		return errors.New("attempt without the UIDs of its pod and update")
	}
	return j.update(func(tx *bolt.Tx) error {
		now, key, pods := j.now(), []byte(a.Pod), tx.Bucket([]byte(bucketPods))
		raw := pods.Get(key)
		old, err := decode[Record](key, raw)
		if err != nil {
			old, raw = Record{}, nil // damaged: as if it had never been written
		}
		if old.supersedes(a) {
			return ErrSuperseded
		}
		r, begins := old.in(j.o.BootID), old.IPU != a.IPU || old.Number != a.Number
		if begins {
			r = old.next(a, now)
		}
		if !edit(&r, now) {
			return errUnchanged
		}
		if begins {
			if err := j.h.makeRoom(tx, room); err != nil {
				return err
			}
			if err := j.begin(tx, old, raw); err != nil {
				return err
			}
			raw = nil
		}
		return j.put(pods, r, raw, now)
	})
}

// begin makes place for a new attempt: the old record moves to the history, which is cut.
func (j *Journal) begin(tx *bolt.Tx, old Record, raw []byte) error {
	if raw != nil {
		if err := j.retire(tx, old, raw, replaced); err != nil {
			return err
		}
	}
	return j.trimIfCrowded(tx)
}

// put writes r with the next sequence number, over the unknown keys of raw.
func (j *Journal) put(pods *bolt.Bucket, r Record, raw []byte, now time.Time) error {
	seq, err := pods.NextSequence()
	if err != nil {
		return err
	}
	r.Seq, r.Updated, r.BootID = seq, now, j.o.BootID
	for i := range r.Steps {
		if r.Steps[i].Seq == 0 {
			r.Steps[i].Seq = seq
		}
	}
	key := []byte(r.Pod)
	data, err := encode(key, r, raw)
	if err != nil {
		return err
	}
	return pods.Put(key, data)
}

// retire moves a record to the history; an open one ends there. raw is what stands on disk of
// it.
func (j *Journal) retire(tx *bolt.Tx, r Record, raw []byte, outcome string) error {
	if r.Open() {
		r.Ended, r.Outcome = j.now(), outcome
	}
	key := seqKey(r.Seq)
	data, err := encode(key, r, raw)
	if err != nil {
		return err
	}
	return tx.Bucket([]byte(bucketHistory)).Put(key, data)
}

// now is the time as it stands on disk: UTC, without the monotonic reading.
func (j *Journal) now() time.Time { return j.o.Clock.Now().Round(0).UTC() }

func wrap(err error, a Attempt, what string) error {
	if err != nil {
		return fmt.Errorf("record %s, attempt %d of pod %s: %w", what, a.Number, a.Pod, err)
	}
	return nil
}
