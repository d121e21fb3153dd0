//go:build lab

package lab_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/cgroup"
)

// getURL names the address that TestGet calls.
const getURL = "LAB_TEST_GET"

// TestGet is the process that calls from inside a Pod's network.
func TestGet(t *testing.T) {
	url := os.Getenv(getURL)
	if url == "" {
		return // nobody wants to know
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 20 { // often enough to reach every Pod, the caller's own too
		resp, err := client.Get(url)
		must(t, err)
		_ = resp.Body.Close()
	}
}

// answersInside calls a Service from the network of one of a node's servers.
func answersInside(t *testing.T, n lab.Node, address string) {
	t.Helper()
	tree, err := cgroup.Detect(cgroup.Root)
	must(t, err)
	for _, pid := range tree.Processes(n.Cgroup) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || strings.TrimSpace(string(comm)) != "server" {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", pid), "--", os.Args[0], "-test.run=^TestGet$")
		cmd.Env = append(cmd.Environ(), getURL+"=http://"+address+"/v2/")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("call from a Pod on %s: %v: %s", n.Name, err, out)
		}
		return
	}
	t.Errorf("no server runs on %s", n.Name)
}
