package hardware

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A Library is NVIDIA's, as the probe loads it.
type Library struct {
	Probe string // path of pitstop-gpu-probe
	Name  string // of the library, which the loader looks for; with a slash it is a path
}

// Functions lists the functions that the probe knows, and which of them the library has. The error says in one line why it
// cannot be loaded.
func (l Library) Functions(ctx context.Context) (string, error) {
	path := strings.Contains(l.Name, "/")
	if path {
		if _, err := os.Stat(l.Name); err != nil {
			return "", fmt.Errorf("--library is %s: %w", l.Name, cause(err))
		}
	}
	if _, err := os.Stat(l.Probe); err != nil {
		return "", fmt.Errorf("--probe is %s: %w", l.Probe, cause(err))
	}
	out, err := exec.CommandContext(ctx, l.Probe, "--symbols", "--library="+l.Name).Output()
	if err == nil {
		return string(out), nil
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(strings.Join(strings.Fields(string(failed.Stderr)), " "))
	}
	if path {
		return "", fmt.Errorf("--library is %s: it cannot be loaded: %w", l.Name, err)
	}
	return "", fmt.Errorf("%s cannot be loaded: this machine has no GPU, or no driver: %w", l.Name, err)
}

// cause is err without the path, which was named.
func cause(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}
