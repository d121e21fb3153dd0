package journal

import (
	"bytes"
	"encoding/binary"
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
		defer func() { _ = os.Remove(path) }()
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
		defer func() { _ = os.RemoveAll(o.Dir) }()
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
		defer func() { _ = j.Close() }()
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

// Damage that no random hit is likely to make: bbolt would overwrite what is in use, or walk in
// a circle until the stack is full, which ends the process.
func TestTheCheckRefusesPagesUsedTwice(t *testing.T) {
	src := testOptions(t.TempDir())
	filled(t, src, damagedPods)
	sound, err := os.ReadFile(db(src))
	must(t, err)
	for name, spoil := range map[string]func(t *testing.T, c *checker, data []byte){
		"in use and free": func(_ *testing.T, c *checker, data []byte) {
			at := c.m.freelist * c.m.pageSize
			c.order.PutUint16(data[at+10:], 1)
			c.order.PutUint64(data[at+pageHeaderSize:], c.m.root)
		},
		"free twice": func(_ *testing.T, c *checker, data []byte) {
			at := c.m.freelist * c.m.pageSize
			c.order.PutUint16(data[at+10:], 2)
			copy(data[at+pageHeaderSize+8:], data[at+pageHeaderSize:][:8])
		},
		"a circle": func(t *testing.T, c *checker, data []byte) {
			t.Helper()
			c.order.PutUint64(bucketIn(t, c, data, bucketPods), c.m.root)
		},
		"in two trees": func(t *testing.T, c *checker, data []byte) {
			t.Helper()
			copy(bucketIn(t, c, data, bucketLedger)[:8], bucketIn(t, c, data, bucketPods))
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := bytes.Clone(sound)
			c := &checker{f: bytes.NewReader(data), size: uint64(len(data)), order: binary.NativeEndian}
			c.m, _, err = c.newestMeta()
			must(t, err)
			spoil(t, c, data)
			o := testOptions(t.TempDir())
			must(t, os.WriteFile(db(o), data, 0o600))
			_, err = check(db(o))
			if !errors.Is(err, errDamaged) {
				t.Errorf("%v", err)
			}
			_, report := open(t, o)
			if !report.Recovered {
				t.Errorf("%+v", report)
			}
		})
	}
}

// bucketIn returns the place in data where the root page of a bucket is named.
func bucketIn(t *testing.T, c *checker, data []byte, name string) []byte {
	t.Helper()
	p := page{id: c.m.root, data: data[c.m.root*c.m.pageSize:][:c.m.pageSize]}
	p.header(c)
	elems, err := c.split(p)
	must(t, err)
	for _, e := range elems {
		if string(e.key) == name && c.u64(e.value) != 0 {
			return e.value
		}
	}
	t.Fatalf("bucket %s has no page of its own", name)
	return nil
}
