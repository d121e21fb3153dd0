package health

import (
	"context"
	"sync"
)

// A guard has each thing done once at a time: what hangs is not begun again beside itself, and who comes while it is under
// way gets what it finds. The zero value is ready.
type guard[T any] struct {
	mu    sync.Mutex
	calls map[string]*call[T]
}

type call[T any] struct {
	done  chan struct{}
	found T
}

// within does what has that name, and reports false where it does not end with ctx. Then it goes on by itself.
func (g *guard[T]) within(ctx context.Context, name string, do func() T) (found T, done bool) {
	c := g.join(name, do)
	select {
	case <-c.done:
		return c.found, true
	case <-ctx.Done():
		return found, false
	}
}

func (g *guard[T]) join(name string, do func() T) *call[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[name]; c != nil {
		return c
	}
	if g.calls == nil {
		g.calls = map[string]*call[T]{}
	}
	c := &call[T]{done: make(chan struct{})}
	g.calls[name] = c
	go func() {
		defer close(c.done)
		c.found = do()
		g.leave(name)
	}()
	return c
}

func (g *guard[T]) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.calls, name)
}
