package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// filled makes a journal of a few hundred KiB in o.Dir, closes it, and returns what it said.
func filled(t *testing.T, o Options, pods int) state {
	t.Helper()
	j, _ := open(t, o)
	fill(t, j, pods)
	s, err := everything(j, podNames(pods)...)
	must(t, err)
	closeSound(t, j)
	return s
}

func fill(t *testing.T, j *Journal, pods int) {
	t.Helper()
	for _, pod := range podNames(pods) {
		a := attempt(pod, 1)
		must(t, j.Intend(a, Action{Kind: Pull, Subject: strings.Repeat("image/", 300)}))
		_, err := j.Count(Start{Pod: a.Pod, Container: "engine", ContainerID: pod, Kind: First})
		must(t, err)
	}
}

func podNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%03d", i)
	}
	return names
}

const damagedPods = 60

type damage struct {
	do   func(Options) error
	want Report // Cause is compared by presence
	kept bool
}

func damages() map[string]damage {
	lost := Report{Recovered: true, Quarantined: "yes"}
	table := map[string]damage{
		"kept":                               {func(Options) error { return nil }, Report{Schema: 1}, true},
		"deleted":                            {func(o Options) error { return os.Remove(db(o)) }, Report{Recovered: true}, false},
		"all deleted":                        {func(o Options) error { return os.RemoveAll(o.Dir) }, Report{}, false},
		"marker deleted":                     {func(o Options) error { return os.Remove(filepath.Join(o.Dir, markerFile)) }, Report{Schema: 1}, true},
		"zero length":                        {truncate(0), lost, false},
		"a folder in its place":              {func(o Options) error { return errors.Join(os.Remove(db(o)), os.Mkdir(db(o), 0o700)) }, lost, false},
		"a pipe to nowhere in its place":     {func(o Options) error { return errors.Join(os.Remove(db(o)), os.Symlink("nowhere", db(o))) }, lost, false},
		"both roots garbage":                 {write(0, 8192), lost, false},
		"first page garbage":                 {write(0, 4096), Report{}, true}, // one of the two roots
		"second page garbage":                {write(4096, 4096), Report{}, true},
		"all but the roots garbage":          {write(8192, 400<<10), lost, false},
		"all but the roots zero":             {zero(8192, 400<<10), lost, false},
		"text":                               {func(o Options) error { return os.WriteFile(db(o), []byte("hello"), 0o600) }, lost, false},
		"a bbolt file of somebody else":      {foreignBolt, lost, false},
		"written on another node":            {func(o Options) error { return setMeta(o, metaNode, "other") }, lost, false},
		"no schema":                          {func(o Options) error { return setMeta(o, metaSchema, "") }, lost, false},
		"a bucket missing":                   {func(o Options) error { return dropBucket(o, bucketLedger) }, lost, false},
		"left over from an unfinished start": {func(o Options) error { return os.WriteFile(filepath.Join(o.Dir, newFile), []byte("x"), 0o600) }, Report{Schema: 1}, true},
	}
	for _, n := range []int64{1, 100, 1023, 4095, 4096, 8191, 8192, 8193, 12 << 10, 16 << 10, 20<<10 + 1, 32 << 10, 64 << 10, 100 << 10, 200 << 10} {
		table[fmt.Sprintf("cut to %d bytes", n)] = damage{truncate(n), lost, false}
	}
	return table
}

func db(o Options) string { return filepath.Join(o.Dir, dbFile) }

func truncate(n int64) func(Options) error {
	return func(o Options) error { return os.Truncate(db(o), n) }
}

func write(at, n int) func(Options) error {
	garbage := make([]byte, n)
	for i := range garbage {
		garbage[i] = byte(i*7 + i>>8 + 1)
	}
	return func(o Options) error { return overwrite(o, at, garbage) }
}

func zero(at, n int) func(Options) error {
	return func(o Options) error { return overwrite(o, at, make([]byte, n)) }
}

func overwrite(o Options, at int, data []byte) error {
	f, err := os.OpenFile(db(o), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, int64(at))
	return errors.Join(err, f.Close())
}

func edit(o Options, f func(*bolt.Tx) error) error {
	d, err := bolt.Open(db(o), 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(d.Update(f), d.Close())
}

func setMeta(o Options, key, value string) error {
	return edit(o, func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucketMeta)).Put([]byte(key), []byte(value)) })
}

func dropBucket(o Options, name string) error {
	return edit(o, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(name)) })
}

func foreignBolt(o Options) error {
	return errors.Join(os.Remove(db(o)), edit(o, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("etcd"))
		return err
	}))
}

func TestDamageNeverStopsTheAgent(t *testing.T) {
	src := testOptions(t.TempDir())
	want := filled(t, src, damagedPods)
	for name, d := range damages() {
		t.Run(name, func(t *testing.T) {
			o := testOptions(filepath.Join(t.TempDir(), "agent"))
			must(t, os.CopyFS(o.Dir, os.DirFS(src.Dir)))
			must(t, d.do(o))
			j, report := open(t, o)
			checkReport(t, d, report)
			got, err := everything(j, podNames(damagedPods)...)
			must(t, err)
			switch {
			case d.kept && !report.RolledBack:
				equal(t, want, got)
			case !d.kept && len(got.Pods)+len(got.Ledger) > 0:
				t.Errorf("a lost journal says %d pods", len(got.Pods))
			}
			a := attempt("new", 1)
			must(t, j.Intend(a, Action{Kind: Hold}), j.Writable(t.Context()), j.Close())
			j, report = open(t, o)
			equal(t, Report{Schema: 1}, report)
			if r := read(t, j, "new"); len(r.Steps) != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func checkReport(t *testing.T, d damage, got Report) {
	t.Helper()
	if got.Recovered != (got.Cause != nil) || (got.Quarantined != "") != (d.want.Quarantined != "") {
		t.Errorf("report %+v", got)
	}
	if got.Quarantined != "" {
		if _, err := os.Lstat(got.Quarantined); err != nil {
			t.Error(err)
		}
	}
	if d.want.Schema == 0 && d.kept { // one of the two roots is gone: the older one, or the newer
		d.want.Schema, d.want.RolledBack = 1, true
	}
	got.Cause, got.Quarantined, d.want.Quarantined = nil, "", ""
	equal(t, d.want, got)
}

// The newer of two roots is gone: the last commit is lost, everything before it stands.
func TestALostRootCostsOneCommit(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	must(t, j.Intend(attempt("a", 1), Action{Kind: Hold}))
	want := read(t, j, "a")
	must(t, j.Intend(attempt("a", 1), Action{Kind: Patch}), j.Close())
	data, err := os.ReadFile(db(o))
	must(t, err)
	c := checker{f: bytes.NewReader(data), size: uint64(len(data)), order: binary.NativeEndian}
	m, _, err := c.newestMeta()
	must(t, err)
	must(t, write(int(m.tx%2*m.pageSize), 4096)(o))
	j, report := open(t, o)
	equal(t, Report{Schema: 1, RolledBack: true}, report)
	equal(t, want, read(t, j, "a"))
}

func TestANewerSchemaIsLeftUntouched(t *testing.T) {
	o := testOptions(t.TempDir())
	filled(t, o, 3)
	must(t, setMeta(o, metaSchema, "2"))
	before, err := os.ReadFile(db(o))
	must(t, err)
	stat, err := os.Stat(db(o))
	must(t, err)
	for range 2 {
		if _, _, err := Open(t.Context(), o); !errors.Is(err, ErrNewerSchema) {
			t.Fatalf("Open: %v", err)
		}
	}
	after, err := os.ReadFile(db(o))
	must(t, err)
	again, err := os.Stat(db(o))
	must(t, err)
	if !bytes.Equal(before, after) || !stat.ModTime().Equal(again.ModTime()) {
		t.Error("the file was written")
	}
	must(t, setMeta(o, metaSchema, "1")) // the newer program is back, so to speak
	_, report := open(t, o)
	equal(t, Report{Schema: 1}, report)
}

func TestTwoDamagedFilesAreKept(t *testing.T) {
	o := testOptions(t.TempDir())
	var moved []string
	var last string
	for n := range 4 {
		filled(t, o, 1)
		must(t, os.WriteFile(db(o), fmt.Appendf(nil, "damage %d", n), 0o600))
		j, report := open(t, o)
		last = report.Quarantined
		moved = append(moved, last)
		must(t, j.Close())
	}
	aside, err := filepath.Glob(filepath.Join(o.Dir, corruptPre+"*"))
	must(t, err)
	slices.Sort(moved[2:])
	equal(t, moved[2:], aside)
	data, err := os.ReadFile(last)
	must(t, err)
	equal(t, "damage 3", string(data))
}

// Damage under an open journal: bbolt reads its mapping, and faults.
func TestDamageWhileOpenIsSurvived(t *testing.T) {
	src := testOptions(t.TempDir())
	filled(t, src, damagedPods)
	for name, do := range map[string]func(Options) error{
		"zero length":          truncate(0),
		"cut to 4 KiB":         truncate(4 << 10),
		"cut to 8 KiB":         truncate(8 << 10),
		"cut to 12 KiB":        truncate(12 << 10),
		"cut to 40 KiB":        truncate(40 << 10),
		"cut to 100 KiB":       truncate(100 << 10),
		"roots garbage":        write(0, 8192),
		"roots zero":           zero(0, 8192),
		"file deleted":         func(o Options) error { return os.Remove(db(o)) },
		"folder deleted":       func(o Options) error { return os.RemoveAll(o.Dir) },
		"lock deleted":         func(o Options) error { return os.Remove(filepath.Join(o.Dir, lockFile)) },
		"file moved":           func(o Options) error { return os.Rename(db(o), db(o)+".bak") },
		"replaced by nonsense": func(o Options) error { return errors.Join(os.Remove(db(o)), os.WriteFile(db(o), []byte("x"), 0o600)) },
	} {
		for first, use := range map[string]func(*Journal) error{
			"read":  func(j *Journal) error { _, err := everything(j, podNames(damagedPods)...); return err },
			"write": func(j *Journal) error { return j.Intend(attempt("000", 2), Action{Kind: Hold}) },
			"end":   func(j *Journal) error { return j.End(attempt("059", 1), "InService") },
			"stats": func(j *Journal) error { _, err := j.Stats(); return err },
		} {
			t.Run(name+", "+first, func(t *testing.T) {
				o := testOptions(filepath.Join(t.TempDir(), "agent"))
				must(t, os.CopyFS(o.Dir, os.DirFS(src.Dir)))
				j, _ := open(t, o)
				must(t, j.Intend(attempt("000", 1), Action{Kind: Hold}))
				must(t, do(o))
				must(t, use(j))
				pods := []string{"000", "030", "new"}
				for _, pod := range pods {
					must(t, j.Intend(attempt(pod, 3), Action{Kind: Patch}))
				}
				must(t, j.Close())
				j, report := open(t, o)
				if report.Recovered {
					t.Errorf("%+v", report)
				}
				for _, pod := range pods {
					if s, ok := read(t, j, pod).Step(Action{Kind: Patch}); !ok || !s.Ended.IsZero() {
						t.Errorf("%s: an acknowledged intent is lost", pod)
					}
				}
			})
		}
	}
}

func TestARecoveryWhileOpenIsCounted(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	must(t, j.Intend(attempt("a", 1), Action{Kind: Hold}))
	must(t, truncate(0)(o))
	if _, found, err := j.Read("pod-a"); found || err != nil {
		t.Errorf("%t, %v", found, err)
	}
	s, err := j.Stats()
	must(t, err)
	if r := j.Report(); !r.Recovered || r.Quarantined == "" || s.Recoveries != 1 {
		t.Errorf("%+v, %+v", r, s)
	}
}

func TestADamagedRecordIsReportedAndReplaced(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	for _, pod := range []string{"a", "b", "c"} {
		must(t, j.Intend(attempt(pod, 1), Action{Kind: Hold}))
	}
	spoil := func(pod string) {
		t.Helper()
		must(t, j.update(func(tx *bolt.Tx) error {
			b, key := tx.Bucket([]byte(bucketPods)), []byte("pod-"+pod)
			raw := append([]byte(nil), b.Get(key)...)
			raw[len(raw)/2] ^= 1
			return b.Put(key, raw)
		}))
	}
	spoil("a")
	if _, _, err := j.Read("pod-a"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Read: %v", err)
	}
	records, err := j.Records()
	must(t, err)
	if len(records) != 2 {
		t.Errorf("%d records", len(records))
	}
	must(t, j.Intend(attempt("a", 1), Action{Kind: Patch}))
	if r := read(t, j, "a"); len(r.Steps) != 1 || r.Steps[0].Kind != Patch {
		t.Errorf("%+v", r)
	}
	spoil("b")
	must(t, j.Close())
	j, report := open(t, o)
	equal(t, Report{Schema: 1, Dropped: 1}, report)
	if _, found, err := j.Read("pod-b"); found || err != nil {
		t.Errorf("dropped record: %t, %v", found, err)
	}
	if r := read(t, j, "c"); !r.Open() {
		t.Errorf("%+v", r)
	}
}

func TestTheSequenceOutlivesItsCounter(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	for n := range int64(5) {
		must(t, j.Intend(attempt("a", n), Action{Kind: Hold}))
	}
	was := read(t, j, "a").Seq
	must(t, j.Close())
	must(t, edit(o, func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucketPods)).SetSequence(1) }))
	j, _ = open(t, o)
	must(t, j.Intend(attempt("a", 5), Action{Kind: Hold}))
	if seq := read(t, j, "a").Seq; seq <= was {
		t.Errorf("sequence %d after %d", seq, was)
	}
}
