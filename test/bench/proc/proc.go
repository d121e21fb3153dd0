// Package proc finds and reads the processes of containers on this machine.
package proc

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which Linux tells programs of processor time, on every platform.
const tick = time.Second / 100

// A Process is one process of a container.
type Process struct {
	PID  int
	root string
}

// Of returns the process called name in the container with that id; root is /proc. It is an
// error if there is not exactly one.
func Of(root, containerID, name string) (Process, error) {
	if containerID == "" {
		return Process{}, fmt.Errorf("process %s of a container without an id", name)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return Process{}, fmt.Errorf("processes: %w", err)
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process may end at any time: one that cannot be read is not the one.
		groups, _ := os.ReadFile(filepath.Join(root, e.Name(), "cgroup"))
		comm, _ := os.ReadFile(filepath.Join(root, e.Name(), "comm"))
		if strings.Contains(string(groups), containerID) && strings.TrimSpace(string(comm)) == name {
			found = append(found, Process{PID: pid, root: root})
		}
	}
	if len(found) != 1 {
		return Process{}, fmt.Errorf("%d processes called %s in container %s, want 1", len(found), name, containerID)
	}
	return found[0], nil
}

// A Memory is how much memory a process has resident.
type Memory struct {
	NowMiB  float64
	PeakMiB float64
}

// Memory reads VmRSS and VmHWM.
func (p Process) Memory() (Memory, error) {
	f, err := os.Open(filepath.Join(p.root, strconv.Itoa(p.PID), "status"))
	if err != nil {
		return Memory{}, fmt.Errorf("memory of process %d: %w", p.PID, err)
	}
	defer f.Close() //nolint:errcheck // only read
	var m Memory
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		to := map[string]*float64{"VmRSS": &m.NowMiB, "VmHWM": &m.PeakMiB}[key]
		if to == nil {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		if err != nil {
			return Memory{}, fmt.Errorf("memory of process %d: %w", p.PID, err)
		}
		*to = kib / 1024
	}
	if m.NowMiB == 0 || m.PeakMiB == 0 {
		return Memory{}, fmt.Errorf("process %d has ended", p.PID)
	}
	return m, nil
}

// CPU reads the processor time that the process has used, in user and in system mode, without that of its children.
func (p Process) CPU() (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(p.root, strconv.Itoa(p.PID), "stat"))
	if err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", p.PID, err)
	}
	// The name in parentheses may hold anything. Of the words after it the 12th and 13th are utime and stime.
	_, rest, _ := strings.Cut(string(text), "(")
	words := strings.Fields(rest[strings.LastIndexByte(rest, ')')+1:])
	if len(words) < 13 {
		return 0, fmt.Errorf("processor time of process %d: %d words", p.PID, len(words))
	}
	if words[0] == "Z" || words[0] == "X" {
		return 0, fmt.Errorf("process %d has ended", p.PID)
	}
	var sum time.Duration
	for _, word := range words[11:13] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time of process %d: %w", p.PID, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
