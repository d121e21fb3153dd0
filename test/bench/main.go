// Command bench measures Pitstop on a real Kubernetes that it starts on this machine, and writes
// out/bench.json. It ends with exit code 0 also where a bound is missed, which it says loudly; with
// 1 where a scenario did not work or a streaming request failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/utils/clock"

	"pitstop.dev/test/bench/measure"
	"pitstop.dev/test/bench/report"
	"pitstop.dev/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	config := measure.Config{Out: os.Stdout, Clock: clock.RealClock{}}
	out, only := "", ""
	flag.IntVar(&config.Rounds, "rounds", 10, "rounds, each with fresh Pods")
	flag.StringVar(&only, "only", "", "measure only these, separated by commas: "+strings.Join(measure.Quantities(), " "))
	flag.StringVar(&out, "out", "out/bench.json", "file to write")
	flag.Parse()
	if only != "" {
		config.Only = strings.Split(only, ",")
	}
	if err := run(ctx, config, out); err != nil {
		fmt.Fprintln(os.Stderr, "\nbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, config measure.Config, out string) error {
	if err := config.Validate(); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, config.Out)
	if err != nil {
		return err
	}
	sheet := measure.NewSheet()
	r, err := report.Begin(ctx, c, config)
	if err != nil {
		return err
	}
	err = measure.Run(ctx, c, config, sheet)
	return errors.Join(err, r.End(sheet, err, out))
}
