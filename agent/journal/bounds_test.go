package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestRecordsAreBoundedByCountAndAge(t *testing.T) {
	o := testOptions(t.TempDir())
	clock := o.Clock.(*clocktesting.FakeClock)
	o.MaxRecords, o.MaxAge = 5, time.Hour
	j, _ := open(t, o)
	must(t, j.Intend(attempt("open", 1), Action{Kind: Hold}))
	for n := range 200 {
		a := attempt(fmt.Sprint("gone", n), 1)
		must(t, j.Intend(a, Action{Kind: Hold}), j.End(a, "InService"))
		_, err := j.Count(Start{Pod: a.Pod, Container: "engine", ContainerID: "c1", Kind: First})
		must(t, err)
	}
	s, err := j.Stats()
	must(t, err)
	if s.Open != 1 || s.Ended > 6 || s.Ledger > 24 {
		t.Errorf("%+v", s)
	}
	if r := read(t, j, "gone199"); r.Open() || r.Number != 1 {
		t.Errorf("the newest has gone: %+v", r)
	}
	must(t, j.Close())
	clock.Step(2 * time.Hour)
	j, _ = open(t, o)
	s, err = j.Stats()
	must(t, err)
	if s.Open+s.Ended+s.Ledger != 0 {
		t.Errorf("after MaxAge: %+v", s)
	}
}

func TestOneRecordIsBounded(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	a := attempt("a", 1)
	must(t, j.Intend(a, Action{Kind: Patch}))
	for n := range 100 {
		act := Action{Kind: Pull, Subject: fmt.Sprint(n)}
		must(t, j.Intend(a, act), j.Done(a, act, "ok"))
	}
	for n := range int64(300) {
		must(t, j.Baseline(attempt("a", n+1), []Baseline{{ContainerID: fmt.Sprint(n)}}))
		if n == 0 {
			r := read(t, j, "a")
			if _, ok := r.Step(Action{Kind: Patch}); !ok || len(r.Steps) != maxSteps {
				t.Errorf("the open step has gone, or %d steps", len(r.Steps))
			}
		}
	}
	r := read(t, j, "a")
	if len(r.PriorIDs) != maxPriorIDs || r.PriorIDs[maxPriorIDs-1] != "299" || len(r.Retired) != 1 {
		t.Errorf("%d ids, %d retired", len(r.PriorIDs), len(r.Retired))
	}
}

func TestAFileOfFreePagesIsCompactedWhenOpened(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	must(t, j.Intend(attempt("a", 1), Action{Kind: Hold}))
	big := make([]byte, 6<<20)
	must(t, j.update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucketProbe)).Put([]byte("big"), big) }))
	must(t, j.update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucketProbe)).Delete([]byte("big")) }))
	want := read(t, j, "a")
	must(t, j.Close())
	j, report := open(t, o)
	equal(t, Report{Schema: 1}, report)
	s, err := j.Stats()
	must(t, err)
	if s.Bytes > 2<<20 {
		t.Errorf("%d bytes", s.Bytes)
	}
	equal(t, want, read(t, j, "a"))
	must(t, j.Intend(attempt("a", 1), Action{Kind: Patch}))
	if r := read(t, j, "a"); r.Seq <= want.Seq {
		t.Errorf("sequence %d after %d", r.Seq, want.Seq)
	}
}

func TestTheLimitOfBytesIsFull(t *testing.T) {
	o := testOptions(t.TempDir())
	o.MaxBytes = 320 << 10
	j, _ := open(t, o)
	var n int64
	var err error
	for n = 1; err == nil && n < 5000; n++ {
		err = j.Intend(attempt(fmt.Sprint(n), 1), Action{Kind: Pull, Subject: strings.Repeat("x", 500)})
	}
	if !errors.Is(err, ErrFull) || !errors.Is(err, ErrNotWritable) {
		t.Fatalf("attempt %d: %v", n, err)
	}
	if err := j.Writable(t.Context()); !errors.Is(err, ErrFull) {
		t.Errorf("Writable: %v", err)
	}
	for i := int64(1); i < n-1; i++ { // what is under way can end
		a := attempt(fmt.Sprint(i), 1)
		must(t, j.Intend(a, Action{Kind: Serve}), j.Done(a, Action{Kind: Serve}, "ok"), j.End(a, "InService"))
	}
	must(t, j.Forget("pod-1"))
}
