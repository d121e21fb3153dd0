package health

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/utils/clock"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/cri"
)

// The names of the checks.
const (
	CheckRuntime = "runtime"
	CheckKubelet = "kubelet"
	CheckPlugin  = "device plugin"
	CheckDisk    = "disk"
	CheckJournal = "journal"
	CheckProbe   = "probe"
	CheckGPUs    = "GPUs"
)

// A Runtime is the container runtime.
type Runtime interface {
	Version(context.Context) (cri.Version, error)
}

// Images is the file system that holds the images.
type Images interface {
	FreeBytes(context.Context) (uint64, error)
}

// CheckOfRuntime asks the runtime who it is. One that refuses is a problem. One that does not answer in time may be busy, so
// that this is Unknown at first: it is a problem once it has lasted for silentFor.
func CheckOfRuntime(r Runtime, c clock.PassiveClock) Check {
	var s silence // Checks does not look twice at a time
	return Check{CheckRuntime, func(ctx context.Context) (status states.Status, text string) {
		v, err := r.Version(ctx)
		switch {
		case err == nil:
			s = silence{}
			return states.OK, v.Runtime + " " + v.Version
		case errors.Is(err, context.DeadlineExceeded):
			s, status, text = s.next(c.Now())
			return status, text
		case ctx.Err() != nil:
			return states.Unknown, err.Error() // whoever asked has gone
		}
		s = silence{}
		return states.Problem, err.Error()
	}}
}

// CheckOfKubelet connects to kubelet's socket. dir is kubelet's root folder.
func CheckOfKubelet(dir string) Check {
	path := filepath.Join(dir, "pod-resources", "kubelet.sock")
	return Check{CheckKubelet, func(ctx context.Context) (states.Status, string) {
		switch err := connect(ctx, path); {
		case err == nil:
			return states.OK, "accepts connections"
		case errors.Is(err, fs.ErrNotExist):
			return states.Unknown, "no socket " + path
		case errors.Is(err, fs.ErrPermission):
			return states.Unknown, err.Error()
		default:
			return states.Problem, err.Error()
		}
	}}
}

// CheckOfPlugins connects to the sockets of the device plugins. A socket that nobody serves is a plugin that went
// without removing it: kubelet starts no container on its devices any more, once it has forgotten them. wanted reports
// whether Pods have devices, so that there has to be a plugin; nil: not known.
func CheckOfPlugins(dir string, wanted func() bool) Check {
	folder := filepath.Join(dir, "device-plugins")
	return Check{CheckPlugin, func(ctx context.Context) (states.Status, string) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return states.Unknown, err.Error()
		}
		var up, down []string
		for _, e := range entries {
			if e.Type() != fs.ModeSocket || e.Name() == "kubelet.sock" {
				continue
			}
			switch err := connect(ctx, filepath.Join(folder, e.Name())); {
			case errors.Is(err, syscall.ECONNREFUSED):
				down = append(down, e.Name())
			case err != nil:
				return states.Unknown, err.Error()
			default:
				up = append(up, e.Name())
			}
		}
		switch {
		case len(up) > 0:
			return states.OK, strings.Join(up, ", ")
		case len(down) > 0:
			return states.Problem, "nobody serves " + strings.Join(down, ", ")
		case wanted != nil && wanted():
			return states.Problem, "none is registered, and Pods of the node have devices"
		}
		return states.OK, "none is registered"
	}}
}

func connect(ctx context.Context, path string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}

// CheckOfDisk compares the free space for images with the least that a pull takes; 0: any will do.
func CheckOfDisk(i Images, least int64) Check {
	return Check{CheckDisk, func(ctx context.Context) (states.Status, string) {
		free, err := i.FreeBytes(ctx)
		switch {
		case err != nil:
			return states.Unknown, err.Error()
		case least > 0 && free < uint64(least):
			return states.Problem, fmt.Sprintf("%s free for images, %s are needed", gibibytes(free), gibibytes(uint64(least)))
		}
		return states.OK, gibibytes(free) + " free for images"
	}}
}

func gibibytes(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// CheckOfJournal tells why the journal cannot be used; problem returns nil if it can.
func CheckOfJournal(problem func() error) Check {
	return Check{CheckJournal, func(context.Context) (states.Status, string) {
		if err := problem(); err != nil {
			return states.Problem, err.Error()
		}
		return states.OK, "can be written"
	}}
}
