package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Done is the data of the event that ends a stream. A stream without it was cut.
const Done = "[DONE]"

// A Chunk is the data of every other event of a stream.
type Chunk struct {
	Version string `json:"version"` // of the engine
	Start   string `json:"start"`   // id of the engine's start: differs after every restart
	Index   int    `json:"index"`   // from 0
	Of      int    `json:"of"`      // chunks in the stream
}

// Info is the answer of /version.
type Info struct {
	Version string `json:"version"`
	Start   string `json:"start"` // id of the engine's start
	First   string `json:"first"` // id of the first start that saw the state folder
}

// Handler serves the paths that the package comment lists. They work before Run is called, but
// the engine is loaded by Run alone.
func (e *Engine) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", e.health)
	mux.HandleFunc("GET /metrics", e.metrics)
	mux.HandleFunc("GET /version", e.version)
	mux.HandleFunc("GET /v1/completions", e.completions)
	mux.HandleFunc("POST /v1/completions", e.completions)
	return mux
}

func (e *Engine) health(w http.ResponseWriter, _ *http.Request) {
	if !e.loaded.Load() {
		http.Error(w, "loading", http.StatusServiceUnavailable)
	}
}

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	// A client that has gone needs no answer.
	_ = json.NewEncoder(w).Encode(Info{Version: e.config.Version, Start: e.start, First: e.first})
}

// metrics answers as vLLM does: a scrape that comes while it loads is answered too.
func (e *Engine) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	sample := func(name, kind, help string, value int64) {
		// A client that has gone needs no answer.
		_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s{engine=\"0\",model_name=%q} %.1f\n",
			name, help, name, kind, name, e.config.Model, float64(value))
	}
	sample("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", e.running.Load())
	sample("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", e.waiting.Load())
	sample("vllm:request_success_total", "counter", "Count of successfully processed requests.", e.served.Load())
}

func (e *Engine) completions(w http.ResponseWriter, r *http.Request) {
	if !e.loaded.Load() {
		http.Error(w, "loading", http.StatusServiceUnavailable)
		return
	}
	s, err := parseStream(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// net/http notices that a client has gone only once the body is read.
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 1<<20)); err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	if !e.enter(r.Context()) {
		return
	}
	defer e.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if err := e.stream(r.Context(), w, s); err == nil {
		e.served.Add(1)
	}
}

// enter waits for a slot and reports whether the client did.
func (e *Engine) enter(ctx context.Context) bool {
	e.waiting.Add(1)
	defer e.waiting.Add(-1)
	select {
	case e.slots <- struct{}{}:
		e.running.Add(1)
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Engine) leave() {
	<-e.slots
	e.running.Add(-1)
}

// stream sends the chunks at equal distances, then the end.
func (e *Engine) stream(ctx context.Context, w http.ResponseWriter, s streamSize) error {
	out := http.NewResponseController(w)
	pause := s.duration / time.Duration(s.chunks)
	for i := range s.chunks {
		chunk, err := json.Marshal(Chunk{Version: e.config.Version, Start: e.start, Index: i, Of: s.chunks})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", chunk); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		select {
		case <-e.clock.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", Done); err != nil {
		return err
	}
	return out.Flush()
}

// streamSize is what a client asks for.
type streamSize struct {
	duration time.Duration
	chunks   int
}

func parseStream(q url.Values) (streamSize, error) {
	s := streamSize{duration: time.Second, chunks: 10}
	var err error
	if v := q.Get("duration"); v != "" {
		if s.duration, err = time.ParseDuration(v); err != nil || s.duration < 0 || s.duration > 10*time.Minute {
			return s, errors.New("duration: want 0s to 10m")
		}
	}
	if v := q.Get("chunks"); v != "" {
		if s.chunks, err = strconv.Atoi(v); err != nil || s.chunks < 1 || s.chunks > 10_000 {
			return s, errors.New("chunks: want 1 to 10000")
		}
	}
	return s, nil
}
