package images_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"pitstop.dev/test/engine/server"
	"pitstop.dev/test/images"
)

// TestImages builds the binary once for all of its parts.
func TestImages(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	b := images.Builder{Module: root, Cache: t.TempDir()}
	t.Run("engine", func(t *testing.T) { testEngine(t, b) })
	t.Run("index", func(t *testing.T) { testIndex(t, b) })
	t.Run("another platform", func(t *testing.T) { testAnotherPlatform(t, b) })
	t.Run("the GPU probe", func(t *testing.T) { testProbe(t, b) })
	t.Run("the program is itself", func(t *testing.T) { testProgram(t, b) })
	b.Module = t.TempDir()
	if _, err := b.Engine(t.Context(), "v1", nil); err == nil || !strings.Contains(err.Error(), "test/engine") {
		t.Errorf("error %v from an empty module", err)
	}
}

func digest(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	h, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func testEngine(t *testing.T, b images.Builder) {
	t.Helper()
	build := func(version string, env map[string]string) v1.Image {
		t.Helper()
		img, err := b.Engine(t.Context(), version, env)
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	a := build("v1", nil)
	if err := validate.Image(a); err != nil {
		t.Error(err)
	}
	if digest(t, a) != digest(t, build("v1", nil)) {
		t.Error("two builds of one version differ")
	}
	if digest(t, a) == digest(t, build("v2", nil)) {
		t.Error("two versions are one image")
	}
	slow := build("v1", map[string]string{server.EnvLoad: "3s"})
	file, err := slow.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{server.EnvLoad + "=3s", server.EnvVersion + "=v1"}; !slices.Equal(file.Config.Env, want) {
		t.Errorf("environment %q, want %q", file.Config.Env, want)
	}
	if file.OS != "linux" || file.Architecture != runtime.GOARCH || file.Config.Entrypoint[0] != "/engine" {
		t.Errorf("configuration %+v", file)
	}
	isStatic(t, a, "engine")
	padded(t, a)
	if _, err := b.Engine(t.Context(), "v1", map[string]string{server.EnvLoad: "3"}); err == nil {
		t.Error("a knob without a unit was built in")
	}
}

func padded(t *testing.T, a v1.Image) {
	t.Helper()
	big, err := images.Padded(a, 2, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := images.Padded(a, 2, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := images.Padded(a, 2, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	if digest(t, big) != digest(t, again) || digest(t, big) == digest(t, other) {
		t.Error("padding does not follow its seed")
	}
	if err := validate.Image(big); err != nil {
		t.Error(err)
	}
	layers, err := big.Layers()
	if err != nil || len(layers) != 3 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	if mt, err := layers[2].MediaType(); mt != types.OCILayer || err != nil {
		t.Errorf("media type %s, %v: a runtime cannot unpack it", mt, err)
	}
	if n, err := layers[2].Size(); n < 3<<20 || err != nil {
		t.Errorf("layer of %d bytes, %v", n, err)
	}
}

// isStatic checks that the only file is an executable that needs nothing beside it.
func isStatic(t *testing.T, img v1.Image, name string) {
	t.Helper()
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	files := tar.NewReader(content)
	header, err := files.Next()
	if err != nil || header.Name != name || header.Mode != 0o755 {
		t.Fatalf("file %+v, %v", header, err)
	}
	binary, err := io.ReadAll(files)
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if libraries, err := program.ImportedLibraries(); len(libraries) > 0 || err != nil {
		t.Errorf("linked to %q, %v", libraries, err)
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("more than one file: %v", err)
	}
}

func testIndex(t *testing.T, b images.Builder) {
	t.Helper()
	img, err := b.Bad(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	index, err := images.Index(img)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Errorf("index %+v, %v", manifest, err)
	}
}

func testAnotherPlatform(t *testing.T, b images.Builder) {
	t.Helper()
	b.Arch = map[string]string{"amd64": "arm64"}[runtime.GOARCH]
	if b.Arch == "" {
		b.Arch = "amd64"
	}
	img, err := b.Engine(t.Context(), "v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if file, err := img.ConfigFile(); err != nil || file.Architecture != b.Arch {
		t.Errorf("configuration %+v, %v", file, err)
	}
	isStatic(t, img, "engine")
}

func testProgram(t *testing.T, b images.Builder) {
	t.Helper()
	if _, err := b.Engine(t.Context(), "v1", nil); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(b.Cache, runtime.GOARCH, "engine"))
	cmd.Env = []string{server.EnvCrashTimes + "=1"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), server.EnvState) {
		t.Errorf("engine with a bad environment: %v\n%s", err, out)
	}
}

// testProbe runs the probe with nothing but what its layer has.
func testProbe(t *testing.T, b images.Builder) {
	t.Helper()
	layer, err := b.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	root := t.TempDir()
	var loader, libraries string
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, header.Name)
		data, err := io.ReadAll(files)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o755)); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(filepath.Base(path), "ld-"):
			loader = path
		case filepath.Base(path) == "libc.so.6":
			libraries = filepath.Dir(path)
		}
	}
	cmd := exec.CommandContext(t.Context(), loader, "--inhibit-cache", "--library-path", libraries,
		filepath.Join(root, "pitstop-gpu-probe"), "--library=libnone.so", "--proc="+root)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `{"hello":{"protocol":1,"state":"Absent"`) {
		t.Errorf("probe: %v\n%s", err, out)
	}
	t.Setenv("PATH", filepath.Dir(goCommand(t)))
	if _, err := os.Stat(filepath.Join(filepath.Dir(goCommand(t)), "gcc")); err == nil {
		return // the two are in one folder here
	}
	if _, err := b.Probe(t.Context()); !errors.Is(err, images.ErrNoProbe) {
		t.Errorf("error %v without gcc", err)
	}
	b.Arch = "riscv64"
	if _, err := b.Probe(t.Context()); !errors.Is(err, images.ErrNoProbe) {
		t.Errorf("error %v for another architecture", err)
	}
}

func goCommand(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
