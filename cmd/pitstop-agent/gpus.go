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
	podName        string
	release        time.Duration
}

func (f *gpuFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.probe, "gpu-probe", "/pitstop-gpu-probe", "program that reads the GPUs; where it does not exist nobody does")
	fs.StringVar(&f.library, "gpu-library", "", "path of libnvidia-ml.so.1; empty: where the loader finds it")
	fs.StringVar(&f.podName, "pod-name", os.Getenv("POD_NAME"), "name of the agent's Pod, which kubelet has to list before it is believed about others (env POD_NAME)")
	fs.DurationVar(&f.release, "gpu-release-deadline", 2*time.Minute, "time after the end of a container in which its GPU memory may still be held")
}

// gpuSources are what is known of the node's GPUs from: the driver, kubelet, procfs and the runtime.
type gpuSources struct {
	reader     *probe.Client
	assigned   *attribution.PodResources
	attributor attribution.Attributor
}

// sources returns what reads the node's GPUs once it runs; nil where there is no program for it.
func (f gpuFlags) sources(cfg agent.Config, runtime *cri.Client) *gpuSources {
	if _, err := os.Stat(f.probe); f.probe == "" || err != nil {
		return nil
	}
	reader := probe.Config{Path: f.probe}
	if f.library != "" {
		reader.Args = []string{"--library=" + f.library}
	}
	where := attribution.PodResourcesConfig{Dir: filepath.Join(cfg.KubeletDir, "pod-resources")}
	if f.podName != "" {
		where.Witness = attribution.PodName{Namespace: cfg.Namespace, Name: f.podName}
	}
	return &gpuSources{
		reader: probe.New(reader), assigned: attribution.NewPodResources(where),
		attributor: attribution.Attributor{Procfs: attribution.Procfs{Root: "/proc"}, Runtime: attribution.CRI{Client: runtime}},
	}
}

// run runs what reads the GPUs, if there is one.
func (s *gpuSources) run(ctx context.Context) error {
	if s != nil {
		s.reader.Run(ctx)
	}
	return nil
}

// watch has the agent judge the memory of Pods' GPUs; there may be no sources.
func (f gpuFlags) watch(cfg *agent.Config, s *gpuSources) {
	cfg.ReleaseDeadline = f.release
	if s != nil {
		cfg.Residency = lookout.Lookout{Reader: s.reader, Assigned: s.assigned, Attributor: s.attributor, BootID: cfg.Journal.BootID}
	}
}
