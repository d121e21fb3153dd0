package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
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
