package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var errZombie = errors.New("process has ended")

// BootID returns an id that changes whenever the machine starts.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// Alive reports whether the process runs: the one that was recorded, not its successor
// under the same id.
func (r Record) Alive() bool {
	now, err := identify(r.Name, r.PID)
	return err == nil && now == r
}

// signal sends s through a handle, so that it cannot reach a successor.
func (r Record) signal(s unix.Signal) {
	fd, err := unix.PidfdOpen(r.PID, 0)
	if err != nil {
		return // gone
	}
	defer func() { _ = unix.Close(fd) }()
	if r.Alive() {
		_ = unix.PidfdSendSignal(fd, s, nil, 0) // it may end at any time
	}
}

func identify(name string, pid int) (Record, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Record{}, err
	}
	started, err := startTime(string(stat))
	if err != nil {
		return Record{}, fmt.Errorf("process %d: %w", pid, err)
	}
	boot, err := BootID()
	return Record{Name: name, PID: pid, Started: started, Boot: boot}, err
}

// startTime reads field 22 of a stat line; the second field may hold blanks and brackets.
func startTime(stat string) (uint64, error) {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 20 {
		return 0, fmt.Errorf("malformed stat line %q", stat)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errZombie
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Marked returns the processes that carry the group's mark, recorded or not.
func (g Group) Marked() []Record {
	var found []Record
	for _, r := range processes() {
		if environ(r.PID)[MarkVariable] == g.Mark() {
			found = append(found, r)
		}
	}
	return found
}

// processes lists all processes but this one.
func processes() []Record {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []Record
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if r, err := identify("", pid); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// environ reads the environment with which a process started; nil if it is not readable.
func environ(pid int) map[string]string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil
	}
	env := map[string]string{}
	for entry := range strings.SplitSeq(string(data), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}
