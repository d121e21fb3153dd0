//go:build cgo && linux

package nvml

import "slices"

// A feature is a function of NVML under all the names that go-nvml knows it by; it takes the newest that is there.
// Without any of them a call would end the process: the loader finds out at the call.
type feature struct {
	// name is what Missing says: the newest name.
	name  string
	older []string
}

// The features that the probe uses.
const (
	fInit            = "nvmlInit_v2"
	fShutdown        = "nvmlShutdown"
	fCount           = "nvmlDeviceGetCount_v2"
	fHandle          = "nvmlDeviceGetHandleByIndex_v2"
	fUUID            = "nvmlDeviceGetUUID"
	fDriver          = "nvmlSystemGetDriverVersion"
	fName            = "nvmlDeviceGetName"
	fMinor           = "nvmlDeviceGetMinorNumber"
	fPCI             = "nvmlDeviceGetPciInfo_v3"
	fMemory          = "nvmlDeviceGetMemoryInfo"
	fMemory2         = "nvmlDeviceGetMemoryInfo_v2"
	fCompute         = "nvmlDeviceGetComputeRunningProcesses_v3"
	fGraphics        = "nvmlDeviceGetGraphicsRunningProcesses_v3"
	fMPS             = "nvmlDeviceGetMPSComputeRunningProcesses_v3"
	fFields          = "nvmlDeviceGetFieldValues"
	fECC             = "nvmlDeviceGetTotalEccErrors"
	fClocks          = "nvmlDeviceGetCurrentClocksEventReasons"
	fLinks           = "nvmlDeviceGetNvLinkState"
	fAddressing      = "nvmlDeviceGetAddressingMode"
	fMIGMode         = "nvmlDeviceGetMigMode"
	fMIGCount        = "nvmlDeviceGetMaxMigDeviceCount"
	fMIGHandle       = "nvmlDeviceGetMigDeviceHandleByIndex"
	fGI              = "nvmlDeviceGetGpuInstanceId"
	fCI              = "nvmlDeviceGetComputeInstanceId"
	fEventTypes      = "nvmlDeviceGetSupportedEventTypes"
	fEventRegister   = "nvmlDeviceRegisterEvents"
	fEventSetCreate  = "nvmlEventSetCreate"
	fEventSetWait    = "nvmlEventSetWait_v2"
	fEventSetFree    = "nvmlEventSetFree"
	fThrottleReasons = "nvmlDeviceGetCurrentClocksThrottleReasons"
)

// features lists all that the probe may call.
func features() []feature {
	return []feature{
		{fInit, []string{"nvmlInit"}},
		{name: fShutdown},
		{fCount, []string{"nvmlDeviceGetCount"}},
		{fHandle, []string{"nvmlDeviceGetHandleByIndex"}},
		{name: fUUID},
		{name: fDriver},
		{name: fName},
		{name: fMinor},
		{fPCI, []string{"nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"}},
		{name: fMemory},
		{name: fMemory2},
		{fCompute, []string{"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"}},
		{fGraphics, []string{"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses"}},
		{fMPS, []string{"nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses"}},
		{name: fFields},
		{name: fECC},
		{name: fClocks},
		{name: fThrottleReasons},
		{name: fLinks},
		{name: fAddressing},
		{name: fMIGMode},
		{name: fMIGCount},
		{name: fMIGHandle},
		{name: fGI},
		{name: fCI},
		{name: fEventTypes},
		{name: fEventRegister},
		{name: fEventSetCreate},
		{fEventSetWait, []string{"nvmlEventSetWait"}},
		{name: fEventSetFree},
	}
}

// required are those without which nothing can be said.
func required() []string { return []string{fInit, fShutdown, fCount, fHandle, fUUID} }

// A table says which features the loaded library has.
type table map[string]bool

// lookUp asks once for every symbol.
func lookUp(exists func(symbol string) bool) table {
	t := table{}
	for _, f := range features() {
		t[f.name] = slices.ContainsFunc(append([]string{f.name}, f.older...), exists)
	}
	return t
}

// has reports whether all of the named features are there.
func (t table) has(names ...string) bool {
	for _, n := range names {
		if !t[n] {
			return false
		}
	}
	return true
}

// missing lists what is not there, in order. The reasons for lower clocks had another name once: one of the two is
// enough.
func (t table) missing(names ...string) []string {
	var missing []string
	for _, n := range names {
		if !t[n] && (n != fThrottleReasons || !t[fClocks]) && (n != fClocks || !t[fThrottleReasons]) {
			missing = append(missing, n)
		}
	}
	return missing
}

func allFeatures() []string {
	var names []string
	for _, f := range features() {
		if f.name != fThrottleReasons {
			names = append(names, f.name)
		}
	}
	return names
}
