// Package fake is a CRI runtime that lives in memory and serves on a real unix socket. It
// keeps state like containerd 2.4 and answers in its words: images that a test published at
// a registry of its own, sandboxes and containers that a test's kubelet makes, stops with
// grace, events. Its process can die and come back (Close, Listen) with its state kept, as a
// runtime's containers outlive it.
//
// All methods may be called at any time from any goroutine, also while it is not listening.
package fake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// A Call is one call that reached the runtime.
type Call struct {
	// Method is the last part of the gRPC method, for example "PullImage".
	Method string
	// Arg is the reference or id that it is about, or "".
	Arg string
	// At is the time on the fake's clock.
	At time.Time
}

// Events says how the runtime treats those who subscribe to its events.
type Events string

// What a runtime may do with events.
const (
	EventsOn   Events = "On"   // sent as they happen
	EventsOff  Events = "Off"  // the stream ends at once, as CRI-O's by default
	EventsLost Events = "Lost" // the stream stays open, and nothing comes
)

// A Runtime is one fake runtime.
type Runtime struct {
	clock clock.WithTicker

	mu          sync.Mutex
	server      *grpc.Server
	served      chan struct{}
	path        string
	name        string
	version     string
	calls       []Call
	fail        map[string][]error
	hang        map[string]int
	registry    map[string]Image
	held        map[string]chan struct{}
	downloads   map[string]uint64
	down        bool
	node        map[string]*nodeImage
	sandboxes   []*sandbox
	containers  []*container
	events      Events
	subscribers map[*subscriber]struct{}
	serial      int
}

// New returns a runtime that calls itself containerd v2.4.2 and does not listen yet.
func New(clk clock.WithTicker) *Runtime {
	return &Runtime{
		clock:       clk,
		name:        "containerd",
		version:     "v2.4.2",
		fail:        map[string][]error{},
		hang:        map[string]int{},
		registry:    map[string]Image{},
		held:        map[string]chan struct{}{},
		downloads:   map[string]uint64{},
		node:        map[string]*nodeImage{},
		events:      EventsOn,
		subscribers: map[*subscriber]struct{}{},
	}
}

// Start returns a runtime that listens on a socket of its own until the test ends.
func Start(tb testing.TB, clk clock.WithTicker) *Runtime {
	tb.Helper()
	dir, err := os.MkdirTemp("", "cri") //nolint:usetesting // a socket's path has 108 bytes at most
	if err != nil {
		tb.Fatal(err)
	}
	r := New(clk)
	if err := r.Listen(filepath.Join(dir, "cri.sock")); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		r.Close()
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// Listen serves on the socket at path until Close. The state is what it was.
func (r *Runtime) Listen(path string) error {
	// A dead runtime leaves its socket behind, and the next one removes it.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(r.unary),
		grpc.StreamInterceptor(r.stream),
		grpc.WaitForHandlers(true),
	)
	criv1.RegisterRuntimeServiceServer(server, &runtimeServer{r: r})
	criv1.RegisterImageServiceServer(server, &imageServer{r: r})
	served := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		_ = listener.Close()
		return fmt.Errorf("listen on %s: already listening on %s", path, r.path)
	}
	r.server, r.served, r.path = server, served, path
	go func() {
		defer close(served)
		// Serve ends with an error only when the listener breaks, which calls will show.
		_ = server.Serve(listener)
	}()
	return nil
}

// Close ends the process: calls under way break, streams end, the state stays. A second
// Close does nothing.
func (r *Runtime) Close() {
	r.mu.Lock()
	server, served := r.server, r.served
	r.server = nil
	r.mu.Unlock()
	if server == nil {
		return
	}
	server.Stop()
	<-served
}

// Restart closes and listens again on the same path.
func (r *Runtime) Restart() error {
	r.Close()
	return r.Listen(r.socket())
}

// Endpoint returns the address to dial, also while the runtime is down.
func (r *Runtime) Endpoint() string { return "unix://" + r.socket() }

func (r *Runtime) socket() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.path
}

// SetVersion changes who the runtime says it is, and with it how it fills in the image of a
// container: "containerd" before 2.3, later ones, and "cri-o" differ.
func (r *Runtime) SetVersion(name, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name, r.version = name, version
}

// FailNext makes the next calls of method return errs, one each. A nil among them lets that
// call through. Errors without a gRPC status arrive with code Unknown.
func (r *Runtime) FailNext(method string, errs ...error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail[method] = append(r.fail[method], errs...)
}

// HangNext makes the next call of method wait until its caller gives up.
func (r *Runtime) HangNext(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hang[method]++
}

// Calls returns every call so far, oldest first, those that failed included.
func (r *Runtime) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Count returns how many calls of method there were, with arg if it is not "".
func (r *Runtime) Count(method, arg string) int {
	n := 0
	for _, c := range r.Calls() {
		if c.Method == method && (arg == "" || c.Arg == arg) {
			n++
		}
	}
	return n
}

func (r *Runtime) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := r.enter(ctx, info.FullMethod, req); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (r *Runtime) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := r.enter(stream.Context(), info.FullMethod, nil); err != nil {
		return err
	}
	return handler(srv, stream)
}

// enter logs a call and plays what the test scripted for it.
func (r *Runtime) enter(ctx context.Context, fullMethod string, req any) error {
	method := fullMethod[strings.LastIndex(fullMethod, "/")+1:]
	r.mu.Lock()
	r.calls = append(r.calls, Call{Method: method, Arg: arg(req), At: r.clock.Now()})
	var err error
	if errs := r.fail[method]; len(errs) > 0 {
		err, r.fail[method] = errs[0], errs[1:]
	}
	hang := r.hang[method] > 0
	if hang {
		r.hang[method]--
	}
	r.mu.Unlock()
	if hang {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	return err
}

func arg(req any) string {
	switch q := req.(type) {
	case interface{ GetImage() *criv1.ImageSpec }:
		return q.GetImage().GetImage()
	case interface{ GetContainerId() string }:
		return q.GetContainerId()
	case interface{ GetPodSandboxId() string }:
		return q.GetPodSandboxId()
	default:
		return ""
	}
}

// id returns the next id of 64 hex digits. The caller holds the lock.
func (r *Runtime) id() string {
	r.serial++
	return digest(fmt.Sprint(r.serial))
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func notFound(format string, args ...any) error {
	return status.Errorf(codes.NotFound, format+": not found", args...)
}

func (r *Runtime) crio() bool { return r.name == "cri-o" }

// imageIDs says whether containers carry image_id: all but containerd before 2.3.
func (r *Runtime) imageIDs() bool {
	if r.name != "containerd" {
		return true
	}
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(r.version, "v"), "%d.%d", &major, &minor); err != nil {
		return true
	}
	return major > 2 || major == 2 && minor >= 3
}
