package hardware_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pitstop.dev/test/gpu/hardware"
	"pitstop.dev/test/gpu/stub"
)

func TestWhyALibraryCannotBeLoaded(t *testing.T) {
	dir := t.TempDir()
	library, err := stub.Library(t.Context(), dir, "nvmlDeviceGetFieldValues")
	if err != nil {
		t.Fatal(err)
	}
	path, err := stub.Probe(t.Context(), filepath.Join("..", "..", ".."), dir)
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("no library\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		l    hardware.Library
		says string
		want string // part of the error; empty: none
	}{
		"it is there":                  {hardware.Library{Probe: path, Name: library}, "nvmlInit", ""},
		"a path that is not there":     {hardware.Library{Probe: path, Name: "/nope.so"}, "", "--library is /nope.so: no such file"},
		"a file that is none":          {hardware.Library{Probe: path, Name: text}, "", "--library is " + text + ": it cannot be loaded: "},
		"a name that nobody knows":     {hardware.Library{Probe: path, Name: "libnope.so.1"}, "", "libnope.so.1 cannot be loaded: this machine has no GPU, or no driver"},
		"a probe that cannot be begun": {hardware.Library{Probe: "/nope/probe", Name: library}, "", "--probe is /nope/probe: "},
	} {
		t.Run(name, func(t *testing.T) {
			says, err := tt.l.Functions(t.Context())
			if (err != nil) != (tt.want != "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if !strings.Contains(says, tt.says) {
				t.Errorf("it says %q", says)
			}
		})
	}
}

// TestTheScriptSaysWhatItTakes before it builds anything.
func TestTheScriptSaysWhatItTakes(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "bash", filepath.Join("..", "hardware.sh"), "--mib", "10", "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--gpu INDEX") || strings.Contains(string(out), "#") {
		t.Errorf("%v: %s", err, out)
	}
}
