package images

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ErrNoProbe reports that the GPU probe cannot be built here.
var ErrNoProbe = errors.New("the GPU probe needs gcc and an image for this machine's architecture")

// Probe is a layer with /pitstop-gpu-probe and what it needs to run in an empty image: the loader and the C library of
// this machine. NVIDIA's library, which it loads, wants some more of the C library's parts.
func (b Builder) Probe(ctx context.Context) (v1.Layer, error) {
	b.Arch = cmp.Or(b.Arch, runtime.GOARCH)
	if b.Arch != runtime.GOARCH {
		return nil, fmt.Errorf("%w: %s, not %s", ErrNoProbe, runtime.GOARCH, b.Arch)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoProbe, err)
	}
	p := program{name: "pitstop-gpu-probe", pkg: "./cmd/pitstop-gpu-probe", cgo: "1", ldflags: "-extldflags=-Wl,-z,lazy"}
	binary, err := b.build(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", p.pkg, err)
	}
	needs, err := needed(binary)
	if err != nil {
		return nil, fmt.Errorf("libraries of %s: %w", p.name, err)
	}
	return layerOf(append([]file{{p.name, binary}}, needs...)...)
}

// wanted are the libraries that NVIDIA's is linked to.
func wanted() []string {
	return []string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
}

// needed are the loader that binary names and the libraries, where the loader looks for them: beside itself.
func needed(binary []byte) ([]file, error) {
	program, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return nil, err
	}
	imports, err := program.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	loader, err := interpreter(program)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(loader)
	if err != nil {
		return nil, err
	}
	files := []file{{strings.TrimPrefix(loader, "/"), content}}
	resolved, err := filepath.EvalSymlinks(loader)
	if err != nil {
		return nil, err
	}
	libraries := slices.Concat(imports, wanted())
	slices.Sort(libraries)
	for _, name := range slices.Compact(libraries) {
		path := filepath.Join(filepath.Dir(resolved), name)
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(imports, name) {
			continue // newer C libraries have all in one
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file{strings.TrimPrefix(path, "/"), content})
	}
	return files, nil
}

// interpreter is the loader that a program asks for.
func interpreter(program *elf.File) (string, error) {
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			path, err := io.ReadAll(p.Open())
			return strings.TrimRight(string(path), "\x00"), err
		}
	}
	return "", errors.New("it is static")
}
