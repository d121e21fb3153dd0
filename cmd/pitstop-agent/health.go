package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"pitstop.dev/agent"
	"pitstop.dev/agent/health"
	"pitstop.dev/cri"
	"pitstop.dev/gpu/attribution"
	gpuhealth "pitstop.dev/gpu/health"
	"pitstop.dev/gpu/probe"
)

// healthFlags say how the health of GPUs is judged.
type healthFlags struct {
	podName    string
	xidClasses []string
}

func (f *healthFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.podName, "pod-name", os.Getenv("POD_NAME"), "name of the agent's Pod, which kubelet has to list before it is believed about others (env POD_NAME)")
	fs.StringSliceVar(&f.xidClasses, "xid-class", nil, "classes of XIDs that differ from NVIDIA's catalog, as 109=application,48=reset")
}

// watch has the agent judge the health of GPUs by what the reader finds; it may be nil.
func (f healthFlags) watch(cfg *agent.Config, reader *probe.Client, runtime *cri.Client) error {
	judge := gpuhealth.Default()
	var err error
	if judge.Classes, err = judge.Classes.Override(f.xidClasses); err != nil {
		return fmt.Errorf("--xid-class: %w", err)
	}
	cfg.GPUs = health.Config{Judge: judge}
	if reader == nil {
		return nil
	}
	where := attribution.PodResourcesConfig{Dir: filepath.Join(cfg.KubeletDir, "pod-resources")}
	if f.podName != "" {
		where.Witness = attribution.PodName{Namespace: cfg.Namespace, Name: f.podName}
	}
	cfg.GPUs.Reader, cfg.GPUs.Releaser = reader, reader
	cfg.GPUs.Assigner = health.NewKubelet(attribution.NewPodResources(where))
	cfg.GPUs.Residency = health.Holders{Attributor: attribution.Attributor{
		Procfs: attribution.Procfs{Root: "/proc"}, Runtime: attribution.CRI{Client: runtime},
	}}
	return nil
}
