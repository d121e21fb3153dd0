package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// tether runs its arguments and kills them once its input ends; $0 is the log.
const tether = `{ exec "$@"; } </dev/null >>"$0" 2>&1 & p=$!; echo $p; read -r _; kill -9 $p; wait $p`

// A Tethered process ends with the process that started it, however that ends.
type Tethered struct {
	Record
	cmd  *exec.Cmd
	hold *os.File // the process lives as long as this is open
}

// StartTethered runs s until Stop is called or the caller has died.
func (g Group) StartTethered(ctx context.Context, s Spec) (*Tethered, error) {
	if err := g.mkdirs(); err != nil {
		return nil, err
	}
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	args := append([]string{"-c", tether, g.Log(s.Name)}, s.Args...)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", args...)
	cmd.Env = append(cmd.Environ(), MarkVariable+"="+g.Mark())
	cmd.Env = append(cmd.Env, s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdin = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	t := &Tethered{cmd: cmd, hold: hold}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Stop()
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Stop()
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	if t.Record, err = identify(s.Name, pid); err != nil {
		t.Stop()
		return nil, fmt.Errorf("start %s: %w\n%s", s.Name, err, g.Tail(s.Name))
	}
	return t, g.write(t.Record)
}

// Stop kills the process and returns after its end.
func (t *Tethered) Stop() {
	_ = t.hold.Close()
	_ = t.cmd.Wait() // its status is that of a killed process
}
