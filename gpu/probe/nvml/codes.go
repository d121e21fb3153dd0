//go:build cgo && linux

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// explain puts a code into words. go-nvml asks the library for them, which may lack the function.
func explain(code nvml.Return) string {
	words := map[nvml.Return]string{
		nvml.ERROR_UNINITIALIZED:             "NVML is not initialised",
		nvml.ERROR_INVALID_ARGUMENT:          "invalid argument",
		nvml.ERROR_NOT_SUPPORTED:             "not supported",
		nvml.ERROR_NO_PERMISSION:             "no permission",
		nvml.ERROR_NOT_FOUND:                 "not found",
		nvml.ERROR_INSUFFICIENT_SIZE:         "insufficient size",
		nvml.ERROR_DRIVER_NOT_LOADED:         "the driver is not loaded",
		nvml.ERROR_TIMEOUT:                   "time-out",
		nvml.ERROR_IRQ_ISSUE:                 "interrupt issue",
		nvml.ERROR_LIBRARY_NOT_FOUND:         "library not found",
		nvml.ERROR_FUNCTION_NOT_FOUND:        "function not found",
		nvml.ERROR_CORRUPTED_INFOROM:         "corrupted infoROM",
		nvml.ERROR_GPU_IS_LOST:               "the GPU is lost",
		nvml.ERROR_RESET_REQUIRED:            "the GPU needs a reset",
		nvml.ERROR_OPERATING_SYSTEM:          "blocked by the operating system",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH:   "the library and the driver have different versions",
		nvml.ERROR_IN_USE:                    "in use",
		nvml.ERROR_MEMORY:                    "no memory",
		nvml.ERROR_NO_DATA:                   "no data",
		nvml.ERROR_INSUFFICIENT_RESOURCES:    "insufficient resources",
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH: "unknown version of an argument",
		nvml.ERROR_NOT_READY:                 "not ready",
		nvml.ERROR_GPU_NOT_FOUND:             "no GPU was found",
		nvml.ERROR_UNKNOWN:                   "unknown error of the driver",
	}
	if w, ok := words[code]; ok {
		return fmt.Sprintf("%s (NVML code %d)", w, int(code))
	}
	return fmt.Sprintf("NVML code %d", int(code))
}

// fatal reports that NVML answers nothing any more in this process: its driver is gone, or another one.
func fatal(code nvml.Return) bool {
	switch code { //nolint:exhaustive // a choice among many
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return true
	default:
		return false
	}
}

// none reports that the device has no such thing, as opposed to a read that went wrong.
func none(code nvml.Return) bool {
	switch code { //nolint:exhaustive // a choice among many
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return true
	default:
		return false
	}
}
