// Package images builds the container images of this repository without a container engine: a
// static binary in an empty image, and for the agent the GPU probe with this machine's libc. Equal input gives an equal digest, so that an alias is the
// same image pushed under a second tag.
package images

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"pitstop.dev/test/engine/server"
)

// nobody runs what needs no rights: a number, since an empty image has no /etc/passwd.
const nobody = "65532:65532"

// A Builder builds binaries and puts them into images. Its methods may be called from several
// goroutines and processes; those that share a Cache wait for each other.
type Builder struct {
	Module string // root folder of this module
	Cache  string // folder for binaries; a binary is linked anew only if its source changed
	Arch   string // GOARCH of the images; empty: this machine's
}

// Engine is the test engine at a version, with more knobs in env: names of package server, such
// as server.EnvLoad. The environment is part of the image, so that each is another image.
func (b Builder) Engine(ctx context.Context, version string, env map[string]string) (v1.Image, error) {
	env = maps.Clone(env)
	if env == nil {
		env = map[string]string{}
	}
	env[server.EnvVersion] = version
	if _, err := server.FromEnv(func(k string) (string, bool) { v, ok := env[k]; return v, ok }); err != nil {
		return nil, fmt.Errorf("engine %s: %w", version, err)
	}
	return b.image(ctx, program{
		name: "engine", pkg: "./test/engine", title: "Pitstop test engine",
		version: version, env: env, user: nobody, ports: []string{"8000/tcp"},
	})
}

// Bad is an engine that crashes at every start, before it serves.
func (b Builder) Bad(ctx context.Context, version string) (v1.Image, error) {
	return b.Engine(ctx, version, map[string]string{server.EnvCrashAfter: "0s"})
}

// Agent is the pitstop-agent with the GPU probe beside it, where that can be built: see Probe. It runs as root, since
// the runtime's socket is root's.
func (b Builder) Agent(ctx context.Context, version string) (v1.Image, error) {
	img, err := b.image(ctx, program{
		name: "pitstop-agent", pkg: "./cmd/pitstop-agent", title: "Pitstop agent",
		version: version, ldflags: "-X main.version=" + version, user: "0:0", ports: []string{"9464/tcp"},
	})
	if err != nil {
		return nil, err
	}
	probe, err := b.Probe(ctx)
	if errors.Is(err, ErrNoProbe) {
		fmt.Fprintf(os.Stderr, "\nWARNING: the image of the agent has NO GPU PROBE, so that GPUs are unknown to it: %v\n\n", err)
		return img, nil
	}
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(img, probe)
}

// Coordinator is the pitstop-coordinator. It runs as nobody.
func (b Builder) Coordinator(ctx context.Context, version string) (v1.Image, error) {
	return b.image(ctx, program{
		name: "pitstop-coordinator", pkg: "./cmd/pitstop-coordinator", title: "Pitstop coordinator",
		version: version, ldflags: "-X main.version=" + version, user: "65532:65532", ports: []string{"9465/tcp", "9466/tcp"},
	})
}

// Padded is img with layers more layers of mib MiB each, that cannot be compressed: something to
// pull. The padding depends on its size and on seed alone.
func Padded(img v1.Image, layers, mib int, seed int64) (v1.Image, error) {
	for i := range layers {
		source := random.WithSource(randomSource(seed + int64(i)))
		layer, err := random.Layer(int64(mib)<<20, types.OCILayer, source) // it is compressed, if to no effect
		if err != nil {
			return nil, fmt.Errorf("padding: %w", err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, fmt.Errorf("padding: %w", err)
		}
	}
	return img, nil
}

// Index is one reference to images of several platforms. With images of other platforms only, a
// runtime finds nothing in it for its own.
func Index(images ...v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, img := range images {
		file, err := img.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: file.OS, Architecture: file.Architecture}},
		})
	}
	return index, nil
}

// image builds p and puts it into an empty image.
func (b Builder) image(ctx context.Context, p program) (v1.Image, error) {
	if b.Arch == "" {
		b.Arch = runtime.GOARCH
	}
	binary, err := b.build(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", p.pkg, err)
	}
	layer, err := layerOf(file{p.name, binary})
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", p.pkg, err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", p.pkg, err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", p.pkg, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", b.Arch
	file.Config = p.config()
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return nil, fmt.Errorf("image of %s: %w", p.pkg, err)
	}
	return img, nil
}

// A program is what an image holds.
type program struct {
	name, pkg, title, version, ldflags string
	cgo                                string // "1": it has C, and is linked dynamically
	env                                map[string]string
	user                               string
	ports                              []string
}

func (p program) config() v1.Config {
	c := v1.Config{
		Entrypoint: []string{"/" + p.name},
		User:       p.user,
		Labels: map[string]string{
			"org.opencontainers.image.title":   p.title,
			"org.opencontainers.image.version": p.version,
		},
		ExposedPorts: map[string]struct{}{},
	}
	for _, port := range p.ports {
		c.ExposedPorts[port] = struct{}{}
	}
	for _, k := range slices.Sorted(maps.Keys(p.env)) {
		c.Env = append(c.Env, k+"="+p.env[k])
	}
	return c
}
