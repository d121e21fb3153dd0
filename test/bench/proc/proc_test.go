package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

type fake struct{ cgroup, comm, status string }

func tree(t *testing.T, processes map[int]fake) string {
	t.Helper()
	root := t.TempDir()
	for pid, p := range processes {
		dir := filepath.Join(root, strconv.Itoa(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cgroup": p.cgroup, "comm": p.comm + "\n", "status": p.status} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func TestOf(t *testing.T) {
	root := tree(t, map[int]fake{
		1: {"0::/", "agent", ""},
		7: {"9:cpu:/lab/kubepods/pod1/abc\n0::/lab\n", "agent", "Name:\tagent\nVmHWM:\t   30720 kB\nVmRSS:\t   20480 kB\n"},
		8: {"9:cpu:/lab/kubepods/pod1/abc\n", "other", ""},
		9: {"9:cpu:/lab/kubepods/pod1/def\n", "agent", "Name:\tagent\n"},
		5: {"9:cpu:/lab/kubepods/pod2/two\n", "agent", ""},
		6: {"9:cpu:/lab/kubepods/pod2/two\n", "agent", ""},
	})
	p, err := Of(root, "abc", "agent")
	if err != nil || p.PID != 7 {
		t.Fatalf("Of() = %+v, %v", p, err)
	}
	if m, err := p.Memory(); err != nil || m != (Memory{NowMiB: 20, PeakMiB: 30}) {
		t.Errorf("Memory() = %+v, %v", m, err)
	}
	for _, id := range []string{"", "none", "two"} {
		if p, err := Of(root, id, "agent"); err == nil {
			t.Errorf("container %q: found %+v", id, p)
		}
	}
	if p, err = Of(root, "def", "agent"); err != nil {
		t.Fatal(err)
	}
	if m, err := p.Memory(); err == nil {
		t.Errorf("a process that has ended holds %+v", m)
	}
}

func TestCPU(t *testing.T) {
	const rest = " 1 7 7 0 -1 4194560 1 0 0 0 150 25 9000 9000 20 0 9 0 100 1 1"
	for name, tt := range map[string]struct {
		stat string
		want time.Duration
		ok   bool
	}{
		"user and system, not the children's": {"7 (agent) S" + rest, 1750 * time.Millisecond, true},
		"a name with all that confuses":       {"7 (a) S 1 (b) ) S" + rest, 1750 * time.Millisecond, true},
		"a zombie":                            {"7 (agent) Z" + rest, 0, false},
		"no numbers":                          {"7 (agent) S 1 2 3 4 5 6 7 8 9 10 x y z", 0, false},
		"cut off":                             {"7 (agent) S 1", 0, false},
		"empty":                               {"", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[int]fake{7: {}})
			if err := os.WriteFile(filepath.Join(root, "7", "stat"), []byte(tt.stat), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := (Process{PID: 7, root: root}).CPU(); got != tt.want || (err == nil) != tt.ok {
				t.Errorf("CPU() = %v, %v", got, err)
			}
		})
	}
	if got, err := (Process{PID: 8, root: t.TempDir()}).CPU(); err == nil {
		t.Errorf("a process that is not there has used %v", got)
	}
}
