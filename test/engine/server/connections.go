package server

import (
	"net"
	"net/http"
	"sync"
)

// connections knows which connections have a request under way, from its first byte until its
// answer is written out whole.
type connections struct {
	mu     sync.Mutex
	active map[net.Conn]struct{}
	idle   chan struct{} // to be closed when there are none; nil: not asked for
}

// track is the ConnState hook of an http.Server.
func (c *connections) track(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == http.StateActive {
		c.active[conn] = struct{}{}
		return
	}
	delete(c.active, conn)
	if len(c.active) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// none returns a channel that is closed once no connection has a request.
func (c *connections) none() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := make(chan struct{})
	if len(c.active) == 0 {
		close(idle)
	} else {
		c.idle = idle
	}
	return idle
}
