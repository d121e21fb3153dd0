package health

import (
	"context"
	"errors"
	"sync"
)

// A guard has each thing done once at a time: what hangs is not begun again beside itself, and who comes while it is under
// way gets what it finds. The zero value is ready.
type guard[T any] struct {
	mu    sync.Mutex
	calls map[string]*call[T]
}

type call[T any] struct {
	done    chan struct{}
	stop    context.CancelFunc
	waiting int // who waits for it
	found   T
	void    bool // it was given up before it had found anything
}

// within does what has that name for at most lookFor, and reports false where it does not end with ctx. It goes on while
// anybody waits for it, whoever asked first, and its context ends when nobody does. What it finds after that is of no use to
// those who have come since: it is done again for them.
func (g *guard[T]) within(ctx context.Context, name string, do func(context.Context) T) (found T, done bool) {
	for ctx.Err() == nil {
		c := g.join(ctx, name, do)
		select {
		case <-c.done:
			if !c.void {
				return c.found, true
			}
		case <-ctx.Done():
			g.part(c)
		}
	}
	return found, false
}

func (g *guard[T]) join(ctx context.Context, name string, do func(context.Context) T) *call[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[name]; c != nil {
		c.waiting++
		return c
	}
	if g.calls == nil {
		g.calls = map[string]*call[T]{}
	}
	look, stop := context.WithTimeout(context.WithoutCancel(ctx), lookFor)
	c := &call[T]{done: make(chan struct{}), stop: stop, waiting: 1}
	g.calls[name] = c
	go func() {
		defer close(c.done)
		defer stop()
		c.found = do(look)
		c.void = errors.Is(look.Err(), context.Canceled)
		g.leave(name)
	}()
	return c
}

// part is for who waits no longer.
func (g *guard[T]) part(c *call[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.stop()
	}
}

func (g *guard[T]) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.calls, name)
}
