package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pitstop.dev/test/lab/await"
)

func sleeper(name string) Spec { return Spec{Name: name, Args: []string{"/bin/sleep", "600"}} }

func start(t *testing.T, g Group, s Spec) Record {
	t.Helper()
	r, err := g.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("kill", "-9", fmt.Sprint(r.PID)).Run() })
	return r
}

func TestStartTime(t *testing.T) {
	tail := " 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"
	for name, tt := range map[string]struct {
		stat string
		want uint64
		ok   bool
	}{
		"reads field 22":                         {"7 (sleep) S" + tail, 4711, true},
		"is not misled by brackets in a name":    {"7 (a) S 1) R" + tail, 4711, true},
		"takes a zombie for ended":               {"7 (sleep) Z" + tail, 0, false},
		"refuses a line that is cut":             {"7 (sleep) S 1 1", 0, false},
		"refuses a line without a name":          {"7 S", 0, false},
		"refuses an empty line":                  {"", 0, false},
		"refuses a start time that is no number": {"7 (sleep) S" + strings.Replace(tail, "4711", "x", 1), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := startTime(tt.stat)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("startTime() = %d, %v; want %d, ok=%t", got, err, tt.want, tt.ok)
			}
		})
	}
}

func TestStartAndStop(t *testing.T) {
	g := Group{Dir: t.TempDir()}
	r := start(t, g, sleeper("a"))
	again, ok := Group{Dir: g.Dir}.Running("a") // as another program sees it
	if !ok || again != r {
		t.Errorf("Running() = %+v, %t; want %+v", again, ok, r)
	}
	if err := g.Stop(t.Context(), "a", time.Second); err != nil {
		t.Fatal(err)
	}
	if r.Alive() {
		t.Error("stopped process is alive")
	}
	if err := g.Stop(t.Context(), "a", time.Second); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestStopKillsAProcessThatIgnoresSIGTERM(t *testing.T) {
	g := Group{Dir: t.TempDir()}
	script := `trap "" TERM; echo ready; while :; do sleep 0.1; done`
	r := start(t, g, Spec{Name: "stubborn", Args: []string{"/bin/sh", "-c", script}})
	awaitLog(t, g, "stubborn", "ready")
	if err := g.Stop(t.Context(), "stubborn", 200*time.Millisecond); err != nil || r.Alive() {
		t.Errorf("Stop() = %v, alive %t", err, r.Alive())
	}
}

func TestStopSparesTheSuccessorOfAReusedID(t *testing.T) {
	g := Group{Dir: t.TempDir()}
	r := start(t, g, sleeper("a"))
	old := r
	old.Started-- // the recorded process ended, and its id went to another
	if err := g.write(old); err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	if !r.Alive() {
		t.Error("a foreign process was ended")
	}
	old.signal(9)
	if !r.Alive() {
		t.Error("a foreign process was signalled")
	}
}

func TestStartReportsTheLogOfAProgramThatCannotRun(t *testing.T) {
	g := Group{Dir: t.TempDir()}
	_, err := g.Start(t.Context(), Spec{Name: "none", Args: []string{"/no/such/program"}})
	if err == nil { // the shell was quicker to start than to fail
		awaitLog(t, g, "none", "/no/such/program")
		err := await.Until(t.Context(), "the end of none", 5*time.Second, func(context.Context) error {
			if _, runs := g.Running("none"); runs { // the shell has yet to end
				return errors.New("a program that does not exist runs")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return
	}
	if !strings.Contains(err.Error(), "none") {
		t.Errorf("error does not name the program: %v", err)
	}
}

func TestKillMarked(t *testing.T) {
	g, other := Group{Dir: t.TempDir()}, Group{Dir: t.TempDir()}
	child := start(t, g, Spec{Name: "parent", Args: []string{"/bin/sh", "-c", "sleep 600; true"}})
	spared := start(t, other, sleeper("spared"))
	if err := os.RemoveAll(g.Dir); err != nil { // no record is needed
		t.Fatal(err)
	}
	if err := g.KillMarked(t.Context()); err != nil {
		t.Fatal(err)
	}
	if child.Alive() || len(g.Marked()) > 0 {
		t.Errorf("left: %v", g.Marked())
	}
	if !spared.Alive() {
		t.Error("a process of another group was killed")
	}
}

func TestTetheredProcessEndsWithItsOwner(t *testing.T) {
	tether := NewTether(t.TempDir())
	r, err := tether.Start(t.Context(), sleeper("a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Orphans() {
		if g == tether.Group {
			t.Error("a process is an orphan while its owner lives")
		}
	}
	_ = tether.held["a"].hold.Close() // what the kernel does when the owner dies
	awaitEnd(t, r)
	tether.Close()
}

func TestOrphans(t *testing.T) {
	g := Group{Dir: t.TempDir()}
	s := sleeper("left")
	s.Env = []string{ownerVariable + "=999999999:1"}
	start(t, g, s)
	err := await.Until(t.Context(), "the orphan", 5*time.Second, orphaned(g)) // once the shell has become it
	if err != nil {
		t.Error(err)
	}
}
