package health

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"pitstop.dev/agent/health/states"
)

// CheckOfPlugins connects to the sockets of the device plugins. One that nobody serves is of a plugin that went without
// removing it, as kubelet empties the folder only when it starts: it starts no container on its devices any more, once it
// has forgotten them. Which devices these are the socket does not tell, nor whether that plugin was taken away on purpose:
// it is a problem only where Pods have devices and no plugin is served. wanted reports whether Pods have devices, and whether
// that is known; nil: it is not.
func CheckOfPlugins(dir string, wanted func() (is, known bool)) Check {
	folder := filepath.Join(dir, "device-plugins")
	return Check{CheckPlugin, func(ctx context.Context) (states.Status, string) {
		p, err := dialPlugins(ctx, folder)
		if err != nil {
			return states.Unknown, err.Error()
		}
		p.needed = states.Unknown
		if wanted != nil {
			if is, known := wanted(); is && known {
				p.needed = states.Problem
			} else if known {
				p.needed = states.OK
			}
		}
		return p.judge()
	}}
}

// plugins are those that have a socket: up are served, down are not.
type plugins struct {
	up, down []string
	// needed is what it means where one is missing: whether Pods have devices.
	needed states.Status
}

func dialPlugins(ctx context.Context, folder string) (p plugins, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return p, err
	}
	for _, e := range entries {
		if e.Type() != fs.ModeSocket || e.Name() == "kubelet.sock" {
			continue
		}
		switch err := connect(ctx, filepath.Join(folder, e.Name())); {
		case errors.Is(err, syscall.ECONNREFUSED):
			p.down = append(p.down, e.Name())
		case err != nil:
			return p, err
		default:
			p.up = append(p.up, e.Name())
		}
	}
	return p, nil
}

// judge says what the sockets mean.
func (p plugins) judge() (states.Status, string) {
	gone, up := "nobody serves "+strings.Join(p.down, ", "), strings.Join(p.up, ", ")
	const unknown = ", and whether Pods have devices is not known"
	switch {
	case len(p.down) > 0 && p.needed == states.Unknown:
		return states.Unknown, gone + unknown
	case len(p.down) > 0 && p.needed == states.Problem && len(p.up) > 0:
		return states.Unknown, gone + ", and whether Pods have its devices is not known"
	case len(p.down) > 0 && p.needed == states.Problem:
		return states.Problem, gone
	case len(p.down) > 0 && len(p.up) == 0:
		return states.Unknown, gone + ", and no Pod has devices"
	case len(p.down) > 0:
		return states.OK, up + "; " + gone
	case len(p.up) > 0:
		return states.OK, up
	case p.needed == states.Problem:
		return states.Problem, "none is registered, and Pods of the node have devices"
	case p.needed == states.Unknown:
		return states.Unknown, "none is registered" + unknown
	}
	return states.OK, "none is registered"
}
