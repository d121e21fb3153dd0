package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"pitstop.dev/gpu/probe/wire"
)

// maxTail bounds what is kept of what the child prints to its standard error, in bytes.
const maxTail = 200

// A child is one process of pitstop-gpu-probe. It belongs to the keeper.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	// messages is closed at the end of the child's output, with garbled set if it was not what it should be.
	messages chan wire.Message
	garbled  error
	// deaf is closed when nobody takes messages any more.
	deaf chan struct{}
	// gone is closed once the process has ended and was reaped, with ended set.
	gone  chan struct{}
	ended error

	mu   sync.Mutex
	tail []byte // the end of its standard error
}

// start starts a child. Its goroutines end with it: a process that the kernel does not end keeps one of them.
func start(cfg Config) (*child, error) {
	cmd := exec.Command(cfg.Path, cfg.Args...) //nolint:noctx // it is asked to end before it is killed
	cmd.Env = append(os.Environ(), cfg.Env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{
		cmd: cmd, in: in,
		messages: make(chan wire.Message), deaf: make(chan struct{}), gone: make(chan struct{}),
	}
	var reading sync.WaitGroup
	reading.Go(func() { c.read(out) })
	reading.Go(func() { c.listen(errs) })
	go func() {
		reading.Wait() // Wait closes the pipes
		c.ended = cmd.Wait()
		close(c.gone)
	}()
	return c, nil
}

// read passes on what the child says. After the first line that is not of the protocol nothing counts.
func (c *child) read(out io.Reader) {
	defer close(c.messages)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, wire.MaxLine)
	for lines.Scan() {
		var m wire.Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			c.garbled = fmt.Errorf("it says %.60q", lines.Text())
			break
		}
		select {
		case c.messages <- m:
		case <-c.deaf:
			_, _ = io.Copy(io.Discard, out)
			return
		}
	}
	if err := lines.Err(); c.garbled == nil && errors.Is(err, bufio.ErrTooLong) {
		c.garbled = errors.New("it says a line without end")
	}
}

// listen keeps the end of the standard error: the loader says there which symbol it missed.
func (c *child) listen(errs io.Reader) {
	buffer := make([]byte, 1024)
	for {
		n, err := errs.Read(buffer)
		c.mu.Lock()
		c.tail = append(c.tail, buffer[:n]...)
		c.tail = c.tail[max(0, len(c.tail)-maxTail):]
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// say sends a request. A child that is gone is found out by its output.
func (c *child) say(r wire.Request) {
	line, err := json.Marshal(r)
	if err != nil {
		return // it has no way to fail
	}
	_, _ = c.in.Write(append(line, '\n'))
}

// obituary says how the child ended, once it is gone.
func (c *child) obituary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	how := "exit status 0"
	if c.ended != nil {
		how = c.ended.Error()
	}
	said := strings.TrimSpace(string(c.tail))
	if last := said[strings.LastIndexByte(said, '\n')+1:]; last != "" {
		how += ": " + last
	}
	return how
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func kill(pid int) error { return unix.Kill(pid, unix.SIGKILL) }
