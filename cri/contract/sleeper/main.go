// Command sleeper is what the contract's containers and sandboxes run: it sleeps until its
// stop signal and exits with 0, or with the argument "stubborn" ignores it. It makes the file
// /ready once it does so: a signal before that would simply end it.
package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if err := os.WriteFile("/ready", nil, 0o600); err != nil {
		os.Exit(1)
	}
	for range stop {
		if !slices.Contains(os.Args[1:], "stubborn") {
			return
		}
	}
}
