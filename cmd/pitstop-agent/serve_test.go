package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"pitstop.dev/agent/health"
)

func TestTheAgentCanBeAskedOnItsNode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path}) // an agent that was killed leaves its socket behind
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	_ = old.Close()

	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{}, 9)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		_, _ = w.Write([]byte(`{"node":"gpu-0"}`))
	})
	done := make(chan error, 1)
	go func() { done <- serve(ctx, flags{listen: "127.0.0.1:0", socket: path}, handler) }()
	for {
		s, err := health.Ask(ctx, "unix://"+path)
		if err == nil && s.Node == "gpu-0" {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
	if len(asked) == 0 {
		t.Error("nobody was asked")
	}
}

func TestASocketThatCannotBeMadeIsNoReasonToEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ctx, flags{listen: "127.0.0.1:0", socket: filepath.Join(t.TempDir(), "no", "agent.sock")}, http.NotFoundHandler()); err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestOnlyASocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenLocal(t.Context(), path); err == nil {
		t.Error("a file was replaced")
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Error("the file is gone")
	}
}
