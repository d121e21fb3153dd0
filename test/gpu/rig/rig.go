// Package rig gives a node of the lab GPUs: kubelet assigns them, the engines on the node take memory of them, the
// driver's library in the node's folder lists it, and none of them exists.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu/attribution"
	"pitstop.dev/test/engine/server"
	"pitstop.dev/test/gpu/claim"
	"pitstop.dev/test/gpu/plugin"
	"pitstop.dev/test/gpu/stub"
	"pitstop.dev/test/lab"
)

const (
	// OnNode is where a node has the folder of its GPUs.
	OnNode = "/var/lib/pitstop-gpu"
	// Inside is where containers that were given GPUs see that folder.
	Inside = "/run/pitstop-gpu"
	// Socket is what engines ask there for memory.
	Socket = Inside + "/" + socket

	socket = "claims.sock"
)

// A Config says what GPUs a node has.
type Config struct {
	Node  lab.Node
	UUIDs []string
	MiB   int                // that each has for engines; default 80 GiB
	Clock clock.PassiveClock // default the real one
}

// A Rig is the GPUs of one node, until Close. Its methods may be called from several goroutines.
type Rig struct {
	*Ledger
	// State is what the driver's library says, for a test to change: events, faults, leaks.
	State  stub.File
	config Config
	claims *claim.Server

	mu     sync.Mutex
	plugin *plugin.Plugin // nil: stopped
}

// Start installs a driver's library in the node's folder, with nothing held, and returns once the node's kubelet has
// taken the registration; a moment later it offers the GPUs.
func Start(ctx context.Context, c Config) (*Rig, error) {
	if c.MiB == 0 {
		c.MiB = 80 << 10
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if err := os.MkdirAll(c.Node.GPUDir, 0o755); err != nil { // a lab that was up before has none
		return nil, fmt.Errorf("GPUs of %s: %w", c.Node.Name, err)
	}
	file, err := install(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("GPUs of %s: %w", c.Node.Name, err)
	}
	r := &Rig{Ledger: newLedger(c, listed{file}), State: file, config: c}
	if r.claims, err = claim.Serve(ctx, filepath.Join(c.Node.GPUDir, socket), r.Ledger); err != nil {
		return nil, fmt.Errorf("GPUs of %s: %w", c.Node.Name, err)
	}
	if err := r.StartPlugin(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close ends plugin and claims. What is held stays held.
func (r *Rig) Close() error {
	r.StopPlugin()
	return r.claims.Close()
}

// StartPlugin starts the device plugin unless it runs. All its devices are healthy.
func (r *Rig) StartPlugin(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.plugin != nil {
		return nil
	}
	p, err := plugin.Start(ctx, plugin.Config{
		Dir:     filepath.Join(r.config.Node.KubeletDir, "device-plugins"),
		Devices: r.config.UUIDs,
		Env:     map[string]string{server.EnvGPUSocket: Socket},
		Mounts:  map[string]string{Inside: r.config.Node.GPUDir},
	})
	if err != nil {
		return fmt.Errorf("GPUs of %s: %w", r.config.Node.Name, err)
	}
	r.plugin = p
	return nil
}

// StopPlugin ends the device plugin, as a crash does, unless it is stopped. Containers keep what they have.
func (r *Rig) StopPlugin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.plugin != nil {
		r.plugin.Stop()
		r.plugin = nil
	}
}

// Plugin is the device plugin, or nil while it is stopped.
func (r *Rig) Plugin() *plugin.Plugin {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plugin
}

// Squat starts a process of the machine that holds memory of a device and belongs to no Pod. It ends with stop.
func (r *Rig) Squat(ctx context.Context, uuid string, mib int) (pid int32, stop func(), err error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sleep", "infinity")
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("squat on %s: %w", uuid, err)
	}
	stop = func() {
		_ = cmd.Process.Kill() // it has ended
		_ = cmd.Wait()         // it was killed
	}
	pid = int32(cmd.Process.Pid)
	if err := r.Claim(ctx, pid, claim.Request{GPUs: []string{uuid}, MiB: mib}); err != nil {
		stop()
		return 0, nil, fmt.Errorf("squat on %s: %w", uuid, err)
	}
	return pid, stop, nil
}

// alive reports whether the process of h holds it: a zombie has let go, unless threads of it are left.
func (l *Ledger) alive(h Held) (bool, error) {
	p, err := l.procfs.Process(h.PID)
	if errors.Is(err, attribution.ErrNoProcess) {
		return false, nil
	}
	return err == nil && p.Start == h.Start && (!p.Zombie || p.Threads > 1), err
}
