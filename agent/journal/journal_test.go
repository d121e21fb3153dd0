package journal

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestARecordSurvivesARestart(t *testing.T) {
	o := testOptions(t.TempDir())
	clock := o.Clock.(*clocktesting.FakeClock)
	t0 := clock.Now()
	j, report := open(t, o)
	equal(t, Report{}, report)

	a := attempt("a", 3)
	before := []Baseline{{
		Container: "engine", ContainerID: "c1", ImageID: "sha256:1", Hash: "7", RestartCount: 2,
		Processes: []Process{{PID: 9, Started: 4711, GPU: "GPU-1", MiB: 70000}},
	}}
	must(t, j.Intend(a, Action{Kind: Pull, Subject: "engine:2"}))
	clock.Step(time.Second)
	must(t, j.Done(a, Action{Kind: Pull, Subject: "engine:2"}, "sha256:2"), j.Baseline(a, before), j.Intend(a, Action{Kind: Patch}))
	must(t, j.Close())

	want := Record{
		Attempt: a, Seq: 4, Begun: t0, Updated: t0.Add(time.Second), BootID: "boot-1",
		Steps: []Step{
			{Action: Action{Kind: Pull, Subject: "engine:2"}, Seq: 1, Begun: t0, Ended: t0.Add(time.Second), Outcome: "sha256:2"},
			{Action: Action{Kind: Patch}, Seq: 4, Begun: t0.Add(time.Second)},
		},
		Before: before, PriorIDs: []string{"c1"},
	}
	j, report = open(t, o)
	equal(t, Report{Schema: 1}, report)
	equal(t, want, read(t, j, "a"))
	records, err := j.Records()
	must(t, err)
	equal(t, []Record{want}, records)
	step, ok := records[0].Step(Action{Kind: Patch})
	if !ok || !step.Ended.IsZero() {
		t.Errorf("patch: %+v, %t", step, ok)
	}
	if _, found, err := j.Read("pod-b"); found || err != nil {
		t.Errorf("unknown pod: %t, %v", found, err)
	}
}

func TestSayingTheSameAgainWritesNothing(t *testing.T) {
	commits := 0
	o := testOptions(t.TempDir())
	o.AfterCommit = func(n int) { commits = n }
	j, _ := open(t, o)
	a, act := attempt("a", 1), Action{Kind: Hold}
	for range 2 {
		must(t, j.Intend(a, act))
	}
	for range 2 {
		must(t, j.Baseline(a, []Baseline{{Container: "engine", ContainerID: "c1"}}))
	}
	for range 2 {
		must(t, j.Done(a, act, "ok"))
	}
	for range 2 {
		must(t, j.End(a, "InService"))
	}
	for range 2 {
		must(t, j.Forget(a.Pod))
	}
	if commits != 5 {
		t.Errorf("%d commits", commits)
	}
	must(t, j.End(attempt("b", 1), "InService"))
	if commits != 5 {
		t.Error("the end of an attempt that is not on record was written")
	}
}

func TestAnActionAfterItsEndIsANewStep(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	a, act := attempt("a", 1), Action{Kind: Hold}
	must(t, j.Intend(a, act), j.Done(a, act, "ok"), j.Intend(a, act))
	r := read(t, j, "a")
	if len(r.Steps) != 2 || r.Steps[0].Ended.IsZero() || !r.Steps[1].Ended.IsZero() {
		t.Errorf("%+v", r.Steps)
	}
}

func TestAnOutcomeWithoutIntentIsAdopted(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	must(t, j.Done(attempt("a", 1), Action{Kind: Patch}, "seen"))
	r := read(t, j, "a")
	if len(r.Steps) != 1 || !r.Steps[0].Begun.IsZero() || r.Steps[0].Outcome != "seen" {
		t.Errorf("%+v", r.Steps)
	}
}

func TestALaterAttemptSupersedes(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	act := Action{Kind: Hold}
	other := attempt("a", 1)
	other.IPU = "ipu-made-anew"
	for _, a := range []Attempt{attempt("a", 1), attempt("a", 2), other} {
		must(t, j.Intend(a, act))
	}
	for _, a := range []Attempt{attempt("a", 1), attempt("a", 2)} {
		for what, err := range map[string]error{
			"Intend": j.Intend(a, act), "Done": j.Done(a, act, "ok"), "Baseline": j.Baseline(a, nil), "End": j.End(a, "x"),
		} {
			if !errors.Is(err, ErrSuperseded) {
				t.Errorf("%s of attempt %d: %v", what, a.Number, err)
			}
		}
	}
	must(t, j.Intend(attempt("a", 3), act)) // a later attempt of the first update
	if err := j.Intend(other, act); !errors.Is(err, ErrSuperseded) {
		t.Errorf("the other update: %v", err)
	}
	history, err := j.History("pod-a")
	must(t, err)
	var numbers []string
	for _, r := range history {
		numbers = append(numbers, fmt.Sprint(r.IPU, "/", r.Number, " ", r.Outcome))
	}
	equal(t, []string{"ipu-a/1 Superseded", "ipu-a/2 Superseded", "ipu-made-anew/1 Superseded", "ipu-a/3 "}, numbers)
	records, err := j.Records()
	must(t, err)
	s, err := j.Stats()
	must(t, err)
	if len(records) != 1 || records[0].Number != 3 || s.Open != 1 || s.Ended != 3 {
		t.Errorf("open: %+v, %+v", records, s)
	}
}

func TestPriorIDsLiveUntilTheUpdateEnds(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	baseline := func(n int64, id string) {
		t.Helper()
		must(t, j.Baseline(attempt("a", n), []Baseline{{Container: "engine", ContainerID: id}, {Container: "log", ContainerID: "l1"}}))
	}
	baseline(1, "c1")
	baseline(1, "c2") // crashed before the patch
	baseline(2, "c3")
	equal(t, []string{"c1", "l1", "c2", "c3"}, read(t, j, "a").PriorIDs)
	must(t, j.End(attempt("a", 2), "InService"))
	equal(t, []string{"c1", "l1", "c2", "c3"}, read(t, j, "a").PriorIDs)
	baseline(3, "c4")
	equal(t, []string{"c4", "l1"}, read(t, j, "a").PriorIDs)
}

func TestAnEndedAttemptIsOpenAgainByAnIntent(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	a := attempt("a", 1)
	must(t, j.Intend(a, Action{Kind: Serve}), j.End(a, "InService"))
	records, err := j.Records()
	must(t, err)
	if len(records) != 0 {
		t.Errorf("ended, yet open: %+v", records)
	}
	must(t, j.Intend(a, Action{Kind: Serve})) // the agent died before it could report the end
	if r := read(t, j, "a"); !r.Open() || r.Outcome != "" {
		t.Errorf("%+v", r)
	}
}

func TestProcessesAreVoidInAnotherBoot(t *testing.T) {
	o := testOptions(t.TempDir())
	j, _ := open(t, o)
	a := attempt("a", 1)
	before := []Baseline{{Container: "engine", ContainerID: "c1", Processes: []Process{{PID: 1}}}}
	must(t, j.Baseline(a, before, GPU{UUID: "GPU-1", Version: 2, Used: 70000, Own: 69000}))
	equal(t, []GPU{{UUID: "GPU-1", Version: 2, Used: 70000, Own: 69000}}, read(t, j, "a").GPUs)
	must(t, j.Close())
	o.BootID = "boot-2"
	j, report := open(t, o)
	equal(t, Report{Schema: 1, BootChanged: true}, report)
	want := []Baseline{{Container: "engine", ContainerID: "c1"}}
	equal(t, want, read(t, j, "a").Before)
	equal(t, []GPU(nil), read(t, j, "a").GPUs)
	must(t, j.Intend(a, Action{Kind: Patch}))
	r := read(t, j, "a")
	equal(t, want, r.Before)
	equal(t, []GPU(nil), r.GPUs)
	equal(t, "boot-2", r.BootID)
	must(t, j.Close())
	_, report = open(t, o)
	equal(t, Report{Schema: 1}, report)
}

func TestTheJournalCannotBeUsedAfterClose(t *testing.T) {
	j, _ := open(t, testOptions(t.TempDir()))
	must(t, j.Close(), j.Close())
	_, _, read := j.Read("pod-a")
	_, stats := j.Stats()
	for _, err := range []error{j.Intend(attempt("a", 1), Action{Kind: Hold}), read, stats, j.Writable(t.Context())} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

func TestBadInputIsRefused(t *testing.T) {
	for _, o := range []Options{{}, {Dir: t.TempDir()}, {NodeName: "node"}} {
		if _, _, err := Open(t.Context(), o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
	j, _ := open(t, testOptions(t.TempDir()))
	for _, a := range []Attempt{{}, {Pod: "p"}, {IPU: "i"}} {
		if err := j.Intend(a, Action{Kind: Hold}); err == nil {
			t.Errorf("%+v accepted", a)
		}
	}
}

func TestTheFolderIsPrivateAndMade(t *testing.T) {
	dir := t.TempDir() + "/a/b"
	open(t, testOptions(dir))
	fi, err := os.Stat(dir)
	must(t, err)
	if fi.Mode().Perm() != 0o700 {
		t.Error(fi.Mode())
	}
}

func TestTheObserverSeesEachCommit(t *testing.T) {
	o := testOptions(t.TempDir())
	var seen []time.Duration
	o.Observe = func(d time.Duration) { seen = append(seen, d) }
	j, _ := open(t, o)
	must(t, j.Intend(attempt("a", 1), Action{Kind: Hold}), j.Writable(t.Context()))
	s, err := j.Stats()
	must(t, err)
	if len(seen) != 2 || s.Commits != 2 {
		t.Errorf("%v, %+v", seen, s)
	}
}
