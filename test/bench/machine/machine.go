// Package machine says what a benchmark ran on: figures of different machines are not compared.
package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Machine is what matters for a measurement.
type Machine struct {
	Cores        int    `json:"cores"`
	CPU          string `json:"cpu"`
	MemoryMiB    int64  `json:"memory_mib"`
	Kernel       string `json:"kernel"`
	Architecture string `json:"architecture"`
	Cgroup       string `json:"cgroup"` // v1, hybrid or v2
}

// Describe reads what this machine is; proc and sys are /proc and /sys.
func Describe(proc, sys string) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), Architecture: runtime.GOARCH}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return m, fmt.Errorf("kernel: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(u.Release[:])
	total, err := field(filepath.Join(proc, "meminfo"), "MemTotal")
	if err != nil {
		return m, err
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(total, " kB"), 10, 64)
	if err != nil {
		return m, fmt.Errorf("memory: %w", err)
	}
	m.MemoryMiB = kib >> 10
	m.CPU, _ = field(filepath.Join(proc, "cpuinfo"), "model name") // some architectures have none
	m.Cgroup = cgroup(sys)
	return m, nil
}

// cgroup says which version of control groups the machine has mounted.
func cgroup(sys string) string {
	at := func(parts ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{sys, "fs", "cgroup"}, parts...)...))
		return !errors.Is(err, fs.ErrNotExist)
	}
	switch {
	case at("cgroup.controllers"):
		return "v2"
	case at("unified", "cgroup.controllers"):
		return "hybrid"
	default:
		return "v1"
	}
}

// Load returns the load averages over 1, 5 and 15 minutes.
func Load(proc string) ([3]float64, error) {
	var l [3]float64
	data, err := os.ReadFile(filepath.Join(proc, "loadavg"))
	if err != nil {
		return l, fmt.Errorf("load: %w", err)
	}
	if _, err := fmt.Sscan(string(data), &l[0], &l[1], &l[2]); err != nil {
		return l, fmt.Errorf("load: %w", err)
	}
	return l, nil
}

// field returns the value of the first line "name : value".
func field(file, name string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", file, name)
}
