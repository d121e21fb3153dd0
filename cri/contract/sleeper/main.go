// Command sleeper is what the contract's containers and sandboxes run: it sleeps until its
// stop signal and exits with 0, or with the argument "stubborn" ignores it.
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
	for range stop {
		if !slices.Contains(os.Args[1:], "stubborn") {
			return
		}
	}
}
