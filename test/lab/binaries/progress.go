package binaries

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// progress counts the packages that the Go tool names and prints how far it got.
type progress struct {
	log  io.Writer
	what string

	clock    clock.WithTicker
	begin    time.Time
	mu       sync.Mutex
	packages int
}

func newProgress(log io.Writer, what string) *progress {
	c := clock.RealClock{}
	return &progress{log: log, what: what, clock: c, begin: c.Now()}
}

// Write counts lines.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packages += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

// start prints a line now and at every interval until stop is called, which prints the last.
func (p *progress) start() (stop func()) {
	_, _ = fmt.Fprintf(p.log, "building %s\n", p.what)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := p.clock.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C():
				p.line("building")
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
		p.line("built")
	}
}

func (p *progress) line(verb string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.log, "%s %s: %s, %d packages compiled\n",
		verb, p.what, p.clock.Since(p.begin).Round(time.Second), p.packages)
}
