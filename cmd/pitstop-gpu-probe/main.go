//go:build cgo && linux

// Command pitstop-gpu-probe reads NVIDIA's library for pitstop-agent, which starts it: see package wire for what they
// say to each other.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"pitstop.dev/gpu/probe/nvml"
)

func main() {
	var o nvml.Options
	flag.StringVar(&o.Library, "library", "libnvidia-ml.so.1", "name or path of NVIDIA's library")
	flag.StringVar(&o.Proc, "proc", "/proc", "where procfs is mounted")
	flag.StringVar(&o.Sys, "sys", "/sys", "where sysfs is mounted")
	symbols := flag.Bool("symbols", false, "list the functions of NVML that the probe knows, and whether the library has them; then exit")
	flag.Parse()
	if *symbols {
		lines, err := nvml.Symbols(o)
		if err != nil {
			fmt.Fprintln(os.Stderr, "pitstop-gpu-probe:", err)
			os.Exit(1)
		}
		for _, line := range lines {
			fmt.Fprintln(os.Stdout, line)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	debug.SetGCPercent(20) // it makes little garbage, and memory is for models
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "pitstop-gpu-probe:", err)
		os.Exit(1)
	}
}

// run keeps the standard output for itself: what a library prints there goes to the standard error.
func run(ctx context.Context, o nvml.Options) error {
	own, err := unix.Dup(unix.Stdout)
	if err != nil {
		return err
	}
	unix.CloseOnExec(own)
	if err := unix.Dup3(unix.Stderr, unix.Stdout, 0); err != nil {
		return err
	}
	out := os.NewFile(uintptr(own), "stdout")
	defer out.Close() //nolint:errcheck // the process ends
	return nvml.Serve(ctx, os.Stdin, out, o)
}
