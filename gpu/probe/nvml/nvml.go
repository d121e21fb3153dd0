//go:build cgo && linux

// Package nvml is the probe's side of package wire: it loads NVIDIA's library and reads what it says. It is the only
// user of go-nvml and of C, and belongs into a process of its own: a call to a function that the loaded driver lacks
// ends the process, a call that hangs cannot be cancelled, and a library whose nvmlInit failed stays loaded until
// the process ends.
//
// Every function is looked up once, before the first call; those that are missing are never called.
package nvml

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/probe/wire"
)

// Options say where things are.
type Options struct {
	// Library is the name or path of NVIDIA's library.
	Library string
	// Proc is where procfs is mounted. A driver that shows itself there makes a missing library a fault.
	Proc string
	// Sys is where sysfs is mounted.
	Sys string
}

// Serve speaks package wire until it is told to shut down, its input ends or ctx does; then it lets go of NVML. It
// returns early where NVML is of no use, after a hello that says so. out must be nothing that a library could write to.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	w := &writer{out: json.NewEncoder(out)}
	lib, hello := open(o)
	hello.Protocol = wire.Protocol
	if lib == nil {
		return w.write(wire.Message{Hello: &hello})
	}
	defer lib.close()
	watch := newWatcher(lib, clock.RealClock{}, func(e gpu.Event) error { return w.write(wire.Message{Event: &e}) })
	watch.prepare()
	if err := w.write(wire.Message{Hello: &hello}); err != nil {
		return err
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { watch.run(stop) })
	defer watching.Wait()
	defer close(stop)
	requests, failed := listen(in)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case r := <-requests:
			switch r.Verb {
			case wire.Shutdown:
				return nil
			case wire.Read:
				reading := lib.read()
				reading.Unmonitored = watch.blind()
				if err := w.write(wire.Message{ID: r.ID, Reading: &reading}); err != nil {
					return err
				}
			default:
				return fmt.Errorf("unknown verb %q", r.Verb)
			}
		}
	}
}

// listen reads requests until the input ends, which is no error. Its goroutine lives until then.
func listen(in io.Reader) (<-chan wire.Request, <-chan error) {
	requests, failed := make(chan wire.Request), make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			var r wire.Request
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				failed <- fmt.Errorf("request: %w", err)
				return
			}
			requests <- r
		}
		failed <- lines.Err()
	}()
	return requests, failed
}

// A writer writes whole lines, from the watcher too.
type writer struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (w *writer) write(m wire.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(m)
}
