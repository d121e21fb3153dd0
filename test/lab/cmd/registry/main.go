// Command registry runs the image registry of a lab until it is told to end.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"pitstop.dev/test/lab/registry"
)

func main() {
	config := registry.Config{Log: os.Stderr}
	command := &cobra.Command{
		Use:          "registry",
		Short:        "Serve an image registry whose faults can be switched",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return registry.New(config).Run(c.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.Address, "address", "127.0.0.1:5000", "host and port of the registry")
	flags.StringVar(&config.Socket, "socket", "", "path of the control socket")
	flags.StringVar(&config.Blobs, "blobs", "", "folder for the layers")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
