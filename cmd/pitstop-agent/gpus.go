package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"pitstop.dev/agent"
	"pitstop.dev/cri"
	"pitstop.dev/gpu/attribution"
	"pitstop.dev/gpu/lookout"
	"pitstop.dev/gpu/probe"
)

// gpuFlags say how the node's GPUs are read, and how their memory is judged.
type gpuFlags struct {
	probe, library string
	release        time.Duration
}

func (f *gpuFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.probe, "gpu-probe", "/pitstop-gpu-probe", "program that reads the GPUs; where it does not exist nobody does")
	fs.StringVar(&f.library, "gpu-library", "", "path of libnvidia-ml.so.1; empty: where the loader finds it")
	fs.DurationVar(&f.release, "gpu-release-deadline", 2*time.Minute, "time after the end of a container in which its GPU memory may still be held")
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

// watch has the agent judge the memory of Pods' GPUs by what the reader finds; it may be nil.
func (f gpuFlags) watch(cfg *agent.Config, reader *probe.Client, runtime *cri.Client) {
	cfg.ReleaseDeadline = f.release
	if reader == nil {
		return
	}
	cfg.Residency = lookout.Lookout{
		Reader:     reader,
		Assigned:   attribution.NewPodResources(attribution.PodResourcesConfig{Dir: filepath.Join(cfg.KubeletDir, "pod-resources")}),
		Attributor: attribution.Attributor{Procfs: attribution.Procfs{Root: "/proc"}, Runtime: attribution.CRI{Client: runtime}},
		BootID:     cfg.Journal.BootID,
	}
}
