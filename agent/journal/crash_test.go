package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// An effect is one call that writes.
type effect struct {
	name string
	do   func(*Journal) error
}

// twoUpdates is the life of two updates, the second of which is superseded once.
func twoUpdates() []effect {
	var all []effect
	add := func(name string, do func(*Journal) error) { all = append(all, effect{name, do}) }
	life := func(a Attempt, end string) {
		before := []Baseline{{Container: "engine", ContainerID: fmt.Sprint("c", a.Number), ImageID: "sha256:1"}}
		for _, kind := range []Kind{Pull, Hold, Patch, Stop, Serve} {
			act := Action{Kind: kind}
			if kind == Patch {
				add("baseline", func(j *Journal) error { return j.Baseline(a, before) })
			}
			add("intend "+string(kind), func(j *Journal) error { return j.Intend(a, act) })
			if kind == Stop {
				add("count", func(j *Journal) error {
					_, err := j.Count(Start{Pod: a.Pod, Container: "engine", ContainerID: fmt.Sprint("n", a.Number), Kind: Planned})
					return err
				})
			}
			add("done "+string(kind), func(j *Journal) error { return j.Done(a, act, "ok") })
		}
		if end != "" {
			add("end", func(j *Journal) error { return j.End(a, end) })
		}
	}
	life(attempt("a", 1), "InService")
	life(attempt("b", 1), "")
	life(attempt("b", 2), "InService")
	add("forget", func(j *Journal) error { return j.Forget("pod-a") })
	add("probe", func(j *Journal) error { return j.tryWrite() })
	return all
}

// Killed after any write: what was acknowledged is there, and nothing else.
func TestACrashAfterAnyWriteKeepsWhatWasAcknowledged(t *testing.T) {
	o := testOptions(t.TempDir())
	crashed := t.TempDir()
	var copies []string
	o.AfterCommit = func(n int) { // the process dies here: only the files are left
		dir := filepath.Join(crashed, fmt.Sprint(n))
		must(t, os.CopyFS(dir, os.DirFS(o.Dir)))
		copies = append(copies, dir)
	}
	j, _ := open(t, o)
	effects := twoUpdates()
	for n, e := range effects {
		must(t, e.do(j))
		want, err := everything(j, "a", "b")
		must(t, err)
		if len(copies) != n+1 {
			t.Fatalf("%s: %d commits, want %d", e.name, len(copies), n+1)
		}
		again := testOptions(copies[n])
		k, report := open(t, again)
		equal(t, Report{Schema: 1}, report)
		got, err := everything(k, "a", "b")
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %d, %s (-want +got):\n%s", n, e.name, diff)
		}
		for _, rest := range effects[n:] { // the effect again, and on to the end
			if err := rest.do(k); err != nil {
				t.Fatalf("after %d, %s: %s: %v", n, e.name, rest.name, err)
			}
		}
		closeSound(t, k)
	}
}

// Power lost inside a commit: of the pages that it writes, any may have reached the disk while
// the root, which is written last, has not. Then the commit has not happened. A root that was
// cut in the middle does not count; once it is there, the commit has happened.
func TestPowerLostInsideACommit(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	images := 0
	for n, e := range twoUpdates() {
		old, err := os.ReadFile(db(o))
		must(t, err)
		before, err := everything(j, "a", "b")
		must(t, err)
		must(t, e.do(j))
		now, err := os.ReadFile(db(o))
		must(t, err)
		after, err := everything(j, "a", "b")
		must(t, err)
		for _, img := range cuts(old, now) {
			images++
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, dbFile), img.data, 0o600))
			k, report := open(t, testOptions(dir))
			want := before
			if img.committed {
				want = after
			}
			got, err := everything(k, "a", "b")
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" || report.Recovered || report.Dropped != 0 {
				t.Fatalf("%d, %s, %s: %+v (-want +got):\n%s", n, e.name, img.name, report, diff)
			}
			closeSound(t, k)
		}
	}
	t.Logf("%d images", images)
}

type image struct {
	name      string
	data      []byte
	committed bool
}

// cuts returns the files that a loss of power between old and now can leave.
func cuts(old, now []byte) []image {
	const page = 4096
	old = append(slices.Clone(old), make([]byte, max(0, len(now)-len(old)))...)
	var changed []int
	for at := 0; at < len(now); at += page {
		if !bytes.Equal(old[at:min(at+page, len(now))], now[at:min(at+page, len(now))]) {
			changed = append(changed, at)
		}
	}
	root, data := changed[0], changed[1:]
	with := func(base []byte, set uint) []byte {
		img := slices.Clone(base)
		for i, at := range data {
			if set&(1<<i) != 0 {
				copy(img[at:min(at+page, len(now))], now[at:])
			}
		}
		return img
	}
	all := uint(1)<<len(data) - 1
	var out []image
	for set := range all + 1 {
		if set == all || set&(set+1) == 0 || set%5 == 3 { // none, each prefix, all, some others
			out = append(out, image{name: fmt.Sprintf("pages %b of %d", set, len(data)), data: with(old, set)})
		}
	}
	torn := with(old, all)
	copy(torn[root:root+40], now[root:])
	done := with(now, all)
	return append(out, image{name: "torn root", data: torn}, image{name: "all", data: done, committed: true})
}

// The process dies between any two steps of making the file, or of moving it aside.
func TestACrashWhileTheFileIsMade(t *testing.T) {
	whole := testOptions(t.TempDir())
	want := filled(t, whole, 2)
	data, err := os.ReadFile(db(whole))
	must(t, err)
	for name, tt := range map[string]struct {
		leave map[string][]byte
		want  Report
		kept  bool
	}{
		"lock alone":              {map[string][]byte{lockFile: nil}, Report{}, false},
		"new file empty":          {map[string][]byte{newFile: nil}, Report{}, false},
		"new file cut":            {map[string][]byte{newFile: data[:9000]}, Report{}, false},
		"new file whole":          {map[string][]byte{newFile: data}, Report{}, false},
		"in place, not marked":    {map[string][]byte{dbFile: data}, Report{Schema: 1}, true},
		"marker alone":            {map[string][]byte{markerFile: nil}, Report{Recovered: true}, false},
		"moved aside, none made":  {map[string][]byte{markerFile: nil, corruptPre + "x": data}, Report{Recovered: true}, false},
		"compacted, not in place": {map[string][]byte{dbFile: data, newFile: data[:20000]}, Report{Schema: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t.TempDir())
			for name, data := range tt.leave {
				must(t, os.WriteFile(filepath.Join(o.Dir, name), data, 0o600))
			}
			j, report := open(t, o)
			report.Cause = nil
			equal(t, tt.want, report)
			got, err := everything(j, podNames(2)...)
			must(t, err)
			if tt.kept {
				equal(t, want, got)
			} else {
				equal(t, state{Pods: map[types.UID]Record{}, Ledger: map[types.UID][]Restarts{}}, got)
			}
			must(t, j.Intend(attempt("a", 1), Action{Kind: Hold}))
			if !exists(j.path(markerFile)) || exists(j.path(newFile)) {
				t.Error("files are not as they should be")
			}
		})
	}
}
