package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/binaries"
	"pitstop.dev/test/lab/process"
	"pitstop.dev/test/lab/registry"
)

// registrySpec runs the registry that r controls, with its files in dir.
func registrySpec(set binaries.Set, r *registry.Control, dir string) process.Spec {
	return process.Spec{Name: imageRegistry, Args: []string{
		set.Path("registry"),
		"--address=" + r.Address,
		"--socket=" + filepath.Join(dir, "control.sock"),
		"--blobs=" + filepath.Join(dir, "blobs"),
	}}
}

// startRegistry starts a registry and waits until it serves.
func startRegistry(ctx context.Context, g programs, set binaries.Set, r *registry.Control, dir string) error {
	if err := cleanRegistry(dir); err != nil {
		return err
	}
	if _, err := g.Start(ctx, registrySpec(set, r, dir)); err != nil {
		return err
	}
	return awaitRegistry(ctx, g, r)
}

// cleanRegistry removes what a dead registry left: its socket, and layers without images.
func cleanRegistry(dir string) error {
	err := os.Remove(filepath.Join(dir, "control.sock"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	blobs := filepath.Join(dir, "blobs")
	return errors.Join(os.RemoveAll(blobs), os.MkdirAll(blobs, 0o755))
}

func awaitRegistry(ctx context.Context, g programs, r *registry.Control) error {
	err := await.Until(ctx, "the registry", registryLimit, func(ctx context.Context) error {
		_, err := r.Settings(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, g.Tail(imageRegistry))
	}
	return nil
}
