package attribution

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// ErrNoProcess reports that there is no process with this PID, or that it went while it was read.
var ErrNoProcess = errors.New("no such process")

const (
	// maxLine bounds the command line that is kept, which may be megabytes long.
	maxLine = 256
	// maxFile bounds what is read of any other file.
	maxFile = 64 << 10
)

// A Procfs reads processes.
type Procfs struct {
	// Root is the folder that it is mounted on: "/proc" of the host, whose PIDs NVML tells.
	Root string
}

// An Identity is what tells a process from a later one with the same PID.
type Identity struct {
	PID int32 `json:"pid"`
	// Start is when it began, in ticks since the boot.
	Start uint64 `json:"start"`
	// Boot is the id of the boot.
	Boot string `json:"boot"`
}

// A Process is what procfs says about one.
type Process struct {
	Identity
	// Command is the name of its program, at most 15 bytes.
	Command string
	// Line is the start of its command line, for people; empty of kernel threads, zombies, and processes that hang
	// in the kernel.
	Line string
	// Zombie: it has ended and its parent has not taken note.
	Zombie bool
	// Threads that are left. A zombie with more than one still holds all it held.
	Threads int
	// Cgroup is the content of its file.
	Cgroup string
}

// Boot returns the id of this boot, which differs after every one.
func (p Procfs) Boot() (string, error) {
	b, err := p.read("sys/kernel/random/boot_id", maxFile)
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if id == "" {
		return "", errors.New("boot id: empty")
	}
	return id, nil
}

// Process reads one process. All of it is of one process, and not of one that took over its PID meanwhile.
func (p Procfs) Process(pid int32) (Process, error) {
	boot, err := p.Boot()
	if err != nil {
		return Process{}, err
	}
	if pid <= 0 {
		return Process{}, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	before, err := p.stat(pid)
	if err != nil {
		return Process{}, err
	}
	cgroup, err := p.file(pid, "cgroup", maxFile)
	if err != nil {
		return Process{}, err
	}
	result := Process{
		Identity: Identity{PID: pid, Start: before.start, Boot: boot},
		Command:  printable(before.command), Cgroup: string(cgroup), Threads: before.threads,
		Zombie: before.state == 'Z' || before.state == 'X',
	}
	// The command line is in the memory of the process, whose lock a process that hangs in a driver may hold.
	if before.state != 'D' && !result.Zombie {
		line, err := p.file(pid, "cmdline", maxLine)
		if err != nil {
			return Process{}, err
		}
		result.Line = printable(strings.TrimRight(string(line), "\x00"))
	}
	after, err := p.stat(pid)
	if err != nil {
		return Process{}, err
	}
	if after.start != before.start {
		return Process{}, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	return result, nil
}

// A stat is what is used of /proc/PID/stat.
type stat struct {
	command string
	state   byte
	threads int
	start   uint64
}

func (p Procfs) stat(pid int32) (stat, error) {
	b, err := p.file(pid, "stat", maxFile)
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(string(b))
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat reads a line of /proc/PID/stat. The command may hold anything, spaces, parentheses and newlines too, but
// nothing behind it holds a parenthesis.
func parseStat(line string) (stat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("stat %.80q: no command", line)
	}
	// Fields are numbered from 1; the third is the first behind the command.
	field := strings.Fields(line[end+1:])
	if len(field) < 20 || len(field[0]) != 1 {
		return stat{}, fmt.Errorf("stat %.80q: too short", line)
	}
	threads, err := strconv.Atoi(field[20-3])
	if err != nil {
		return stat{}, fmt.Errorf("stat %.80q: threads: %w", line, err)
	}
	start, err := strconv.ParseUint(field[22-3], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("stat %.80q: start time: %w", line, err)
	}
	return stat{command: line[open+1 : end], state: field[0][0], threads: threads, start: start}, nil
}

// file reads a file of a process. Without the process the error is ErrNoProcess; a procfs that is not there is
// another error.
func (p Procfs) file(pid int32, name string, limit int64) ([]byte, error) {
	b, err := p.read(filepath.Join(strconv.Itoa(int(pid)), name), limit)
	// A process that goes between open and read answers ESRCH.
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	}
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	return b, nil
}

func (p Procfs) read(name string, limit int64) ([]byte, error) {
	f, err := os.Open(filepath.Join(p.Root, name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	var b bytes.Buffer
	_, err = b.ReadFrom(io.LimitReader(f, limit))
	return b.Bytes(), err
}

// printable makes one line of text that a process chose.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == 0:
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}
