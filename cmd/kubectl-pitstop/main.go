// Kubectl-pitstop lets an operator update a Pod in place, watch it, understand why it waits,
// and keep a Pod out of traffic. Installed on the PATH it runs as `kubectl pitstop`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"pitstop.dev/cmd/kubectl-pitstop/verb"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := verb.Execute(ctx, os.Args[1:], verb.Env{
		Streams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Clock:   clock.RealClock{},
		NewID:   func() string { return string(uuid.NewUUID()) },
		Version: version,
		Connect: verb.Connect,
	})
	stop()
	os.Exit(code)
}
