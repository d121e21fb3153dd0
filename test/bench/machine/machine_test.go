package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDescribe(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"v2":     {"fs/cgroup/cgroup.controllers", "v2"},
		"hybrid": {"fs/cgroup/unified/cgroup.controllers", "hybrid"},
		"v1":     {"fs/cgroup/cpu/tasks", "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			proc, sys := t.TempDir(), t.TempDir()
			write(t, filepath.Join(proc, "meminfo"), "MemTotal:       24683896 kB\nMemFree: 1 kB\n")
			write(t, filepath.Join(proc, "cpuinfo"), "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\n")
			write(t, filepath.Join(sys, tt.file), "")
			m, err := Describe(proc, sys)
			if err != nil {
				t.Fatal(err)
			}
			if m.Cgroup != tt.want || m.MemoryMiB != 24105 || m.CPU != "A CPU @ 2 GHz" || m.Kernel == "" || m.Cores < 1 {
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestDescribeSaysWhatIsMissing(t *testing.T) {
	proc := t.TempDir()
	write(t, filepath.Join(proc, "meminfo"), "MemFree: 1 kB\n")
	if _, err := Describe(proc, t.TempDir()); err == nil {
		t.Error("no error without MemTotal")
	}
}

func TestLoad(t *testing.T) {
	proc := t.TempDir()
	write(t, filepath.Join(proc, "loadavg"), "13.97 13.15 11.14 3/400 29017\n")
	if l, err := Load(proc); err != nil || l != [3]float64{13.97, 13.15, 11.14} {
		t.Errorf("%v, %v", l, err)
	}
	write(t, filepath.Join(proc, "loadavg"), "high\n")
	if _, err := Load(proc); err == nil {
		t.Error("no error for a page without numbers")
	}
}
