package cri_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pitstop.dev/cri"
)

func TestDiscover(t *testing.T) {
	for name, tt := range map[string]struct {
		sockets, files []string
		want           string
	}{
		"containerd":                         {sockets: []string{"run/containerd/containerd.sock"}, want: "run/containerd/containerd.sock"},
		"CRI-O":                              {sockets: []string{"run/crio/crio.sock"}, want: "run/crio/crio.sock"},
		"k3s":                                {sockets: []string{"run/k3s/containerd/containerd.sock"}, want: "run/k3s/containerd/containerd.sock"},
		"a system without /run":              {sockets: []string{"var/run/crio/crio.sock"}, want: "var/run/crio/crio.sock"},
		"the first of two":                   {sockets: []string{"run/crio/crio.sock", "run/containerd/containerd.sock"}, want: "run/containerd/containerd.sock"},
		"a plain file is passed over":        {files: []string{"run/containerd/containerd.sock"}, sockets: []string{"run/crio/crio.sock"}, want: "run/crio/crio.sock"},
		"nothing there":                      {},
		"a socket of something else is none": {sockets: []string{"run/docker.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := socketDir(t)
			for _, f := range append(tt.sockets, tt.files...) {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, f)), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range tt.sockets {
				l, err := net.Listen("unix", filepath.Join(root, s))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
			}
			for _, f := range tt.files {
				if err := os.WriteFile(filepath.Join(root, f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := cri.Discover(root)
			if tt.want != "" {
				if want := "unix://" + filepath.Join(root, tt.want); got != want || err != nil {
					t.Errorf("Discover() = %q, %v, want %q", got, err, want)
				}
				return
			}
			if err == nil {
				t.Fatalf("Discover() = %q, want an error", got)
			}
			for _, tried := range []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"} {
				if !strings.Contains(err.Error(), tried) {
					t.Errorf("error %q does not name %s", err, tried)
				}
			}
		})
	}
}

// socketDir returns a folder whose path is short enough for sockets in it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri") //nolint:usetesting // a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
