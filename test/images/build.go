package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"
)

// lockRetry is how often a taken lock is tried again.
const lockRetry = 100 * time.Millisecond

// build links p, statically if it has no C, and returns the binary. The go command leaves an output alone whose
// build id is still right, so the output stays in the cache and is read under a lock.
func (b Builder) build(ctx context.Context, p program) (binary []byte, err error) {
	dir := filepath.Join(b.Cache, b.Arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, filepath.Join(dir, p.name+".lock"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	out := filepath.Join(dir, p.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags="+strings.TrimSpace("-s -w "+p.ldflags), "-o", out, p.pkg)
	cmd.Dir = b.Module
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cmp.Or(p.cgo, "0"), "GOOS=linux", "GOARCH="+b.Arch)
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	return os.ReadFile(out)
}

// lock waits for the lock on a file. It goes with the process that holds it.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, ctx.Err()), f.Close())
		case <-retry.C:
		}
	}
}

// A file is one in an image, executable by all.
type file struct {
	name    string
	content []byte
}

// layerOf is a layer with executable files, without a date.
func layerOf(files ...file) (v1.Layer, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestSpeed),
		tarball.WithCompressedCaching,
	)
	return plainLayer{l}, err
}

// plainLayer hides the layer's own descriptor, whose empty annotations a registry does not
// give back as they were.
type plainLayer struct{ v1.Layer }

// randomSource gives the same bytes for the same seed: they are padding, not secrets.
func randomSource(seed int64) rand.Source { return rand.NewSource(seed) }
