package rig

import (
	"context"
	"fmt"
	"path/filepath"

	"pitstop.dev/test/gpu/stub"
)

const (
	driver = "570.86.15"
	// reserved is what a driver keeps for itself of an idle device, in MiB.
	reserved = 615
)

// install puts the stand-in of the driver's library into the node's folder, with the GPUs and nothing held.
func install(ctx context.Context, c Config) (stub.File, error) {
	file := stub.File{Path: filepath.Join(c.Node.GPUDir, stub.FileName)}
	if _, err := stub.Library(ctx, c.Node.GPUDir); err != nil {
		return file, err
	}
	return file, file.Update(ctx, func(s *stub.State) { *s = state(c) })
}

func state(c Config) stub.State {
	s := stub.State{Driver: driver}
	for i, uuid := range c.UUIDs {
		s.GPUs = append(s.GPUs, stub.GPU{
			UUID: uuid, Minor: i, PCI: fmt.Sprintf("00000000:%02X:00.0", 0x17+i), Name: "Stub",
			Total: c.MiB + reserved, Reserved: reserved, Links: 2,
		})
	}
	return s
}

// listed is the library's list of what is held.
type listed struct{ stub.File }

// Hold implements Library.
func (l listed) Hold(ctx context.Context, h Held) error {
	return l.Add(ctx, entry(h))
}

// Drop implements Library.
func (l listed) Drop(ctx context.Context, h Held) error {
	gone := entry(h)
	return l.Update(ctx, func(s *stub.State) {
		kept := s.Processes[:0]
		for _, p := range s.Processes {
			if p != gone {
				kept = append(kept, p)
			}
		}
		s.Processes = kept
	})
}

// entry is how the library finds the process: by its PID on this machine.
func entry(h Held) stub.Process {
	p := stub.Process{GPU: h.GPU, PID: int(h.PID), Start: int(h.Start), MiB: h.MiB, Release: int(h.Release.Milliseconds())}
	if h.Release < 0 {
		p.Release = -1
	}
	return p
}
