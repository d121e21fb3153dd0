package main

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"pitstop.dev/gpu/probe"
)

// gpuFlags say how the node's GPUs are read.
type gpuFlags struct {
	probe, library string
}

func (f *gpuFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.probe, "gpu-probe", "/pitstop-gpu-probe", "program that reads the GPUs; where it does not exist nobody does")
	fs.StringVar(&f.library, "gpu-library", "", "path of libnvidia-ml.so.1; empty: where the loader finds it")
}

// reader returns what reads the node's GPUs once it runs; nil where there is no program for it.
func (f gpuFlags) reader() *probe.Client {
	if _, err := os.Stat(f.probe); f.probe == "" || err != nil {
		return nil
	}
	cfg := probe.Config{Path: f.probe}
	if f.library != "" {
		cfg.Args = []string{"--library=" + f.library}
	}
	return probe.New(cfg)
}

// runReader runs what reads the GPUs, if there is one.
func runReader(ctx context.Context, reader *probe.Client) error {
	if reader != nil {
		reader.Run(ctx)
	}
	return nil
}
