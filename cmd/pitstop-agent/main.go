// Command pitstop-agent updates the container images of the Pods of its node in place.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"pitstop.dev/agent"
	"pitstop.dev/cri"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pitstop-agent:", err)
		os.Exit(1)
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
	cmd.AddCommand(pause())
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
	endpoint := f.runtime
	if endpoint == "" {
		var err error
		if endpoint, err = cri.Discover(f.runtimeRoot); err != nil {
			return err
		}
	}
	runtime, err := cri.Dial(endpoint, cri.Config{HostRoot: f.hostRoot})
	if err != nil {
		return err
	}
	defer runtime.Close() //nolint:errcheck // the process ends
	cfg, err := f.config(runtime)
	if err != nil {
		return err
	}
	gpus := f.gpus.reader()
	f.gpus.watch(&cfg, gpus, runtime)
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: f.listen, Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := awaitServer(ctx, cfg.API); err != nil {
			return err
		}
		return a.Run(ctx)
	})
	g.Go(func() error {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", f.listen, err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	g.Go(func() error { return runReader(ctx, gpus) })
	return g.Wait()
}
