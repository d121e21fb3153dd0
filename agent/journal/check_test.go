package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// The check must accept what bbolt writes, or a sound journal would be thrown away: nested and
// inline buckets, values over several pages, trees of several levels, long lists of free pages.
func TestTheCheckAcceptsWhatBboltWrites(t *testing.T) {
	root, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(root, fmt.Sprint(n))
		d, err := bolt.Open(path, 0o600, &bolt.Options{
			NoSync: true, NoFreelistSync: rapid.Bool().Draw(t, "no freelist"),
			PageSize: rapid.SampledFrom([]int{1024, 4096, 16384}).Draw(t, "page size"),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		for range rapid.IntRange(0, 8).Draw(t, "transactions") {
			if err := d.Update(func(tx *bolt.Tx) error { return churn(t, tx) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err := check(path); err != nil || l.rolledBack {
			t.Fatalf("%+v, %v", l, err)
		}
	})
}

func churn(t *rapid.T, tx *bolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists([]byte(rapid.StringMatching("[ab]").Draw(t, "bucket")))
	if err != nil {
		return err
	}
	if rapid.Bool().Draw(t, "nested") {
		if b, err = b.CreateBucketIfNotExists([]byte("nested")); err != nil {
			return err
		}
	}
	size := rapid.SampledFrom([]int{0, 10, 900, 9000}).Draw(t, "value size")
	from := rapid.IntRange(0, 300).Draw(t, "from")
	for i := range rapid.IntRange(0, 300).Draw(t, "keys") {
		key := fmt.Appendf(nil, "key %05d", from+i)
		if size == 900 && i%3 == 0 {
			err = b.Delete(key)
		} else {
			err = b.Put(key, make([]byte, size))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Whatever happens to the pages, opening and reading never ends the process, and no record
// comes out that did not go in.
func TestRandomDamageYieldsNothingThatWasNotWritten(t *testing.T) {
	src := testOptions(t.TempDir())
	want := filled(t, src, damagedPods)
	sound, err := os.ReadFile(db(src))
	must(t, err)
	l, err := check(db(src))
	must(t, err)
	t.Logf("%d bytes in use", l.used)
	root, n, recovered, dropped := t.TempDir(), 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		o := testOptions(filepath.Join(root, fmt.Sprint(n)))
		defer os.RemoveAll(o.Dir)
		data := bytes.Clone(sound)
		for range rapid.IntRange(1, 3).Draw(t, "hits") {
			hit(t, data, int(l.used)*3/2)
		}
		if err := errors.Join(os.MkdirAll(o.Dir, 0o700), os.WriteFile(db(o), data, 0o600)); err != nil {
			t.Fatal(err)
		}
		j, report, err := Open(t.Context(), o)
		if errors.Is(err, ErrNewerSchema) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if report.Recovered {
			recovered++
		}
		dropped += report.Dropped
		got, err := everything(j, podNames(damagedPods)...)
		if err != nil {
			t.Fatal(err)
		}
		for pod, r := range got.Pods {
			if diff := cmp.Diff(want.Pods[pod], r); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", pod, diff)
			}
		}
		for pod, r := range got.Ledger {
			if diff := cmp.Diff(want.Ledger[pod], r); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", pod, diff)
			}
		}
		if err := j.Intend(attempt("new", 1), Action{Kind: Hold}); err != nil {
			t.Fatal(err)
		}
		if r, _, err := j.Read("pod-new"); err != nil || r.Seq <= uint64(len(got.Pods)) && !report.Recovered {
			t.Fatalf("%+v, %v", r, err)
		}
	})
	t.Logf("%d files: %d given up, %d entries dropped", n, recovered, dropped)
}

// hit damages the first n bytes as disks and hands do.
func hit(t *rapid.T, data []byte, n int) {
	const page, sector = 4096, 512
	at := rapid.IntRange(0, n-1).Draw(t, "at")
	switch rapid.SampledFrom([]string{"bit", "byte", "head", "sector", "page", "swap", "copy"}).Draw(t, "damage") {
	case "bit":
		data[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	case "byte":
		data[at] = rapid.Byte().Draw(t, "byte")
	case "head": // where the structure is
		data[at/page*page+at%64] = rapid.Byte().Draw(t, "byte")
	case "sector":
		clear(data[at/sector*sector:][:sector])
	case "page":
		clear(data[at/page*page:][:page])
	case "swap":
		other := rapid.IntRange(0, n-1).Draw(t, "with") / page * page
		a := bytes.Clone(data[at/page*page:][:page])
		copy(data[at/page*page:][:page], data[other:])
		copy(data[other:], a)
	case "copy":
		other := rapid.IntRange(0, n-1).Draw(t, "from") / page * page
		copy(data[at/page*page:][:page], data[other:])
	}
}
