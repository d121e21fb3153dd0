package journal

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestStartsAreCountedOnce(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	start := func(id string, kind RestartKind) Restarts {
		t.Helper()
		r, err := j.Count(Start{Pod: "pod-a", Container: "engine", ContainerID: id, Kind: kind})
		must(t, err)
		return r
	}
	start("c1", First)
	start("c2", Planned)
	start("c2", Crash) // seen before: keeps its kind
	start("c3", Crash)
	must(t, j.Close())
	j, _ = open(t, o)
	start("c3", Crash)
	start("c1", Peer) // an old container that shows up late
	r := start("c4", Peer)
	equal(t, Restarts{
		Container: "engine", Planned: 1, Crashes: 1, Peer: 1, LastID: "c4",
		Counted: []string{"c1", "c2", "c3", "c4"}, Updated: o.Clock.Now(),
	}, r)
	all, err := j.Restarts("pod-a")
	must(t, err)
	equal(t, []Restarts{r}, all)
	if _, err := j.Count(Start{Pod: "pod-a", Container: "engine", ContainerID: "c5", Kind: "?"}); err == nil {
		t.Error("unknown kind accepted")
	}
}

func TestForgetKeepsTheHistoryAndDropsTheLedger(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	a := attempt("a", 1)
	must(t, j.Intend(a, Action{Kind: Hold}), j.Intend(attempt("ab", 1), Action{Kind: Hold}))
	for _, pod := range []types.UID{"pod-a", "pod-ab"} {
		_, err := j.Count(Start{Pod: pod, Container: "engine", ContainerID: "c1", Kind: Crash})
		must(t, err)
	}
	must(t, j.Forget(a.Pod))
	if _, found, err := j.Read(a.Pod); found || err != nil {
		t.Errorf("still there: %v", err)
	}
	history, err := j.History(a.Pod)
	must(t, err)
	if len(history) != 1 || history[0].Open() || history[0].Outcome != podGone {
		t.Errorf("history: %+v", history)
	}
	for pod, want := range map[types.UID]int{"pod-a": 0, "pod-ab": 1} {
		l, err := j.Restarts(pod)
		must(t, err)
		if len(l) != want {
			t.Errorf("ledger of %s: %+v", pod, l)
		}
	}
}
