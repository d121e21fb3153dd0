package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// A model is what one may expect of a journal after any history of calls, crashes and boots.
type model struct {
	pods map[string]*podModel
	seq  uint64
}

type podModel struct {
	latest  map[types.UID]int64 // highest attempt of each update that ever wrote
	current *Attempt            // the attempt at hand, nil if none
	issued  map[Action]int      // intents and outcomes of it that were tried
	acked   map[Action]bool     // intents of it that were acknowledged; true: the outcome too
	ended   bool
	starts  map[string]RestartKind // by container id
}

var propertyPods = []string{"a", "b"}

func newModel() *model {
	m := &model{pods: map[string]*podModel{}}
	for _, p := range propertyPods {
		m.pods[p] = &podModel{latest: map[types.UID]int64{}, starts: map[string]RestartKind{}}
	}
	return m
}

// accepts says whether the attempt may write, by the rule of the contract: it is the one at
// hand, or one that no attempt of its update has passed.
func (p *podModel) accepts(a Attempt) bool {
	highest, known := p.latest[a.IPU]
	switch {
	case p.current != nil && *p.current == a, !known:
		return true
	case p.current != nil && p.current.IPU == a.IPU:
		return a.Number >= highest
	default:
		return a.Number > highest
	}
}

func (p *podModel) begin(a Attempt) {
	if p.current == nil || *p.current != a {
		p.current, p.issued, p.acked, p.ended = &a, map[Action]int{}, map[Action]bool{}, false
	}
	p.latest[a.IPU] = a.Number
}

func (m *model) check(t *rapid.T, j *Journal) {
	for name, p := range m.pods {
		r, found, err := j.Read(types.UID("pod-" + name))
		if err != nil {
			t.Fatal(err)
		}
		if found != (p.current != nil) {
			t.Fatalf("pod %s on record: %t", name, found)
		}
		if found {
			p.check(t, r)
		}
		m.checkLedger(t, j, name)
	}
}

func (p *podModel) check(t *rapid.T, r Record) {
	if r.Attempt != *p.current || r.Open() == p.ended {
		t.Fatalf("want %+v, ended %t, got %+v", *p.current, p.ended, r)
	}
	var last uint64
	for _, s := range r.Steps {
		if s.Seq <= last || s.Seq > r.Seq {
			t.Fatalf("sequence of the steps: %+v", r)
		}
		last = s.Seq
		if p.issued[s.Action] == 0 {
			t.Fatalf("%+v was never written", s)
		}
	}
	for act, done := range p.acked {
		if s, ok := r.Step(act); !ok || s.Ended.IsZero() == done {
			t.Fatalf("acknowledged %+v, done %t: %+v", act, done, s)
		}
	}
}

func (m *model) checkLedger(t *rapid.T, j *Journal, pod string) {
	want := Restarts{}
	for _, kind := range m.pods[pod].starts {
		switch kind {
		case Planned:
			want.Planned++
		case Crash:
			want.Crashes++
		case Peer:
			want.Peer++
		case First:
		}
	}
	l, err := j.Restarts(types.UID("pod-" + pod))
	if err != nil {
		t.Fatal(err)
	}
	got := Restarts{}
	if len(l) > 0 {
		got = Restarts{Planned: l[0].Planned, Crashes: l[0].Crashes, Peer: l[0].Peer}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("ledger of %s (-want +got):\n%s", pod, diff)
	}
}

// A run drives a journal and its model through the same history.
type run struct {
	t    *rapid.T
	root string
	n    int
	o    Options
	j    *Journal
	m    *model
}

func (r *run) open() {
	var err error
	var report Report
	if r.j, report, err = Open(r.t.Context(), r.o); err != nil || report.Recovered || report.Dropped != 0 {
		r.t.Fatalf("open: %+v, %v", report, err)
	}
}

func (r *run) close() {
	if err := r.j.Close(); err != nil {
		r.t.Fatal(err)
	}
	if _, err := check(db(r.o)); err != nil {
		r.t.Fatal(err)
	}
}

// crash leaves the process for another one that finds the files as they are now.
func (r *run) crash() {
	r.n++
	dir := filepath.Join(r.root, fmt.Sprint(r.n))
	if err := os.CopyFS(dir, os.DirFS(r.o.Dir)); err != nil {
		r.t.Fatal(err)
	}
	r.close()
	r.o.Dir = dir
	r.open()
}

func (r *run) pod() string { return rapid.SampledFrom(propertyPods).Draw(r.t, "pod") }

func (r *run) attempt(pod string) Attempt {
	a := attempt(pod, rapid.Int64Range(1, 4).Draw(r.t, "attempt"))
	a.IPU = types.UID(rapid.SampledFrom([]string{"x", "y"}).Draw(r.t, "update"))
	return a
}

func (r *run) action() Action {
	return Action{Kind: rapid.SampledFrom([]Kind{Pull, Hold, Patch}).Draw(r.t, "kind")}
}

// write runs a call of an attempt and says whether it was acknowledged.
func (r *run) write(a Attempt, call func() error) bool {
	p := r.m.pods[a.Name]
	may := p.accepts(a)
	err := call()
	switch {
	case err == nil && may:
		p.begin(a)
		return true
	case errors.Is(err, ErrSuperseded) && !may:
		return false
	}
	r.t.Fatalf("%+v may write: %t, yet %v", a, may, err)
	return false
}

func (r *run) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"intend": func(*rapid.T) {
			a, act := r.attempt(r.pod()), r.action()
			if r.write(a, func() error { return r.j.Intend(a, act) }) {
				p := r.m.pods[a.Name]
				p.issued[act]++
				p.acked[act], p.ended = false, false
			}
		},
		"done": func(*rapid.T) {
			a, act := r.attempt(r.pod()), r.action()
			if r.write(a, func() error { return r.j.Done(a, act, "ok") }) {
				p := r.m.pods[a.Name]
				p.issued[act]++
				p.acked[act] = true
			}
		},
		"baseline": func(*rapid.T) {
			a := r.attempt(r.pod())
			b := []Baseline{{Container: "engine", ContainerID: rapid.StringMatching("[a-d]").Draw(r.t, "id")}}
			r.write(a, func() error { return r.j.Baseline(a, b) })
		},
		"end": func(*rapid.T) {
			p := r.m.pods[r.pod()]
			if p.current == nil {
				return
			}
			if err := r.j.End(*p.current, "over"); err != nil {
				r.t.Fatal(err)
			}
			p.ended = true
		},
		"forget": func(*rapid.T) {
			pod := r.pod()
			if err := r.j.Forget(types.UID("pod-" + pod)); err != nil {
				r.t.Fatal(err)
			}
			r.m.pods[pod] = newModel().pods[pod]
		},
		"count": func(*rapid.T) {
			pod, id := r.pod(), rapid.StringMatching("[a-f]").Draw(r.t, "id")
			kind := rapid.SampledFrom([]RestartKind{First, Planned, Crash, Peer}).Draw(r.t, "why")
			if _, err := r.j.Count(Start{Pod: types.UID("pod-" + pod), Container: "engine", ContainerID: id, Kind: kind}); err != nil {
				r.t.Fatal(err)
			}
			if _, seen := r.m.pods[pod].starts[id]; !seen {
				r.m.pods[pod].starts[id] = kind
			}
		},
		"crash":      func(*rapid.T) { r.crash() },
		"power lost": func(*rapid.T) { r.powerLost() },
		"reopen": func(*rapid.T) {
			r.close()
			r.open()
		},
		"boot": func(*rapid.T) {
			r.close()
			r.o.BootID += "'"
			r.open()
		},
		"time passes": func(*rapid.T) { r.o.Clock.(*clocktesting.FakeClock).Step(time.Second) },
	}
}

// powerLost loses power inside an intent: any of its pages may be on disk. The intent is then
// on record or not, but nothing is in between, and nothing else is touched.
func (r *run) powerLost() {
	a, act := r.attempt(r.pod()), r.action()
	p := r.m.pods[a.Name]
	before, err := everything(r.j, propertyPods...)
	old, err2 := os.ReadFile(db(r.o))
	may := p.accepts(a)
	err3 := r.j.Intend(a, act)
	after, err4 := everything(r.j, propertyPods...)
	now, err5 := os.ReadFile(db(r.o))
	if err := errors.Join(err, err2, err4, err5); err != nil || may != (err3 == nil) {
		r.t.Fatal(err, err3)
	}
	if slices.Equal(old, now) {
		return // already open, or superseded: nothing was written
	}
	img := rapid.SampledFrom(cuts(old, now)).Draw(r.t, "what reached the disk")
	if err := os.WriteFile(db(r.o), img.data, 0o600); err != nil {
		r.t.Fatal(err)
	}
	dead := r.j
	r.n++
	dir := filepath.Join(r.root, fmt.Sprint(r.n))
	if err := os.CopyFS(dir, os.DirFS(r.o.Dir)); err != nil {
		r.t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.o.Dir = dir
	r.open()
	want := before
	if img.committed {
		want = after
		p.begin(a)
		p.issued[act]++
		p.acked[act], p.ended = false, false
	}
	got, err := everything(r.j, propertyPods...)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		r.t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAnyHistoryKeepsTheContract(t *testing.T) {
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		r := &run{t: t, root: filepath.Join(root, fmt.Sprint(runs)), m: newModel()}
		r.o = testOptions(filepath.Join(r.root, "0"))
		r.o.BootID = "boot"
		r.open()
		defer func() { _ = os.RemoveAll(r.root) }()
		defer func() { _ = r.j.Close() }()
		actions := r.actions()
		actions[""] = func(t *rapid.T) {
			r.m.check(t, r.j)
			r.m.checkSeq(t, r.j)
		}
		t.Repeat(actions)
	})
}

// checkSeq checks that the sequence of the journal only grows, whatever happened in between.
func (m *model) checkSeq(t *rapid.T, j *Journal) {
	var all []Record
	for name := range m.pods {
		h, err := j.History(types.UID("pod-" + name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h...)
	}
	seen := map[uint64]bool{}
	highest := uint64(0)
	for _, r := range all {
		if seen[r.Seq] {
			t.Fatalf("sequence %d twice", r.Seq)
		}
		seen[r.Seq] = true
		highest = max(highest, r.Seq)
	}
	if len(all) > 0 && highest < m.seq {
		t.Fatalf("sequence fell from %d to %d", m.seq, highest)
	}
	m.seq = highest
}
