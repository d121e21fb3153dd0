package cluster

import (
	"context"
	"flag"
)

// SideBySide sets how many tests run at a time, unless the command line says it: scenarios wait
// most of the time, so it is not a matter of cores. It is for a TestMain.
func SideBySide(n string) error {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() != f.DefValue {
		return nil
	}
	return flag.Set("test.parallel", n)
}

// An EngineTag is an engine image that a suite uses.
type EngineTag struct {
	Ref  *string // where its reference goes
	Name string
	Env  map[string]string // its knobs
}

// Engines pushes the images and sets their references.
func (c *Cluster) Engines(ctx context.Context, tags ...EngineTag) error {
	for _, t := range tags {
		ref, err := c.Engine(ctx, t.Name, t.Env)
		if err != nil {
			return err
		}
		*t.Ref = ref
	}
	return nil
}
