package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"pitstop.dev/agent/health"
	gpuhealth "pitstop.dev/gpu/health"
)

// healthFlags say how GPUs are judged.
type healthFlags struct {
	xidClasses []string
}

func (f *healthFlags) bind(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.xidClasses, "xid-class", nil, "classes of XIDs that differ from NVIDIA's catalog, as 109=application,48=reset")
}

// config returns how GPUs are judged. Who reads them is put in where the probe is made.
func (f healthFlags) config() (health.Config, error) {
	judge := gpuhealth.Default()
	var err error
	if judge.Classes, err = judge.Classes.Override(f.xidClasses); err != nil {
		return health.Config{}, fmt.Errorf("--xid-class: %w", err)
	}
	return health.Config{Judge: judge}, nil
}
