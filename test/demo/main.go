// Command demo shows Pitstop at work on a real Kubernetes that it starts on this machine: an
// in-place update of a ModelServing under load, whose engines keep their GPUs, a wrong tag, and for comparison
// the same change by deletion. The GPUs are stubs. It ends with exit code 1 if anything is not as promised.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"pitstop.dev/test/demo/show"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := show.Run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}
