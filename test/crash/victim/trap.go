package victim

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"syscall"
)

// A trap counts the writes, leaves a trace of them, and signals its own process at one of them.
type trap struct {
	point  Point
	signal syscall.Signal
	marker string
	only   string
	trace  *os.File // nil: none

	mu  sync.Mutex
	api int
}

// newTrap returns a trap that is sprung at most once: not if the marker is there already.
func newTrap(o Options) (*trap, error) {
	t := &trap{point: o.Point, signal: syscall.SIGKILL, marker: o.Marker, only: o.Only}
	if o.Freeze {
		t.signal = syscall.SIGSTOP
	}
	if o.Marker != "" {
		switch _, err := os.Stat(o.Marker); {
		case err == nil:
			t.point = Point{}
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("marker: %w", err)
		}
	}
	if o.Trace != "" {
		var err error
		if t.trace, err = os.OpenFile(o.Trace, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
	}
	return t, nil
}

// spring signals the process. Nothing of it runs on after SIGKILL; after SIGSTOP it does where
// the signal is continued.
func (t *trap) spring() {
	if t.marker != "" {
		f, err := os.Create(t.marker)
		if err != nil {
			panic(err) // a second kill would prove something else
		}
		_ = f.Close()
	}
	t.note("killed at " + t.point.String())
	_ = syscall.Kill(syscall.Getpid(), t.signal)
	if t.signal == syscall.SIGKILL {
		select {}
	}
}

func (t *trap) note(line string) {
	if t.trace != nil {
		_, _ = t.trace.WriteString(line + "\n")
	}
}

// committed is the journal's AfterCommit.
func (t *trap) committed(n int) {
	p := Point{Kind: Committed, N: n}
	t.note(p.String())
	if p == t.point {
		t.spring()
	}
}

// wrap is the agent's WrapTransport. It is called once for each client; they count together.
func (t *trap) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !t.counts(req) {
			return next.RoundTrip(req)
		}
		t.mu.Lock()
		t.api++
		n := t.api
		t.mu.Unlock()
		t.note(fmt.Sprintf("%s %s %s", Point{Kind: Sent, N: n}, req.Method, req.URL.Path))
		if t.point == (Point{Kind: Sent, N: n}) {
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { t.spring() },
			}))
		}
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		t.note(fmt.Sprintf("%s %s", Point{Kind: Answered, N: n}, resp.Status))
		if t.point == (Point{Kind: Answered, N: n}) {
			t.spring()
		}
		return resp, nil
	})
}

func (t *trap) counts(req *http.Request) bool {
	path := strings.TrimSuffix(req.URL.Path, "/status")
	return req.Method != http.MethodGet && (t.only == "" || strings.HasSuffix(path, "/"+t.only)) &&
		!strings.Contains(path, "/leases") && !strings.Contains(path, "/events")
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
