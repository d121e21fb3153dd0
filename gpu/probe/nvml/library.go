//go:build cgo && linux

package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/probe/wire"
)

// A library is NVML, loaded and initialised.
type library struct {
	api     nvml.Interface
	has     table
	driver  string
	module  uint64
	missing []string
	// known is what the devices were called when they last answered, by index: one that is lost tells no more.
	known map[int]gpu.Device
}

// open loads NVML. Without a library, the hello says why there is none to use.
func open(o Options) (*library, wire.Hello) {
	// The symbols are looked up before go-nvml loads the library, since its Init calls at once.
	handle := dl.New(o.Library, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := handle.Open(); err != nil {
		return nil, without(o, err)
	}
	t := lookUp(func(symbol string) bool { return handle.Lookup(symbol) == nil })
	hello := wire.Hello{State: gpu.Unknown, Missing: t.missing(allFeatures()...)}
	if lacks := t.missing(required()...); len(lacks) > 0 {
		hello.Message = fmt.Sprintf("%s lacks %s", o.Library, strings.Join(lacks, ", "))
		return nil, hello
	}
	l := &library{api: nvml.New(nvml.WithLibraryPath(o.Library)), has: t, missing: hello.Missing, known: map[int]gpu.Device{}}
	if code := l.api.Init(); code != nvml.SUCCESS {
		hello.Message = "initialise NVML: " + explain(code)
		if code == nvml.ERROR_LIB_RM_VERSION_MISMATCH {
			hello.Message += "; after an upgrade of the driver the agent's pod has to be made anew, as its library is mounted file by file"
		}
		return nil, hello
	}
	if t.has(fDriver) {
		if version, code := l.api.SystemGetDriverVersion(); code == nvml.SUCCESS {
			l.driver = version
		}
	}
	l.module = moduleOf(o.Sys)
	hello.State, hello.Driver = gpu.Up, l.driver
	return l, hello
}

// moduleOf is the inode number of the driver's folder in sysfs: another one each time that it is loaded, as the kernel
// counts them on (fs/kernfs/dir.c). While the library is in use the driver cannot be unloaded.
func moduleOf(sys string) uint64 {
	var s unix.Stat_t
	if err := unix.Stat(filepath.Join(sys, "module", "nvidia"), &s); err != nil {
		return 0
	}
	return s.Ino
}

// Symbols says which functions of NVML the library has, one line for each that the probe knows. It calls none.
func Symbols(o Options) ([]string, error) {
	handle := dl.New(o.Library, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := handle.Open(); err != nil {
		return nil, err
	}
	var lines []string
	for _, f := range features() {
		for _, name := range append([]string{f.name}, f.older...) {
			mark := "yes"
			if handle.Lookup(name) != nil {
				mark = "no"
			}
			lines = append(lines, fmt.Sprintf("%-4s%s", mark, name))
		}
	}
	return lines, handle.Close()
}

// without says what a library that cannot be loaded means: a node without GPUs, unless the driver is there. Then it
// is a container that was not given the library.
func without(o Options, err error) wire.Hello {
	version := filepath.Join(o.Proc, "driver", "nvidia", "version")
	switch _, found := os.Stat(version); {
	case errors.Is(found, fs.ErrNotExist):
		return wire.Hello{State: gpu.Absent, Message: err.Error()}
	case found != nil:
		return wire.Hello{State: gpu.Unknown, Message: errors.Join(err, found).Error()}
	default:
		return wire.Hello{State: gpu.Unknown, Message: fmt.Sprintf("the driver is loaded (%s), but its library is not to be had: %v", version, err)}
	}
}

// close lets go of NVML. What it answers changes nothing: the process ends.
func (l *library) close() { _ = l.api.Shutdown() }

// read looks at all devices. A code that ends all answers makes the whole Reading Unknown.
func (l *library) read() gpu.Reading {
	r := gpu.Reading{State: gpu.Up, Driver: l.driver, Module: l.module, Missing: l.missing}
	n, code := l.api.DeviceGetCount()
	if code != nvml.SUCCESS {
		return gpu.Reading{State: gpu.Unknown, Message: "count GPUs: " + explain(code), Driver: l.driver, Missing: l.missing}
	}
	for i := range n {
		k := look{library: l, d: gpu.Device{Index: i, Minor: -1}}
		k.device()
		if k.fatal != "" {
			return gpu.Reading{State: gpu.Unknown, Message: k.fatal, Driver: l.driver, Missing: l.missing}
		}
		r.Devices = append(r.Devices, k.d)
	}
	return r
}
