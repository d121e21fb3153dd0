package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// holdEnv makes the test binary a second agent: it opens the journal in the folder of that
// name and holds it until its standard input ends.
const holdEnv = "JOURNAL_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		os.Exit(hold(dir))
	}
	// Thousands of commits wait for a disk; no test depends on which one it is.
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(shm, &fs); err == nil && fs.Bavail*uint64(fs.Bsize) > 256<<20 {
		_ = os.Setenv("TMPDIR", shm)
	}
	goleak.VerifyTestMain(m)
}

func hold(dir string) int {
	j, _, err := Open(context.Background(), Options{Dir: dir, NodeName: "node"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = j.Close() }()
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// secondAgent holds the journal in dir in another process until the returned function ends it.
func secondAgent(t *testing.T, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	kill = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = in.Close()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "held" {
		t.Fatalf("second agent: %q, %v", line, err)
	}
	return kill
}

func testOptions(dir string) Options {
	return Options{
		Dir: dir, NodeName: "node", BootID: "boot-1",
		Clock: clocktesting.NewFakeClock(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)),
	}
}

// open opens a journal that is closed, and checked, at the end of the test.
func open(t *testing.T, o Options) (*Journal, Report) {
	t.Helper()
	j, report, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSound(t, j) })
	return j, report
}

// closeSound closes j, if it is open, and checks that its file is sound.
func closeSound(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if _, err := check(j.path(dbFile)); err != nil && !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

func attempt(pod string, number int64) Attempt {
	return Attempt{
		Pod: types.UID("pod-" + pod), Namespace: "default", Name: pod,
		IPU: types.UID("ipu-" + pod), Number: number,
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, j *Journal, pod string) Record {
	t.Helper()
	r, _, err := j.Read(types.UID("pod-" + pod))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A state is all that a journal says.
type state struct {
	Pods   map[types.UID]Record
	Ledger map[types.UID][]Restarts
}

// everything reads j about the pods.
func everything(j *Journal, pods ...string) (state, error) {
	s := state{Pods: map[types.UID]Record{}, Ledger: map[types.UID][]Restarts{}}
	for _, p := range pods {
		uid := types.UID("pod-" + p)
		r, found, err := j.Read(uid)
		if err != nil {
			return s, err
		}
		if found {
			s.Pods[uid] = r
		}
		l, err := j.Restarts(uid)
		if err != nil {
			return s, err
		}
		if l != nil {
			s.Ledger[uid] = l
		}
	}
	return s, nil
}
