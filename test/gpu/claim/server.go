package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Memory is that of a node's GPUs.
type Memory interface {
	// Claim gives a process of this machine what it asks for, or ErrOutOfMemory and nothing.
	Claim(ctx context.Context, pid int32, r Request) error
}

// A Server is the node's side.
type Server struct {
	memory   Memory
	listener *net.UnixListener
	end      context.CancelFunc
	done     sync.WaitGroup
}

// Serve answers on a socket, which all users may use, until Close.
func Serve(ctx context.Context, socket string, m Memory) (*Server, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("claims: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	if err := os.Chmod(socket, 0o666); err != nil { // engines run as somebody else
		return nil, errors.Join(fmt.Errorf("claims: %w", err), l.Close())
	}
	live, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{memory: m, listener: l, end: end}
	s.done.Go(func() { s.accept(live) })
	return s, nil
}

// Close ends the answers. What is claimed stays claimed.
func (s *Server) Close() error {
	s.end()
	err := s.listener.Close()
	s.done.Wait()
	return err
}

func (s *Server) accept(ctx context.Context) {
	for {
		conn, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		s.done.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // what waits for the engine ends
			defer stop()
			defer func() { _ = conn.Close() }()                           // the engine has its reply
			_ = json.NewEncoder(conn).Encode(answer(s.handle(ctx, conn))) // or is gone
		})
	}
}

func (s *Server) handle(ctx context.Context, conn *net.UnixConn) error {
	var r Request
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	pid, err := peer(conn)
	if err != nil {
		return err
	}
	return s.memory.Claim(ctx, pid, r)
}

func answer(err error) reply {
	switch {
	case err == nil:
		return reply{}
	case errors.Is(err, ErrOutOfMemory):
		return reply{Short: strings.TrimPrefix(err.Error(), ErrOutOfMemory.Error()+": ")}
	default:
		return reply{Error: err.Error()}
	}
}

// peer returns the PID of who asks, as this process sees it. It is that of the process that connected.
func peer(conn *net.UnixConn) (int32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var who *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	if who.Pid <= 0 {
		return 0, errors.New("who asks is in no PID namespace of this one")
	}
	return who.Pid, nil
}
