package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu/probe"
	"pitstop.dev/test/gpu/hardware"
)

// options are the flags.
type options struct {
	hardware.Library
	holder string
	index  int
	mib    int64
	pinned int
}

// parse reads the flags. What is wrong with them is printed to out too, with what there is.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("gpu-hardware", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&o.Probe, "probe", "bin/pitstop-gpu-probe", "path of pitstop-gpu-probe")
	fs.StringVar(&o.holder, "holder", "", "path of the holder; empty: allocate nothing")
	fs.IntVar(&o.index, "gpu", 0, "index of the GPU to allocate on")
	fs.Int64Var(&o.mib, "mib", 2048, "MiB to allocate")
	fs.IntVar(&o.pinned, "pinned", 1024, "MiB of the machine's memory to pin")
	fs.StringVar(&o.Name, "library", "libnvidia-ml.so.1", "name or path of NVIDIA's library")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("%q: want flags alone", fs.Arg(0))
	case o.index < 0:
		err = fmt.Errorf("--gpu is %d: want 0 or more", o.index)
	case o.mib < 1:
		err = fmt.Errorf("--mib is %d: want 1 or more", o.mib)
	case o.pinned < 0:
		err = fmt.Errorf("--pinned is %d: want 0 or more", o.pinned)
	case o.Name == "":
		err = errors.New("--library is empty: want the name or path of NVIDIA's library")
	}
	if err != nil {
		fmt.Fprintln(out, err)
		fs.Usage()
	}
	return o, err
}

// run checks the machine.
func (o options) run(ctx context.Context) (hardware.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 270*time.Second)
	defer cancel()
	functions, err := o.Functions(ctx)
	if err != nil {
		return hardware.Begun(), err
	}
	fmt.Fprintf(os.Stderr, "functions of %s:\n%s", o.Name, functions)
	client := probe.New(probe.Config{Path: o.Probe, Args: []string{"--library=" + o.Name}})
	running, end := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { client.Run(running) })
	defer wait.Wait()
	defer end()
	cfg := hardware.Config{
		Reader: client, Release: client.Release, Index: o.index, MiB: o.mib, Clock: clock.RealClock{}, Log: os.Stderr,
	}
	if o.holder != "" {
		cfg.Holder = []string{o.holder, strconv.Itoa(o.index), strconv.FormatInt(o.mib, 10), strconv.Itoa(o.pinned)}
	}
	return hardware.Run(ctx, cfg)
}
