package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"pitstop.dev/test/lab/binaries"
	"pitstop.dev/test/lab/registry"
)

// pauseImage is the repository and tag of the image of every Pod's first process.
const pauseImage = "pause:lab"

// pushPause builds and stores the pause image.
func pushPause(ctx context.Context, set binaries.Set, r *registry.Control) error {
	binary, err := os.ReadFile(set.Path("pause"))
	if err != nil {
		return err
	}
	img, err := StaticImage("/pause", binary)
	if err != nil {
		return err
	}
	return r.Push(ctx, pauseImage, img)
}

// StaticImage returns an image for this machine's platform that holds one static binary
// and runs it.
func StaticImage(path string, binary []byte) (v1.Image, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	header := &tar.Header{Name: path[1:], Mode: 0o755, Size: int64(len(binary)), Typeflag: tar.TypeReg}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", path, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config.Entrypoint = []string{path}
	return mutate.ConfigFile(img, file)
}
