package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// leash starts its arguments and kills them once its input ends; $0 is the log.
const leash = `{ exec "$@"; } </dev/null >>"$0" 2>&1 & p=$!; echo $p; read -r _; kill -9 $p; wait $p`

// ownerVariable tells who started a tethered process.
const ownerVariable = "PITSTOP_LAB_OWNER"

// A Tether is a Group whose processes end with the one that started them, however that
// ends. What these started themselves may stay, and bears the mark.
type Tether struct {
	Group

	mu   sync.Mutex
	held map[string]*leashed
}

// leashed is a process as long as hold is open.
type leashed struct {
	shell *exec.Cmd
	hold  *os.File
}

// end kills the process and returns after its end.
func (l *leashed) end() {
	_ = l.hold.Close()
	_ = l.shell.Wait() // its status is that of a killed process
}

// NewTether returns an empty group that keeps its files in dir.
func NewTether(dir string) *Tether {
	return &Tether{Group: Group{Dir: dir}, held: map[string]*leashed{}}
}

// Start runs s until Stop, Close or the end of this process.
func (t *Tether) Start(ctx context.Context, s Spec) (Record, error) {
	if err := t.mkdirs(); err != nil {
		return Record{}, err
	}
	l, pid, err := t.leash(ctx, s)
	if err != nil {
		return Record{}, fmt.Errorf("start %s: %w", s.Name, err)
	}
	t.mu.Lock()
	t.held[s.Name] = l
	t.mu.Unlock()
	r, err := identify(s.Name, pid)
	if err != nil {
		return Record{}, fmt.Errorf("start %s: ended at once: %w\n%s", s.Name, err, t.Tail(s.Name))
	}
	return r, t.write(r)
}

func (t *Tether) leash(ctx context.Context, s Spec) (*leashed, int, error) {
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = in.Close() }()
	args := append([]string{"-c", leash, t.Log(s.Name)}, s.Args...)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", args...)
	owner, err := identify("", os.Getpid())
	if err != nil {
		_ = hold.Close()
		return nil, 0, err
	}
	cmd.Env = append(t.environment(cmd, s), fmt.Sprintf("%s=%d:%d", ownerVariable, owner.PID, owner.Started))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdin = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		_ = hold.Close()
		return nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		_ = hold.Close()
		return nil, 0, err
	}
	l := &leashed{shell: cmd, hold: hold}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		l.end()
		return nil, 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		l.end()
		return nil, 0, err
	}
	return l, pid, nil
}

// Stop ends the process called name, as Group.Stop does.
func (t *Tether) Stop(ctx context.Context, name string, grace time.Duration) error {
	err := t.Group.Stop(ctx, name, grace)
	t.mu.Lock()
	l := t.held[name]
	delete(t.held, name)
	t.mu.Unlock()
	if l != nil {
		l.end()
	}
	return err
}

// Close kills all processes of the group.
func (t *Tether) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, l := range t.held {
		l.end()
		delete(t.held, name)
	}
}

// Orphans returns the groups of Tethers whose owner has ended while something of theirs
// still runs.
func Orphans() []Group {
	var orphans []Group
	for _, r := range processes() {
		env := environ(r.PID)
		var owner Record
		_, err := fmt.Sscanf(env[ownerVariable], "%d:%d", &owner.PID, &owner.Started)
		owner.Boot = r.Boot
		g := Group{Dir: env[MarkVariable]}
		if err == nil && g.Dir != "" && !owner.Alive() && !slices.Contains(orphans, g) {
			orphans = append(orphans, g)
		}
	}
	return orphans
}
