package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"pitstop.dev/agent"
	"pitstop.dev/agent/health"
	gpuhealth "pitstop.dev/gpu/health"
)

// healthFlags say how the health of GPUs is judged.
type healthFlags struct {
	xidClasses []string
}

func (f *healthFlags) bind(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.xidClasses, "xid-class", nil, "classes of XIDs that differ from NVIDIA's catalog, as 109=application,48=reset")
}

// watch has the agent judge the health of GPUs; there may be no sources.
func (f healthFlags) watch(cfg *agent.Config, s *gpuSources) error {
	judge := gpuhealth.Default()
	var err error
	if judge.Classes, err = judge.Classes.Override(f.xidClasses); err != nil {
		return fmt.Errorf("--xid-class: %w", err)
	}
	cfg.GPUs = health.Config{Judge: judge, Dir: cfg.Journal.Dir, BootID: cfg.Journal.BootID}
	if s == nil {
		return nil
	}
	cfg.GPUs.Reader, cfg.GPUs.Releaser = s.reader, s.reader
	cfg.GPUs.Assigner = health.NewKubelet(s.assigned)
	cfg.GPUs.Residency = health.Holders{Attributor: s.attributor}
	return nil
}
