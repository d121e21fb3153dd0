package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
)

// socketPath is where the agent can be asked on its node: a folder that node and Pod share.
const socketPath = "/var/lib/pitstop/agent.sock"

// serve serves until ctx ends, on the network and, where that can be had, on a socket of the node.
func serve(ctx context.Context, f flags, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	network, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("serve %s: %w", f.listen, err)
	}
	listeners := []net.Listener{network}
	if f.socket != "" {
		local, err := listenLocal(ctx, f.socket)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Info("pitstop-agent check will not find this agent", "cause", err.Error())
		} else {
			listeners = append(listeners, local)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		g.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	return g.Wait()
}

// listenLocal listens on a socket for root alone. One that an agent before has left is replaced.
func listenLocal(ctx context.Context, path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o600)
}
