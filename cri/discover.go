package cri

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// endpoints are the standard sockets, in the order in which they are tried. /var/run comes
// last: on current systems it is a link to /run.
func endpoints() []string {
	return []string{
		"/run/containerd/containerd.sock",
		"/run/crio/crio.sock",
		"/run/k3s/containerd/containerd.sock",
		"/var/run/containerd/containerd.sock",
		"/var/run/crio/crio.sock",
	}
}

// Discover returns the endpoint of the first standard runtime socket that exists below
// root: "/" on the host, or the folder under which the host's sockets are mounted. The
// error lists what was tried. It looks and does not connect: a socket file outlives a
// runtime that is down for a moment.
func Discover(root string) (string, error) {
	var tried []string
	for _, e := range endpoints() {
		path := filepath.Join(root, e)
		info, err := os.Stat(path)
		switch {
		case err == nil && info.Mode().Type() == fs.ModeSocket:
			return "unix://" + path, nil
		case err == nil:
			tried = append(tried, path+" (not a socket)")
		case os.IsNotExist(err):
			tried = append(tried, path)
		default:
			tried = append(tried, err.Error())
		}
	}
	return "", fmt.Errorf("no container runtime socket found; tried %s", strings.Join(tried, ", "))
}
