// Command sim plays simulated histories of the coordinator and prints how many broke a rule, or
// replays one with everything that happened in it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"pitstop.dev/test/sim/history"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	seeds := flag.Int("seeds", 2000, "histories to play")
	first := flag.Uint64("first", 1, "the seed of the first history; the others follow")
	seed := flag.Uint64("seed", 0, "the history to replay with a trace instead")
	workers := flag.Int("workers", 2, "histories at a time")
	flag.Parse()
	debug.SetGCPercent(2000) // histories are short and make much garbage
	violations, err := run(ctx, os.Stdout, *seed, history.Many{First: *first, Count: *seeds, Workers: *workers})
	if err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(2)
	}
	if violations > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, seed uint64, many history.Many) (violations int, err error) {
	if seed == 0 {
		return history.PlayMany(ctx, out, many)
	}
	return history.Replay(ctx, out, seed)
}
