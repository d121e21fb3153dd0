// Package process starts programs that outlive their caller, and ends only those.
//
// Every program is known in two ways. A record on disk holds its process id, start time
// and boot id, so that a reused id is never mistaken for it. A mark in its environment,
// which its children inherit, finds it even if no record was written.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pitstop.dev/test/lab/await"
)

// MarkVariable is the environment variable that carries the mark of a program's owner.
const MarkVariable = "PITSTOP_LAB_PROCESS"

// killLimit bounds the wait for the end of a process after SIGKILL.
const killLimit = 20 * time.Second

// A Spec says what to run.
type Spec struct {
	Name string   // names the record and the log
	Args []string // the program, a full path, and its arguments
	Env  []string // additions to the caller's environment
}

// A Record identifies one started process for as long as the machine is up.
type Record struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks after the boot
	Boot    string `json:"boot"`    // the boot id of the kernel
}

// A Group is a set of processes with one owner. Dir keeps its records (run/) and logs (log/).
type Group struct{ Dir string }

// Mark is the value of MarkVariable in every process of the group.
func (g Group) Mark() string { return g.Dir }

// Log returns the path of the log of the process called name.
func (g Group) Log(name string) string { return filepath.Join(g.Dir, "log", name+".log") }

func (g Group) record(name string) string { return filepath.Join(g.Dir, "run", name+".json") }

// daemon starts its arguments in the background; $0 is the log. The shell ends at once, so
// that the program is nobody's child but init's and leaves no zombie.
const daemon = `{ exec "$@"; } </dev/null >>"$0" 2>&1 & echo $!`

// Start runs s detached from the caller, whose end and whose context it survives.
func (g Group) Start(ctx context.Context, s Spec) (Record, error) {
	if err := g.mkdirs(); err != nil {
		return Record{}, err
	}
	args := append([]string{"-c", daemon, g.Log(s.Name)}, s.Args...)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", args...)
	cmd.Env = g.environment(cmd, s)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.Output()
	if err != nil {
		return Record{}, fmt.Errorf("start %s: %w", s.Name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return Record{}, fmt.Errorf("start %s: %w", s.Name, err)
	}
	r, err := identify(s.Name, pid)
	if err != nil {
		return Record{}, fmt.Errorf("start %s: ended at once: %w", s.Name, errors.Join(err, errors.New(g.Tail(s.Name))))
	}
	return r, g.write(r)
}

// environment is the caller's, with what s adds and the mark.
func (g Group) environment(cmd *exec.Cmd, s Spec) []string {
	return append(append(cmd.Environ(), s.Env...), MarkVariable+"="+g.Mark())
}

func (g Group) mkdirs() error {
	for _, d := range []string{"run", "log"} {
		if err := os.MkdirAll(filepath.Join(g.Dir, d), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (g Group) write(r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := g.record(r.Name) + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, g.record(r.Name))
}

// Running returns the record of the process called name, and false if it does not run.
func (g Group) Running(name string) (Record, bool) {
	data, err := os.ReadFile(g.record(name))
	if err != nil {
		return Record{}, false
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, false
	}
	return r, r.Alive()
}

// Stop ends the process called name: SIGTERM, and SIGKILL after grace. A process that does
// not run is stopped already.
func (g Group) Stop(ctx context.Context, name string, grace time.Duration) error {
	r, ok := g.Running(name)
	if !ok {
		return nil
	}
	gone := func(context.Context) error {
		if r.Alive() {
			return fmt.Errorf("process %d runs", r.PID)
		}
		return nil
	}
	if grace > 0 {
		r.signal(unix.SIGTERM)
		if await.Until(ctx, "the end of "+name, grace, gone) == nil {
			return nil
		}
	}
	r.signal(unix.SIGKILL)
	return await.Until(ctx, "the end of "+name, killLimit, gone)
}

// Tail returns the last lines of the log of the process called name.
func (g Group) Tail(name string) string {
	data, err := os.ReadFile(g.Log(name))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return fmt.Sprintf("log of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-15):], "\n"))
}

// KillMarked ends every process that Marked finds.
func (g Group) KillMarked(ctx context.Context) error {
	return await.Until(ctx, "the end of all processes of "+g.Dir, killLimit, func(context.Context) error {
		left := g.Marked()
		for _, r := range left {
			r.signal(unix.SIGKILL)
		}
		if len(left) > 0 {
			return fmt.Errorf("%d processes left, one is %d", len(left), left[0].PID)
		}
		return nil
	})
}
