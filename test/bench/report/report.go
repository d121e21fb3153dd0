// Package report is the file that a run of the benchmark leaves, and its summary for people.
package report

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"pitstop.dev/test/bench/figure"
	"pitstop.dev/test/bench/machine"
	"pitstop.dev/test/bench/measure"
	"pitstop.dev/test/cluster"
)

// A Report is what a run leaves.
type Report struct {
	Begun    time.Time       `json:"begun"`
	Ended    time.Time       `json:"ended"`
	Rounds   int             `json:"rounds"`
	Only     []string        `json:"only,omitempty"` // not a full run
	Error    string          `json:"error,omitempty"`
	Commit   string          `json:"commit"`
	Dirty    bool            `json:"dirty"` // with changes on top of the commit
	Machine  machine.Machine `json:"machine"`
	Load     [3]float64      `json:"load_average_at_start"` // over 1, 5 and 15 minutes
	Versions Versions        `json:"versions"`
	// Missed are the bounds that were missed, in words.
	Missed  []string                 `json:"missed"`
	Figures map[string]figure.Figure `json:"figures"`

	config measure.Config
}

// Versions are those of what ran.
type Versions struct {
	Kubernetes string `json:"kubernetes"`
	Runtime    string `json:"runtime"`
	Go         string `json:"go"`
}

// Begin notes where and when the run begins.
func Begin(ctx context.Context, c *cluster.Cluster, config measure.Config) (*Report, error) {
	r := &Report{Begun: config.Clock.Now().UTC(), Rounds: config.Rounds, Only: config.Only, config: config}
	var err error
	if r.Load, err = machine.Load("/proc"); err != nil {
		return nil, err
	}
	if r.Machine, err = machine.Describe("/proc", "/sys"); err != nil {
		return nil, err
	}
	if r.Versions, err = versions(ctx, c); err != nil {
		return nil, err
	}
	if r.Commit, err = git(ctx, "rev-parse", "HEAD"); err != nil {
		r.Commit = "unknown" // a copy without its history
	}
	changes, err := git(ctx, "status", "--porcelain")
	r.Dirty = err == nil && changes != ""
	return r, nil
}

func versions(ctx context.Context, c *cluster.Cluster) (Versions, error) {
	v := Versions{Go: runtime.Version()}
	server, err := c.Core.Discovery().ServerVersion()
	if err != nil {
		return v, fmt.Errorf("version of Kubernetes: %w", err)
	}
	v.Kubernetes = server.GitVersion
	rt, err := c.Runtime(c.Nodes()[0].Name)
	if err != nil {
		return v, err
	}
	defer rt.Close() //nolint:errcheck // only asked
	of, err := rt.Version(ctx)
	if err != nil {
		return v, err
	}
	v.Runtime = of.Runtime + " " + of.Version
	return v, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err
}

// End writes the file and prints the summary. A run that broke off leaves what it had.
func (r *Report) End(sheet *figure.Sheet, broke error, path string) error {
	r.Ended = r.config.Clock.Now().UTC()
	r.Figures, r.Missed = sheet.Figures(), sheet.Missed()
	if r.Missed == nil {
		r.Missed = []string{}
	}
	if broke != nil {
		r.Error = broke.Error()
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("report: %w", err)
	}
	return r.summary(sheet, path)
}

func (r *Report) summary(sheet *figure.Sheet, path string) error {
	out := r.config.Out
	fmt.Fprintf(out, "\n%d cores, %d MiB, Linux %s, cgroup %s, %s, %s; load at start %.2f; commit %.12s; %s\n\n",
		r.Machine.Cores, r.Machine.MemoryMiB, r.Machine.Kernel, r.Machine.Cgroup, r.Versions.Kubernetes, r.Versions.Runtime,
		r.Load[0], r.Commit, r.Ended.Sub(r.Begun).Round(time.Second))
	if err := sheet.Table(out); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	fmt.Fprintln(out)
	for _, line := range r.Missed {
		fmt.Fprintln(out, "!!! BOUND MISSED:", line)
	}
	if len(r.Missed) == 0 && r.Error == "" && len(r.Only) == 0 {
		fmt.Fprintln(out, "all bounds met")
	}
	fmt.Fprintln(out, "written to", path)
	return nil
}
