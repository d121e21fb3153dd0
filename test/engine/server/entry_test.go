package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/test/engine/server"
)

// An entry answers as the engine that workers belong to.
type entry struct {
	*httptest.Server
	start atomic.Value // of the engine that answers; "": none does
	asked chan struct{}
}

func newEntry(t *testing.T) *entry {
	t.Helper()
	e := &entry{asked: make(chan struct{}, 1)}
	e.start.Store("")
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case e.asked <- struct{}{}:
		default:
		}
		if start := e.start.Load(); start != "" {
			fmt.Fprintf(w, `{"version":"v1","start":%q}`, start)
			return
		}
		http.Error(w, "not here", http.StatusNotFound)
	}))
	t.Cleanup(e.Close)
	return e
}

// worker starts an engine of this configuration, and returns its URL and what its Run will return.
func worker(t *testing.T, c server.Config) (url string, ended chan error) {
	t.Helper()
	e, err := server.New(c, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() { ended <- e.Run(ctx, l) })
	t.Cleanup(func() { stop(); run.Wait() })
	return "http://" + l.Addr().String(), ended
}

func healthOf(t *testing.T, url string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func healthy(t *testing.T, url string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for healthOf(t, url) != http.StatusOK {
		select {
		case <-deadline:
			t.Fatal("the worker does not load")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestAWorkerLoadsOnceItsEntryAnswers(t *testing.T) {
	e := newEntry(t)
	c := config()
	c.Entry = e.URL
	url, _ := worker(t, c)
	<-e.asked
	<-e.asked
	if got := healthOf(t, url); got != http.StatusServiceUnavailable {
		t.Errorf("health %d while the entry does not answer", got)
	}
	e.start.Store("one")
	healthy(t, url)
	e.start.Store("two")
	<-e.asked // by then it would have seen another one
	if got := healthOf(t, url); got != http.StatusOK {
		t.Errorf("health %d of a worker that does not follow", got)
	}
}

func TestAWorkerEndsWithItsEntry(t *testing.T) {
	for name, then := range map[string]func(*entry){
		"started anew": func(e *entry) { e.start.Store("two") },
		"gone":         func(e *entry) { e.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEntry(t)
			e.start.Store("one")
			c := config()
			c.Entry, c.Follow = e.URL, true
			url, ended := worker(t, c)
			healthy(t, url)
			then(e)
			select {
			case err := <-ended:
				if !errors.Is(err, server.ErrEntryLost) {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the worker goes on without its entry")
			}
		})
	}
}
