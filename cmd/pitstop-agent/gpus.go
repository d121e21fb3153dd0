package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"pitstop.dev/agent/health"
	"pitstop.dev/cri"
	"pitstop.dev/gpu/attribution"
	gpuhealth "pitstop.dev/gpu/health"
	"pitstop.dev/gpu/probe"
)

// gpuFlags say how GPUs are read and judged.
type gpuFlags struct {
	probe, library string
	podName        string
	xidClasses     []string
}

func (f *gpuFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.probe, "gpu-probe", "/pitstop-gpu-probe", "program that reads the GPUs; empty, or not there: they are not looked at")
	fs.StringVar(&f.library, "nvml-library", "", "name or path of NVIDIA's library; empty: libnvidia-ml.so.1, wherever the loader finds it")
	fs.StringVar(&f.podName, "pod-name", os.Getenv("POD_NAME"), "name of the agent's Pod, which kubelet has to list before it is believed about others (env POD_NAME)")
	fs.StringSliceVar(&f.xidClasses, "xid-class", nil, "classes of XIDs that differ from NVIDIA's catalog, as 109=application,48=reset")
}

// gpus are what the agent knows the GPUs of its node by.
type gpus struct {
	probe      *probe.Client // nil: there is none
	assigned   *attribution.PodResources
	attributor attribution.Attributor
}

// open makes them. Only the probe needs to be run.
func (f gpuFlags) open(ctx context.Context, all flags, runtime *cri.Client) (gpus, error) {
	var g gpus
	if f.probe == "" {
		return g, nil
	}
	if _, err := os.Stat(f.probe); errors.Is(err, fs.ErrNotExist) {
		logr.FromContextOrDiscard(ctx).Info("GPUs are not looked at: the probe is not there", "path", f.probe)
		return g, nil
	} else if err != nil {
		return g, fmt.Errorf("--gpu-probe: %w", err)
	}
	cfg := probe.Config{Path: f.probe}
	if f.library != "" {
		cfg.Args = append(cfg.Args, "--library="+f.library)
	}
	g.probe = probe.New(cfg)
	g.attributor = attribution.Attributor{Procfs: attribution.Procfs{Root: "/proc"}, Runtime: attribution.CRI{Client: runtime}}
	where := attribution.PodResourcesConfig{Dir: filepath.Join(all.kubeletDir, "pod-resources")}
	if f.podName != "" {
		where.Witness = attribution.PodName{Namespace: all.namespace, Name: f.podName}
	}
	g.assigned = attribution.NewPodResources(where)
	return g, nil
}

// health returns how GPUs are watched and judged.
func (g gpus) health(f gpuFlags) (health.Config, error) {
	judge := gpuhealth.Default()
	var err error
	if judge.Classes, err = judge.Classes.Override(f.xidClasses); err != nil {
		return health.Config{}, fmt.Errorf("--xid-class: %w", err)
	}
	cfg := health.Config{Judge: judge}
	if g.probe != nil {
		cfg.Reader, cfg.Releaser = g.probe, g.probe
		cfg.Assigner, cfg.Residency = health.NewKubelet(g.assigned), health.Holders{Attributor: g.attributor}
	}
	return cfg, nil
}

// run runs the probe until ctx ends.
func (g gpus) run(ctx context.Context) error {
	if g.probe != nil {
		g.probe.Run(ctx)
	}
	return nil
}
