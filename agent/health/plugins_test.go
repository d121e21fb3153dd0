package health

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestDevicePluginsAreChecked(t *testing.T) {
	yes := func() (is, known bool) { return true, true }
	no := func() (is, known bool) { return false, true }
	unknown := func() (is, known bool) { return false, false }
	all, n := t.TempDir(), 0 // those of the tests below are too long for sockets
	for name, tt := range map[string]struct {
		up, down []string
		wanted   func() (is, known bool)
		want     string
	}{
		"none is needed":                          {wanted: no, want: "OK none is registered"},
		"one is needed":                           {wanted: yes, want: "Problem none is registered, and Pods of the node have devices"},
		"nobody knows whether one is needed":      {wanted: unknown, want: "Unknown none is registered, and whether Pods have devices is not known"},
		"nobody can say whether one is needed":    {want: "Unknown none is registered, and whether"},
		"one is there":                            {up: []string{"nvidia.sock"}, wanted: yes, want: "OK nvidia.sock"},
		"one is there, and nobody knows the Pods": {up: []string{"nvidia.sock"}, want: "OK nvidia.sock"},
		"one has gone":                            {down: []string{"nvidia.sock"}, wanted: yes, want: "Problem nobody serves nvidia.sock"},
		"one has gone that nobody needs":          {down: []string{"nvidia.sock"}, wanted: no, want: "Unknown nobody serves nvidia.sock, and no Pod has devices"},
		"one has gone, and nobody knows the Pods": {down: []string{"nvidia.sock"}, want: "Unknown nobody serves nvidia.sock, and whether Pods"},
		"one has gone beside another, and the Pods may have the devices of either": {
			up: []string{"nvidia.sock"}, down: []string{"rdma.sock"}, wanted: yes,
			want: "Unknown nobody serves rdma.sock, and whether Pods have its devices is not known",
		},
		"one has gone beside another, and no Pod has devices": {
			up: []string{"rdma.sock"}, down: []string{"old.sock"}, wanted: no, want: "OK rdma.sock; nobody serves old.sock",
		},
		"one has gone beside another, and nobody knows the Pods": {
			up: []string{"rdma.sock"}, down: []string{"old.sock"}, wanted: unknown, want: "Unknown nobody serves old.sock, and whether Pods",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n++
			dir := filepath.Join(all, strconv.Itoa(n))
			folder := filepath.Join(dir, "device-plugins")
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			listen(t, filepath.Join(folder, "kubelet.sock"))
			for _, s := range tt.up {
				listen(t, filepath.Join(folder, s))
			}
			for _, s := range tt.down {
				listen(t, filepath.Join(folder, s))()
			}
			status, text := CheckOfPlugins(dir, tt.wanted).Look(t.Context())
			if got := string(status) + " " + text; !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if status, text := CheckOfPlugins(t.TempDir(), yes).Look(t.Context()); status != "Unknown" {
		t.Errorf("without the folder: %s %s", status, text)
	}
}
