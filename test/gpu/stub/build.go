package stub

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed lib/*.c lib/*.h
var source embed.FS

// LibraryName is what the NVIDIA driver calls it.
const LibraryName = "libnvidia-ml.so.1"

// Library compiles the library into the folder dir, without the functions that are named, and returns its path. It
// needs gcc.
func Library(ctx context.Context, dir string, without ...string) (string, error) {
	src, err := os.MkdirTemp(dir, "src-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(src) //nolint:errcheck // a rest in a folder of tests
	if err := os.CopyFS(src, source); err != nil {
		return "", err
	}
	out := filepath.Join(dir, LibraryName)
	// A process may have the old one mapped: the new one comes as another file.
	next := out + ".next"
	args := []string{"-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname," + LibraryName}
	if len(without) > 0 {
		script := filepath.Join(src, "exports")
		if err := os.WriteFile(script, []byte("{ local: "+strings.Join(without, "; ")+"; };\n"), 0o600); err != nil {
			return "", err
		}
		args = append(args, "-Wl,--version-script="+script)
	}
	args = append(args, "-o", next, filepath.Join(src, "lib", "nvml.c"), "-lpthread", "-ldl")
	if output, err := exec.CommandContext(ctx, "gcc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, output)
	}
	return out, os.Rename(next, out)
}

// Probe builds pitstop-gpu-probe of the module in the folder module into the folder dir, and returns its path. It
// needs gcc.
func Probe(ctx context.Context, module, dir string) (string, error) {
	out := filepath.Join(dir, "pitstop-gpu-probe")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w -extldflags=-Wl,-z,lazy",
		"-o", out, "./cmd/pitstop-gpu-probe")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-Wno-deprecated-declarations")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/pitstop-gpu-probe: %w\n%s", err, output)
	}
	return out, nil
}
