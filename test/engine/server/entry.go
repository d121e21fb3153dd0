package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// entryEvery is the time between two looks at the entry.
	entryEvery = 200 * time.Millisecond
	// entryMisses is how often in a row the entry does not answer where it is gone.
	entryMisses = 3
)

// A watched entry: up is closed once it has answered, lost once it is gone or another one.
type entryWatch struct {
	up, lost <-chan struct{}
	stop     func() // ends the watch and waits for its end
}

// watchEntry looks at the entry until stop. Without one the engine may load at once.
func (e *Engine) watchEntry(ctx context.Context) entryWatch {
	up, lost := make(chan struct{}), make(chan struct{})
	if e.config.Entry == "" {
		close(up)
		return entryWatch{up: up, stop: func() {}}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		start := e.awaitEntry(ctx)
		if start == "" {
			return
		}
		close(up)
		if e.config.Follow && e.entryEnds(ctx, start) {
			close(lost)
		}
	})
	return entryWatch{up: up, lost: lost, stop: func() { cancel(); wg.Wait() }}
}

// awaitEntry returns the id of the entry's start, and nothing at the end of ctx.
func (e *Engine) awaitEntry(ctx context.Context) string {
	for ctx.Err() == nil {
		if start, err := entryStart(ctx, e.config.Entry); err == nil {
			return start
		}
		e.rest(ctx)
	}
	return ""
}

// entryEnds waits until the entry is gone or another one, and reports false at the end of ctx.
func (e *Engine) entryEnds(ctx context.Context, start string) bool {
	for misses := 0; misses < entryMisses; {
		e.rest(ctx)
		now, err := entryStart(ctx, e.config.Entry)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			misses++
		case now != start:
			return true
		default:
			misses = 0
		}
	}
	return true
}

func (e *Engine) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-e.clock.After(entryEvery):
	}
}

// entryStart asks the entry which start of it answers. Its name is resolved anew each time.
func entryStart(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/version", nil)
	if err != nil {
		return "", fmt.Errorf("entry: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("entry: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var info Info
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		return "", fmt.Errorf("entry: %w", err)
	}
	if info.Start == "" {
		return "", fmt.Errorf("entry: an answer without a start")
	}
	return info.Start, nil
}
