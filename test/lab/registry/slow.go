package registry

import (
	"context"
	"net"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// chunk is the most that is written between two looks at the limit.
const chunk = 16 << 10

// A limit is shared by all connections, also by those that were open when it changed.
type limit struct{ limiter atomic.Pointer[rate.Limiter] }

func (l *limit) set(bytesPerSecond int64) {
	if bytesPerSecond <= 0 {
		l.limiter.Store(nil)
		return
	}
	l.limiter.Store(rate.NewLimiter(rate.Limit(bytesPerSecond), chunk))
}

type slowListener struct {
	net.Listener
	limit *limit
}

// Accept returns a connection whose writes keep to the limit.
func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends with the connection
	return &slowConn{Conn: c, limit: l.limit, ctx: ctx, cancel: cancel}, nil
}

type slowConn struct {
	net.Conn
	limit  *limit
	ctx    context.Context //nolint:containedctx // the life of the connection
	cancel context.CancelFunc
}

// Write sends p in chunks, each when the limit allows it.
func (c *slowConn) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		part := p[sent:min(len(p), sent+chunk)]
		if l := c.limit.limiter.Load(); l != nil {
			if err := l.WaitN(c.ctx, len(part)); err != nil {
				return sent, net.ErrClosed
			}
		}
		n, err := c.Conn.Write(part)
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// Close also ends a write that waits for the limit.
func (c *slowConn) Close() error {
	c.cancel()
	return c.Conn.Close()
}
