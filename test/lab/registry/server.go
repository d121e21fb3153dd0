// Package registry is the image registry of a lab: in memory, on plain HTTP, and with
// faults that can be switched on while it runs.
//
// The server is a process of its own, so that it outlives whoever started the lab. A
// Control talks to it through a socket:
//
//	GET /settings    the Settings in force
//	PUT /settings    replaces them
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Settings are the faults in force. The zero value is a registry that serves everybody at
// full speed.
type Settings struct {
	Stopped        bool   `json:"stopped,omitempty"`        // refuses connections; keeps its images
	BytesPerSecond int64  `json:"bytesPerSecond,omitempty"` // limit on all answers together; 0: none
	Username       string `json:"username,omitempty"`       // with Password, asked of every client; "": nobody is asked
	Password       string `json:"password,omitempty"`
}

// A Config says where a Server is reached.
type Config struct {
	Address string    // host:port of the registry
	Socket  string    // path of the control socket
	Blobs   string    // folder for the layers
	Log     io.Writer // one line per request
}

// A Server is one registry with its control.
type Server struct {
	config  Config
	handler http.Handler

	mu       sync.Mutex
	settings Settings
	serving  *http.Server // nil while stopped
	limit    *limit
}

// New returns a server that serves nothing yet. Run makes the folder for the layers.
func New(c Config) *Server {
	s := &Server{config: c, limit: &limit{}}
	s.handler = s.authenticate(registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(c.Blobs)),
		registry.Logger(log.New(c.Log, "", log.LstdFlags|log.Lmicroseconds)),
	))
	return s
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if err := os.MkdirAll(s.config.Blobs, 0o755); err != nil {
		return err
	}
	var lc net.ListenConfig
	socket, err := lc.Listen(ctx, "unix", s.config.Socket)
	if err != nil {
		return fmt.Errorf("listen for control: %w", err)
	}
	if err := s.apply(ctx, Settings{}); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /settings", s.show)
	mux.HandleFunc("PUT /settings", s.change)
	control := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = control.Close() })
	defer stop()
	defer func() { _ = s.apply(context.WithoutCancel(ctx), Settings{Stopped: true}) }()
	if err := control.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) show(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(s.settings) // a client that is gone wants no answer
}

func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	var settings Settings
	if err := json.NewDecoder(r.Body).Decode(&settings); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.apply(r.Context(), settings); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// apply brings the server into the state that settings describe. A stop cuts connections.
func (s *Server) apply(ctx context.Context, settings Settings) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit.set(settings.BytesPerSecond)
	switch {
	case settings.Stopped && s.serving != nil:
		_ = s.serving.Close() // what it cut off is what was asked for
		s.serving = nil
	case !settings.Stopped && s.serving == nil:
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", s.config.Address)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		s.serving = &http.Server{Handler: s.handler, ReadHeaderTimeout: time.Minute}
		go func(h *http.Server) { _ = h.Serve(slowListener{l, s.limit}) }(s.serving) // ends with Close
	}
	s.settings = settings
	return nil
}

func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		want := s.settings
		s.mu.Unlock()
		user, password, _ := r.BasicAuth()
		if want.Username != "" && (user != want.Username || password != want.Password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}
