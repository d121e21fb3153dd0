package play

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/test/gpu/stub"
)

func TestWhatTheDriverIsMadeToSay(t *testing.T) {
	two := func() stub.State { return stub.State{GPUs: []stub.GPU{{UUID: "a"}, {UUID: "b", Recovery: 1}}} }
	for name, tt := range map[string]struct {
		do   func(GPUs) error
		want func(*stub.State)
		says string // part of the error
	}{
		"an XID":            {func(g GPUs) error { return g.XID(t.Context(), 1, 79) }, func(s *stub.State) { s.Events = []stub.Event{{ID: 1, GPU: "b", XID: 79}} }, ""},
		"no XID":            {func(g GPUs) error { return g.XID(t.Context(), 1, 0) }, nil, "XID 0: want 1 to 65535"},
		"no such GPU":       {func(g GPUs) error { return g.XID(t.Context(), 2, 79) }, nil, "node n has no GPU 2: there are 0 to 1"},
		"none before all":   {func(g GPUs) error { return g.XID(t.Context(), -1, 79) }, nil, "no GPU -1"},
		"an action":         {func(g GPUs) error { return g.Recovery(t.Context(), 0, "reboot") }, func(s *stub.State) { s.GPUs[0].Recovery = 2 }, ""},
		"the end of one":    {func(g GPUs) error { return g.Recovery(t.Context(), 1, "none") }, func(s *stub.State) { s.GPUs[1].Recovery = 0 }, ""},
		"no such action":    {func(g GPUs) error { return g.Recovery(t.Context(), 0, "2") }, nil, `no recovery action "2": there are bus-reset, `},
		"an action of none": {func(g GPUs) error { return g.Recovery(t.Context(), 2, "reset") }, nil, "node n has no GPU 2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := stub.File{Path: filepath.Join(dir, stub.FileName)}
			if err := file.Update(t.Context(), func(s *stub.State) { *s = two() }); err != nil {
				t.Fatal(err)
			}
			g, err := in(dir, "n")
			if err != nil {
				t.Fatal(err)
			}
			err = tt.do(g)
			if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %q", err, tt.says)
			}
			want := two()
			if tt.want != nil {
				tt.want(&want)
			}
			got, err := file.Read()
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("error %v, state (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := in(t.TempDir(), "n"); err == nil || !strings.Contains(err.Error(), "make lab-gpus") {
		t.Errorf("a node without GPUs: %v", err)
	}
}
