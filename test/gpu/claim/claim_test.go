package claim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"pitstop.dev/test/gpu/claim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A memory notes who asked for what, and answers err.
type memory struct {
	pid int32
	got claim.Request
	err error
}

func (m *memory) Claim(_ context.Context, pid int32, r claim.Request) error {
	m.pid, m.got = pid, r
	return m.err
}

func serve(t *testing.T, m claim.Memory) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "claim") //nolint:usetesting // a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "claims.sock")
	s, err := claim.Serve(t.Context(), socket, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return socket
}

func TestTheNodeSeesWhoAsks(t *testing.T) {
	m := &memory{}
	want := claim.Request{GPUs: []string{"GPU-a", "GPU-b"}, MiB: 7, Release: 20 * time.Second}
	if err := claim.Take(t.Context(), serve(t, m), want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, m.got); diff != "" || m.pid != int32(os.Getpid()) {
		t.Errorf("from process %d, not %d (-want +got):\n%s", m.pid, os.Getpid(), diff)
	}
}

func TestTheEngineHearsWhyNot(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		short bool
		text  string
	}{
		"no memory":   {fmt.Errorf("%w: GPU-a has 3 MiB", claim.ErrOutOfMemory), true, "out of GPU memory: GPU-a has 3 MiB"},
		"no such GPU": {errors.New("no GPU GPU-x"), false, "no GPU GPU-x"},
	} {
		t.Run(name, func(t *testing.T) {
			err := claim.Take(t.Context(), serve(t, &memory{err: tt.err}), claim.Request{})
			if errors.Is(err, claim.ErrOutOfMemory) != tt.short || err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v", err)
			}
		})
	}
	if err := claim.Take(t.Context(), filepath.Join(t.TempDir(), "none.sock"), claim.Request{}); err == nil || errors.Is(err, claim.ErrOutOfMemory) {
		t.Errorf("without a node: %v", err)
	}
}

func TestNonsenseIsAnswered(t *testing.T) {
	conn, err := net.Dial("unix", serve(t, &memory{}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "request") {
		t.Errorf("answer %q, %v", line, err)
	}
}

func TestCloseEndsWhoSaysNothing(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	s, err := claim.Serve(t.Context(), socket, &memory{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
