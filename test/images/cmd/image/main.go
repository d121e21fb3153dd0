// Command image writes a container image of this repository into a file, without a container
// engine. Run it in the root folder of the module:
//
//	go run ./test/images/cmd/image --out agent.tar agent
//
// The file is what `docker save` writes: `ctr -n k8s.io images import agent.tar`, `podman load -i
// agent.tar`, `crane push agent.tar REGISTRY/pitstop-agent:dev` take it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"pitstop.dev/test/images"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	out, tag, version, arch string
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "image (agent | coordinator | engine) --out FILE",
		Short:         "Write a container image into a file",
		Args:          cobra.ExactArgs(1),
		ValidArgs:     []string{"agent", "coordinator", "engine"},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, args []string) error { return write(c, args[0], o) },
	}
	c.Flags().StringVar(&o.out, "out", "", "file to write (required)")
	c.Flags().StringVar(&o.tag, "tag", "", "name of the image (default pitstop-WHAT:VERSION)")
	c.Flags().StringVar(&o.version, "version", "dev", "version that the program and the image's labels say")
	c.Flags().StringVar(&o.arch, "arch", "", "architecture, as in GOARCH (default this machine's)")
	return c
}

func write(c *cobra.Command, what string, o options) error {
	ctx := c.Context()
	if o.out == "" {
		return errors.New("--out is missing")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	b := images.Builder{Module: ".", Cache: filepath.Join(cache, "pitstop", "images"), Arch: o.arch}
	var img v1.Image
	repository := "pitstop-" + what
	switch what {
	case "agent":
		img, err = b.Agent(ctx, o.version)
	case "coordinator":
		img, err = b.Coordinator(ctx, o.version)
	case "engine":
		img, err = b.Engine(ctx, o.version, nil)
	default:
		return fmt.Errorf("no image %q: want agent, coordinator or engine", what)
	}
	if err != nil {
		return err
	}
	if o.tag == "" {
		o.tag = repository + ":" + o.version
	}
	tag, err := name.NewTag(o.tag)
	if err != nil {
		return fmt.Errorf("tag %s: %w", o.tag, err)
	}
	if err := tarball.WriteToFile(o.out, tag, img); err != nil {
		return err
	}
	digest, err := img.ConfigName()
	if err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), o.out, tag, digest)
	return nil
}
