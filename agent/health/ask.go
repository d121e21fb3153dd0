package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"pitstop.dev/agent/health/states"
)

const (
	// askFor bounds the question to the agent. Its own checks are bounded by checkFor.
	askFor = checkFor + 500*time.Millisecond
	// mostAnswer bounds what is read of the answer, in bytes.
	mostAnswer = 8 << 20
	// CheckAgent is the check that the agent answers.
	CheckAgent = "agent"
)

// Ask asks the agent for its States, at an address as unix:///var/lib/pitstop/agent.sock or http://127.0.0.1:9464.
func Ask(ctx context.Context, address string) (states.States, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	var out states.States
	transport, base := &http.Transport{DisableKeepAlives: true}, strings.TrimSuffix(address, "/") // never through a proxy
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		base = "http://agent"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+states.Path, nil)
	if err != nil {
		return out, fmt.Errorf("ask the agent: %w", err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return out, unanswered(address, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("%s answers %s", address, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(&out); err != nil {
		return out, fmt.Errorf("answer of %s: %w", address, err)
	}
	return out, nil
}

// unanswered says shortly why there is no answer: it has to fit into a line with what else is wrong.
func unanswered(address string, err error) error {
	path, local := strings.CutPrefix(address, "unix://")
	switch {
	case local && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no answer: there is no %s", path)
	case local && errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no answer: nobody serves %s", path)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", askFor)
	}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err
	}
	return fmt.Errorf("no answer: %w", err)
}

// AskOrLook returns what the agent says of its node. Where it does not answer these are the checks that can be made
// without it, and one that says so: Unknown, as a node with an agent that is restarting has no problem.
func AskOrLook(ctx context.Context, address string, local *Checks) states.States {
	looked := make(chan []states.Check, 1)
	go func() { looked <- local.Run(ctx) }()
	s, err := Ask(ctx, address)
	checks := <-looked
	if err != nil {
		s.Checks = append([]states.Check{{Name: CheckAgent, Status: states.Unknown, Message: err.Error()}}, checks...)
	}
	return s
}
