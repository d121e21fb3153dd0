// Command gpu-hardware is what test/gpu/hardware.sh runs.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu/probe"
	"pitstop.dev/test/gpu/hardware"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 270*time.Second)
	defer cancel()
	path := flag.String("probe", "bin/pitstop-gpu-probe", "path of pitstop-gpu-probe")
	holder := flag.String("holder", "", "path of the holder; empty: allocate nothing")
	index := flag.Int("gpu", 0, "index of the GPU to allocate on")
	mib := flag.Int64("mib", 2048, "MiB to allocate")
	pinned := flag.Int("pinned", 1024, "MiB of the machine's memory to pin")
	library := flag.String("library", "libnvidia-ml.so.1", "name or path of NVIDIA's library")
	flag.Parse()
	client := probe.New(probe.Config{Path: *path, Args: []string{"--library=" + *library}})
	running, end := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { client.Run(running) })
	cfg := hardware.Config{
		Reader: client, Release: client.Release, Index: *index, MiB: *mib, Clock: clock.RealClock{}, Log: os.Stderr,
	}
	if *holder != "" {
		cfg.Holder = []string{*holder, strconv.Itoa(*index), strconv.FormatInt(*mib, 10), strconv.Itoa(*pinned)}
	}
	result, err := hardware.Run(ctx, cfg)
	end()
	wait.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpu-hardware:", err)
		result.Failed = append(result.Failed, err.Error())
	}
	line, marshal := json.Marshal(result)
	fmt.Fprintln(os.Stdout, string(line))
	if err != nil || marshal != nil || !result.OK {
		os.Exit(1)
	}
}
