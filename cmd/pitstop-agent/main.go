// Command pitstop-agent updates the container images of the Pods of its node in place.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"pitstop.dev/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		if _, said := errors.AsType[checkError](err); !said {
			fmt.Fprintln(os.Stderr, "pitstop-agent:", err)
		}
		os.Exit(exitCode(err))
	}
}

func command() *cobra.Command {
	f := flags{}
	cmd := &cobra.Command{
		Use: "pitstop-agent", Short: "Updates container images of this node's Pods in place",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f) },
	}
	f.bind(cmd.Flags())
	cmd.AddCommand(pause(), check())
	return cmd
}

// pause is what a pin Pod runs: it keeps its image in use until it is told to stop.
func pause() *cobra.Command {
	return &cobra.Command{
		Use: "pause", Short: "Does nothing until it is told to stop: what pin Pods run", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}

func run(ctx context.Context, f flags) error {
	logger := newLogger(f.verbosity)
	redirectClientLogs(logger)
	ctx = logr.NewContext(ctx, logger)
	runtime, err := f.dial()
	if err != nil {
		return err
	}
	defer runtime.Close() //nolint:errcheck // the process ends
	cfg, err := f.config(runtime)
	if err != nil {
		return err
	}
	cfg.AwaitServer = func(ctx context.Context) error { return awaitServer(ctx, cfg.API) }
	gpus := f.gpus.sources(cfg, runtime)
	if err := f.health.watch(&cfg, gpus); err != nil {
		return err
	}
	f.gpus.watch(&cfg, gpus)
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return serve(ctx, f, a.Handler()) })
	g.Go(func() error { return gpus.run(ctx) })
	return g.Wait()
}
