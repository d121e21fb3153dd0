package journal

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

var rewrite = flag.Bool("rewrite", false, "store a file of the current schema in testdata")

// Files of every schema that was ever released are opened, by this program, as they lie in
// testdata; each says the same as on the day it was written. -rewrite stores that of the
// current schema, once.
func TestStoredFilesOfEverySchemaAreOpened(t *testing.T) {
	if *rewrite {
		store(t, filepath.Join("testdata", fmt.Sprintf("schema-%d.db", Schema)))
	}
	for schema := 1; schema <= Schema; schema++ {
		t.Run(fmt.Sprint(schema), func(t *testing.T) {
			o := testOptions(t.TempDir())
			data, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("schema-%d.db", schema)))
			must(t, err)
			must(t, os.WriteFile(db(o), data, 0o600))
			j, report := open(t, o)
			equal(t, Report{Schema: schema}, report)
			got, err := everything(j, "a", "b")
			must(t, err)
			equal(t, stored(t), got)
			must(t, j.Intend(attempt("a", 1), Action{Kind: Serve}), j.Close())
			_, report = open(t, o)
			equal(t, Report{Schema: Schema}, report)
		})
	}
}

// tale is what the stored files tell.
func tale(j *Journal) error {
	for _, e := range twoUpdates() {
		if err := e.do(j); err != nil {
			return err
		}
	}
	a := attempt("a", 1)
	before := []Baseline{{
		Container: "engine", ContainerID: "c1", ImageID: "sha256:1", Hash: "7", RestartCount: 2,
		Processes: []Process{{PID: 9, Started: 4711, GPU: "GPU-1", MiB: 70000}},
	}}
	if err := j.Baseline(a, before); err != nil {
		return err
	}
	_, err := j.Count(Start{Pod: a.Pod, Container: "engine", ContainerID: "c2", Kind: Crash})
	return err
}

// stored is the tale as this program tells it.
func stored(t *testing.T) state {
	t.Helper()
	j, _ := open(t, testOptions(t.TempDir()))
	must(t, tale(j))
	s, err := everything(j, "a", "b")
	must(t, err)
	return s
}

func store(t *testing.T, path string) {
	t.Helper()
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	must(t, tale(j), j.Close())
	data, err := os.ReadFile(db(o))
	must(t, err)
	pages := len(data)
	for pages > 4096 && allZero(data[pages-4096:pages]) { // space reserved ahead
		pages -= 4096
	}
	must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data[:pages], 0o644))
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func TestUnknownKeysSurvive(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	a := attempt("a", 1)
	must(t, j.Intend(a, Action{Kind: Hold}))
	key := []byte(a.Pod)
	must(t, j.update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(bucketPods))
		r, err := decode[Record](key, b.Get(key))
		if err != nil {
			return err
		}
		raw, err := encode(key, struct {
			Record
			Future []int `json:"future"`
		}{r, []int{4, 2}}, nil)
		if err != nil {
			return err
		}
		return b.Put(key, raw)
	}))
	must(t, j.Done(a, Action{Kind: Hold}, "ok"), j.End(a, "InService"))
	var kept struct{ Future []int }
	must(t, j.view(func(tx *bolt.Tx) error {
		var err error
		kept, err = decode[struct{ Future []int }](key, tx.Bucket([]byte(bucketPods)).Get(key))
		return err
	}))
	equal(t, []int{4, 2}, kept.Future)
	if r := read(t, j, "a"); r.Open() || r.Outcome != "InService" {
		t.Errorf("%+v", r)
	}
}
