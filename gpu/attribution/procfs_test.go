package attribution_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/gpu/attribution"
)

const boot = "b0070000-0000-4000-8000-000000000001"

// A proc is a process of a made-up /proc.
type proc struct {
	command string
	state   string
	threads int
	start   int
	line    string
	cgroup  string
}

// procfs writes a made-up /proc.
func procfs(t *testing.T, processes map[int32]proc) attribution.Procfs {
	t.Helper()
	p := attribution.Procfs{Root: t.TempDir()}
	write(t, p, "sys/kernel/random/boot_id", boot+"\n")
	for pid, is := range processes {
		is.put(t, p, pid)
	}
	return p
}

func (is proc) put(t *testing.T, p attribution.Procfs, pid int32) {
	t.Helper()
	if is.state == "" {
		is.state, is.threads = "S", max(is.threads, 3)
	}
	write(t, p, fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (%s) %s 1 %d %d 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 %d 0 %d 1000 10 18446744073709551615\n",
		pid, is.command, is.state, pid, pid, is.threads, is.start))
	write(t, p, fmt.Sprintf("%d/cmdline", pid), is.line)
	write(t, p, fmt.Sprintf("%d/cgroup", pid), is.cgroup)
}

func write(t *testing.T, p attribution.Procfs, name, content string) {
	t.Helper()
	path := filepath.Join(p.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProcess(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, tt := range map[string]struct {
		is   proc
		want attribution.Process
	}{
		"a plain one": {
			proc{command: "python3", start: 77, line: "python3\x00-m\x00vllm\x00", cgroup: "0::/a\n"},
			attribution.Process{Command: "python3", Line: "python3 -m vllm", Threads: 3, Cgroup: "0::/a\n"},
		},
		"a command with spaces and parentheses": {
			proc{command: "a) S 1 (b ) Z", line: "x"},
			attribution.Process{Command: "a) S 1 (b ) Z", Line: "x", Threads: 3},
		},
		"a command with a newline and bytes that are no text": {
			proc{command: "a\nb\xffc", line: "\x1b[2J\x00\xff\x00"},
			attribution.Process{Command: "a?b?c", Line: "?[2J ?", Threads: 3},
		},
		"a long command line": {
			proc{command: "c", line: long},
			attribution.Process{Command: "c", Line: long[:256], Threads: 3},
		},
		"a zombie": {
			proc{command: "c", state: "Z", threads: 1, line: "not read"},
			attribution.Process{Command: "c", Zombie: true, Threads: 1},
		},
		"a zombie with threads that hang": {
			proc{command: "c", state: "Z", threads: 4},
			attribution.Process{Command: "c", Zombie: true, Threads: 4},
		},
		"one that hangs in the kernel is not asked for its memory": {
			proc{command: "c", state: "D", threads: 1, line: "not read"},
			attribution.Process{Command: "c", Threads: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.is.start += 5
			got, err := procfs(t, map[int32]proc{42: tt.is}).Process(42)
			tt.want.Identity = attribution.Identity{PID: 42, Start: uint64(tt.is.start), Boot: boot}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("Process(): error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestProcessThatCannotBeRead(t *testing.T) {
	p := procfs(t, map[int32]proc{1: {command: "init"}})
	for _, pid := range []int32{0, -1, 2} {
		if _, err := p.Process(pid); !errors.Is(err, attribution.ErrNoProcess) {
			t.Errorf("process %d: %v, want ErrNoProcess", pid, err)
		}
	}
	for _, stat := range []string{"", "1", "1 (init", "1 init) S", "1 (init) S 1 2 3", "1 (init) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 x 0 7", "1 (init) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 x"} {
		write(t, p, "1/stat", stat)
		if got, err := p.Process(1); err == nil || errors.Is(err, attribution.ErrNoProcess) {
			t.Errorf("stat %q: %+v, %v; want an error that is not ErrNoProcess", stat, got, err)
		}
	}
	// A procfs that is not mounted must not look like one without processes.
	if _, err := (attribution.Procfs{Root: t.TempDir()}).Process(1); err == nil || errors.Is(err, attribution.ErrNoProcess) {
		t.Errorf("without procfs: %v, want an error that is not ErrNoProcess", err)
	}
}

func TestProcessOfThisMachine(t *testing.T) {
	p := attribution.Procfs{Root: "/proc"}
	me := int32(os.Getpid())
	got, err := p.Process(me)
	if err != nil {
		t.Fatal(err)
	}
	if got.PID != me || got.Start == 0 || len(got.Boot) != 36 || got.Zombie || got.Threads < 1 || got.Cgroup == "" {
		t.Errorf("this process: %+v", got)
	}
	if want := filepath.Base(os.Args[0])[:15]; got.Command != want || !strings.HasPrefix(got.Line, os.Args[0]) {
		t.Errorf("command %q, line %q; want %q, %q...", got.Command, got.Line, want, os.Args[0])
	}
	if _, err := attribution.ParseCgroup(got.Cgroup); err != nil {
		t.Error(err)
	}
	again, err := p.Process(me)
	if err != nil || again.Identity != got.Identity {
		t.Errorf("a second look: %+v, %v", again.Identity, err)
	}
}

func TestAZombieOfThisMachine(t *testing.T) {
	child := exec.Command("sleep", "infinity")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := int32(child.Process.Pid)
	p := attribution.Procfs{Root: "/proc"}
	before, err := p.Process(pid)
	if err != nil || before.Zombie {
		t.Errorf("alive: %+v, %v", before, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var dead attribution.Process
	for !dead.Zombie {
		if dead, err = p.Process(pid); err != nil {
			t.Fatal(err)
		}
	}
	if dead.Identity != before.Identity || dead.Threads > 1 || dead.Line != "" {
		t.Errorf("zombie: %+v, was %+v", dead, before)
	}
	if err := child.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if _, err := p.Process(pid); !errors.Is(err, attribution.ErrNoProcess) {
		t.Errorf("reaped: %v, want ErrNoProcess", err)
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(os.Getpid())); err != nil {
		t.Error(err)
	}
}
