// Command pitstop-coordinator decides which units of ModelServings may be worked on, and makes
// their Pods.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"            //nolint:depguard // client-go logs through it: here it is sent to our logger
	"k8s.io/klog/v2/textlogger" //nolint:depguard // a logr sink in the format of Kubernetes
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"pitstop.dev/coordinator/admission"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pitstop-coordinator:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	f := flags{}
	cmd := &cobra.Command{
		Use: "pitstop-coordinator", Short: "Decides which units of ModelServings may be worked on, and makes their Pods",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f) },
	}
	f.bind(cmd.Flags())
	return cmd
}

func run(ctx context.Context, f flags) error {
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(f.verbosity), textlogger.Output(os.Stderr)))
	klog.SetLogger(logger)
	ctrl.SetLogger(logger)
	mgr, err := f.manager()
	if err != nil {
		return err
	}
	if err := checkServer(mgr.GetConfig()); err != nil {
		return err
	}
	if err := errors.Join(
		serveModels(ctx, mgr),
		serveGroups(ctx, mgr, &f),
		admission.Setup(mgr, admission.Config{Namespace: f.namespace, Port: f.webhook}),
		mgr.AddHealthzCheck("alive", healthz.Ping),
		mgr.AddReadyzCheck("alive", healthz.Ping),
	); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return mgr.Start(ctx)
}
