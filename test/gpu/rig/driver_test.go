package rig

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/test/gpu/stub"
	"pitstop.dev/test/lab"
)

func TestTheLibraryListsWhatIsHeld(t *testing.T) {
	c := Config{Node: lab.Node{GPUDir: t.TempDir()}, UUIDs: []string{"a", "b"}, MiB: 1000}
	file, err := install(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(c.Node.GPUDir, stub.LibraryName)); err != nil {
		t.Error(err)
	}
	l := listed{file}
	one, leak := Held{GPU: "a", PID: 7, Start: 8, MiB: 9, Release: 20 * time.Second}, Held{GPU: "b", PID: 7, Start: 8, MiB: 9, Release: -1}
	more := one
	more.MiB = 10
	for _, h := range []Held{one, leak, more} {
		if err := l.Hold(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Drop(t.Context(), leak); err != nil {
		t.Fatal(err)
	}
	got, err := file.Read()
	want := state(c)
	want.Processes = []stub.Process{{GPU: "a", PID: 7, Start: 8, MiB: 10, Release: 20000}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, state (-want +got):\n%s", err, diff)
	}
	if p := entry(leak); p.Release != -1 {
		t.Errorf("a leak is released after %d ms", p.Release)
	}
}
