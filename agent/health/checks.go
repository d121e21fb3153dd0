package health

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"

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
		case ctx.Err() != nil:
			return states.Unknown, err.Error() // it was not waited for
		case errors.Is(err, fs.ErrNotExist):
			return states.Unknown, "no socket " + path
		case errors.Is(err, fs.ErrPermission):
			return states.Unknown, err.Error()
		default:
			return states.Problem, err.Error()
		}
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
