// Command lab brings a real Kubernetes up and down on this machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"pitstop.dev/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	config := lab.Config{Log: os.Stderr}
	root := &cobra.Command{Use: "lab", Short: "A real Kubernetes on this machine", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringVar(&config.StateDir, "state-dir", lab.DefaultStateDir, "where the lab keeps its state")
	root.PersistentFlags().StringVar(&config.CacheDir, "cache-dir", "", "where binaries are kept (default pitstop/lab in the user's cache folder)")
	verb := func(use, short string, args cobra.PositionalArgs, run func(context.Context, []string) error) *cobra.Command {
		c := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(c *cobra.Command, args []string) error {
			return run(c.Context(), args)
		}}
		root.AddCommand(c)
		return c
	}
	up := verb("up", "Bring the lab up, or what is missing of it", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		_, err := lab.Up(ctx, config)
		return err
	})
	up.Flags().IntVar(&config.Nodes, "nodes", 2, "number of nodes")
	verb("down", "End the lab and remove all of it", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return lab.Down(ctx, config)
	})
	verb("build", "Build the binaries and start nothing", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		_, err := lab.Build(ctx, config)
		return err
	})
	verb("status", "Print what runs; fails unless all does", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return lab.Status(ctx, config, os.Stdout)
	})
	verb("kubeconfig", "Print the path of the administrator's kubeconfig", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		l, err := lab.Open(ctx, config)
		if err == nil {
			fmt.Println(l.KubeconfigPath())
		}
		return err
	})
	verb("load-image TAR REF", "Store an image from a tarball in the lab's registry and print its full reference", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			l, err := lab.Open(ctx, config)
			if err != nil {
				return err
			}
			img, err := tarball.ImageFromPath(args[0], nil)
			if err != nil {
				return err
			}
			if err := l.Push(ctx, args[1], img); err != nil {
				return err
			}
			fmt.Println(l.Registry().Ref(args[1]))
			return nil
		})
	return root
}
