// Package hardware checks on a machine with a real GPU what the stub can only claim: that the probe reads the driver, that a
// process which allocates is listed by its PID, and how long its memory stays held after it was killed.
package hardware

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/gpu"
)

// A Config says what to check with.
type Config struct {
	// Reader reads the GPUs. Release lets go of them until a time; nil: that is not checked.
	Reader  gpu.Reader
	Release func(until time.Time)
	// Holder is a command that allocates MiB of GPU Index, prints "holding" and waits to be killed. Empty: no memory is
	// allocated.
	Holder []string
	Index  int
	MiB    int64
	// Clock is the real one outside of tests.
	Clock clock.Clock
	// Log gets what is found on the way.
	Log io.Writer
}

// A Result is the last line. Times are in milliseconds; -1: it did not come to that.
type Result struct {
	OK            bool     `json:"ok"`
	Failed        []string `json:"failed,omitempty"`
	Driver        string   `json:"driver"`
	GPUs          int      `json:"gpus"`
	Name          string   `json:"name"`
	Missing       []string `json:"missing"`
	MemoryVersion int      `json:"memory_version"`
	BaselineMiB   int64    `json:"baseline_mib"`
	ReservedMiB   int64    `json:"reserved_mib"`
	HeldMiB       int64    `json:"held_mib"`
	ListedMiB     int64    `json:"listed_mib"`
	PIDListed     bool     `json:"pid_listed"`
	Recovery      int      `json:"recovery_action"`
	Events        bool     `json:"events"`
	ReadMS        int64    `json:"read_ms"`
	PIDGoneMS     int64    `json:"pid_gone_ms"`
	MemoryFreeMS  int64    `json:"memory_free_ms"`
	LetGoMS       int64    `json:"let_go_ms"`
	ReacquiredMS  int64    `json:"reacquired_ms"`
}

const (
	// poll is how often the GPU is looked at while something is waited for.
	poll = 20 * time.Millisecond
	// patience bounds each wait.
	patience = 60 * time.Second
	// slack is what the memory in use may differ by without a reason.
	slack = 64
)

// A run is one check.
type run struct {
	Config
	Result
}

// Begun is the Result of a check that has come to nothing yet.
func Begun() Result {
	return Result{Recovery: -1, PIDGoneMS: -1, MemoryFreeMS: -1, LetGoMS: -1, ReacquiredMS: -1}
}

// Run checks, within five minutes. A Reading that finds no GPU is an error; all else that is not as it should be
// is in Result.Failed.
func Run(ctx context.Context, cfg Config) (Result, error) {
	r := &run{Config: cfg, Result: Begun()}
	if err := r.enumerate(ctx); err != nil {
		return r.Result, err
	}
	if len(cfg.Holder) > 0 {
		if err := r.hold(ctx); err != nil {
			r.fail("%v", err)
		}
	}
	if cfg.Release != nil {
		r.letGo(ctx)
	}
	r.OK = len(r.Failed) == 0
	return r.Result, nil
}

func (r *run) fail(format string, args ...any) {
	r.Failed = append(r.Failed, fmt.Sprintf(format, args...))
	fmt.Fprintf(r.Log, "FAILED: "+format+"\n", args...)
}

// enumerate reads all GPUs, and takes the baseline of the one.
func (r *run) enumerate(ctx context.Context) error {
	start := r.Clock.Now()
	reading, err := r.until(ctx, func(now gpu.Reading) bool { return now.State == gpu.Up || now.State == gpu.Absent })
	switch {
	case err != nil:
		return err
	case reading.State == gpu.Absent:
		return fmt.Errorf("this machine has no GPU that NVIDIA's library knows of: %s", reading.Message)
	case len(reading.Devices) <= r.Index:
		return fmt.Errorf("this machine has %d GPUs, and none of index %d", len(reading.Devices), r.Index)
	}
	fmt.Fprintf(r.Log, "driver %s, first reading after %v\n", reading.Driver, r.Clock.Since(start).Round(time.Millisecond))
	for _, d := range reading.Devices {
		fmt.Fprintf(r.Log, "GPU %d %s %s minor %d %s fault %q lost %t coherent %t memory %+v processes %+v links %d MIG %d\n",
			d.Index, d.UUID, d.PCI, d.Minor, d.Name, d.Fault, d.Lost, d.Coherent, d.Memory, d.Processes, len(d.Health.Links), len(d.MIG))
	}
	start = r.Clock.Now()
	reading = r.Reader.Read(ctx)
	r.ReadMS = r.Clock.Since(start).Milliseconds()
	if reading.State != gpu.Up || len(reading.Devices) <= r.Index {
		return fmt.Errorf("second reading: %s: %s", reading.State, reading.Message)
	}
	d := reading.Devices[r.Index]
	r.Driver, r.GPUs, r.Name, r.Missing, r.Events = reading.Driver, len(reading.Devices), d.Name, reading.Missing, !reading.Unmonitored
	if d.Memory == nil {
		r.fail("memory is unknown: %s", d.Fault)
	} else {
		r.MemoryVersion, r.BaselineMiB, r.ReservedMiB = d.Memory.Version, d.Memory.Used, d.Memory.Reserved
	}
	if d.Health.Recovery == nil {
		r.fail("the recovery action (field 230) is unknown")
	} else {
		r.Recovery = int(*d.Health.Recovery)
	}
	if !d.Processes.Known {
		r.fail("processes are unknown: %s", d.Processes.Fault)
	}
	if !r.Events {
		r.fail("events cannot be had")
	}
	return nil
}

// hold allocates in a process, finds it, kills it and waits for its memory.
func (r *run) hold(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, r.Holder[0], r.Holder[1:]...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the holder: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "holding\n" {
		return errors.Join(fmt.Errorf("the holder said %q: %s", line, strings.TrimSpace(said.String())), cmd.Wait())
	}
	pid := int32(cmd.Process.Pid)
	reading, found := r.until(ctx, func(now gpu.Reading) bool { return r.listed(now, pid) != nil })
	if found == nil {
		r.PIDListed, r.ListedMiB = true, r.listed(reading, pid).UsedMiB
	} else {
		r.fail("PID %d never came into the lists: %v", pid, reading.Devices)
	}
	if m := r.memory(reading); m != nil {
		r.HeldMiB = m.Used - r.BaselineMiB
	}
	if r.HeldMiB < r.MiB {
		r.fail("%d MiB more in use after %d were allocated", r.HeldMiB, r.MiB)
	}
	start := r.Clock.Now()
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	_ = cmd.Wait() // killed, as told
	if _, err := r.until(ctx, func(now gpu.Reading) bool { return now.State == gpu.Up && r.listed(now, pid) == nil }); err != nil {
		return fmt.Errorf("PID %d stays in the lists: %w", pid, err)
	}
	r.PIDGoneMS = r.Clock.Since(start).Milliseconds()
	free := func(now gpu.Reading) bool { m := r.memory(now); return m != nil && m.Used <= r.BaselineMiB+slack }
	if _, err := r.until(ctx, free); err != nil {
		return fmt.Errorf("the memory stays in use: %w", err)
	}
	r.MemoryFreeMS = r.Clock.Since(start).Milliseconds()
	return nil
}

// letGo releases the driver and takes it again.
func (r *run) letGo(ctx context.Context) {
	start := r.Clock.Now()
	r.Release(start.Add(patience))
	if _, err := r.until(ctx, func(now gpu.Reading) bool { return now.State == gpu.Released }); err != nil {
		r.fail("let go of the driver: %v", err)
		return
	}
	r.LetGoMS = r.Clock.Since(start).Milliseconds()
	start = r.Clock.Now()
	r.Release(start)
	if _, err := r.until(ctx, func(now gpu.Reading) bool { return now.State == gpu.Up }); err != nil {
		r.fail("take the driver again: %v", err)
		return
	}
	r.ReacquiredMS = r.Clock.Since(start).Milliseconds()
}

// until reads until a Reading is as wanted. The last one is returned in any case.
func (r *run) until(ctx context.Context, wanted func(gpu.Reading) bool) (gpu.Reading, error) {
	start := r.Clock.Now()
	for {
		reading := r.Reader.Read(ctx)
		if wanted(reading) {
			return reading, nil
		}
		if r.Clock.Since(start) > patience {
			return reading, fmt.Errorf("after %v: %s %s", patience, reading.State, reading.Message)
		}
		select {
		case <-ctx.Done():
			return reading, ctx.Err()
		case <-r.Clock.After(poll):
		}
	}
}

func (r *run) listed(now gpu.Reading, pid int32) *gpu.Process {
	if len(now.Devices) <= r.Index {
		return nil
	}
	for _, p := range now.Devices[r.Index].Processes.List {
		if p.PID == pid {
			return &p
		}
	}
	return nil
}

func (r *run) memory(now gpu.Reading) *gpu.Memory {
	if len(now.Devices) <= r.Index {
		return nil
	}
	return now.Devices[r.Index].Memory
}
