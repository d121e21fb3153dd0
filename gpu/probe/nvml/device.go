//go:build cgo && linux

package nvml

import (
	"cmp"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"pitstop.dev/gpu"
)

// A look is one device being read.
type look struct {
	*library
	d gpu.Device
	// fatal says what made NVML useless; empty if nothing did.
	fatal string
}

// ok reports whether a call succeeded, and notes what it means if not.
func (k *look) ok(what string, code nvml.Return) bool {
	switch {
	case code == nvml.SUCCESS:
		return true
	case fatal(code):
		k.fatal = cmp.Or(k.fatal, what+": "+explain(code))
	case code == nvml.ERROR_GPU_IS_LOST:
		k.d.Lost = true
	case !none(code):
		k.d.Fault = cmp.Or(k.d.Fault, what+": "+explain(code))
	}
	return false
}

// over reports that there is nothing more to learn of the device.
func (k *look) over() bool { return k.fatal != "" || k.d.Lost }

// device reads the device of index k.d.Index.
func (k *look) device() {
	h, code := k.api.DeviceGetHandleByIndex(k.d.Index)
	if k.ok("find the GPU", code) {
		k.identify(h)
	} else if none(code) {
		k.d.Fault = "find the GPU: " + explain(code)
	}
	for _, step := range []func(nvml.Device){k.memory, k.processes, k.mig, k.health} {
		if code != nvml.SUCCESS || k.over() {
			break
		}
		step(h)
	}
	if code != nvml.SUCCESS || k.d.Lost {
		k.fall()
	}
}

// fall leaves of a device that does not answer what it was called when it did.
func (k *look) fall() {
	d := k.known[k.d.Index]
	if d.UUID == "" {
		d = gpu.Device{Index: k.d.Index, Minor: -1, UUID: k.d.UUID}
	}
	d.Lost, d.Fault = k.d.Lost, k.d.Fault
	k.d = d
}

// identify reads what does not change.
func (k *look) identify(h nvml.Device) {
	if uuid, code := h.GetUUID(); k.ok("UUID", code) {
		k.d.UUID = uuid
	}
	if k.has.has(fMinor) && !k.over() {
		if minor, code := h.GetMinorNumber(); k.ok("minor number", code) {
			k.d.Minor = minor
		}
	}
	if k.has.has(fName) && !k.over() {
		if name, code := h.GetName(); k.ok("name", code) {
			k.d.Name = name
		}
	}
	if k.has.has(fPCI) && !k.over() {
		if pci, code := h.GetPciInfo(); k.ok("PCI address", code) {
			k.d.PCI = text(pci.BusId[:])
		}
	}
	if !k.over() && k.d.UUID != "" {
		k.known[k.d.Index] = gpu.Device{Index: k.d.Index, UUID: k.d.UUID, Minor: k.d.Minor, PCI: k.d.PCI, Name: k.d.Name}
	}
}

// text is a C string.
func text(chars []int8) string {
	b := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

func (k *look) memory(h nvml.Device) {
	m, code := k.memoryOf(h)
	if k.ok("memory", code) {
		k.d.Memory = m
	}
	// Parts that share the memory of the system have none of their own to tell of.
	k.d.Coherent = code == nvml.ERROR_NOT_SUPPORTED
	if k.has.has(fAddressing) && !k.over() {
		if mode, code := h.GetAddressingMode(); k.ok("addressing mode", code) {
			k.d.Coherent = k.d.Coherent || nvml.DeviceAddressingModeType(mode.Value) == nvml.DEVICE_ADDRESSING_MODE_ATS
		}
	}
}

// memoryOf prefers version 2, which tells the driver's reserve apart. It takes version 1 only where the driver does
// not know the other: a passing error must not change the version, or no two readings could be compared.
func (k *look) memoryOf(h nvml.Device) (*gpu.Memory, nvml.Return) {
	if k.has.has(fMemory2) {
		m, code := h.GetMemoryInfo_v2()
		if code == nvml.SUCCESS {
			return &gpu.Memory{Version: 2, Total: mib(m.Total), Used: mib(m.Used), Reserved: mib(m.Reserved)}, nvml.SUCCESS
		}
		if !none(code) {
			return nil, code
		}
	}
	if !k.has.has(fMemory) {
		return nil, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	m, code := h.GetMemoryInfo()
	if code != nvml.SUCCESS {
		return nil, code
	}
	return &gpu.Memory{Version: 1, Total: mib(m.Total), Used: mib(m.Used)}, code
}

func mib(bytes uint64) int64 { return int64(bytes >> 20) }

// mig reads the MIG devices. In MIG mode all that runs on the GPU runs on one of them, and the GPU itself lists
// processes only to those with the right to see them: so what the MIG devices list counts.
func (k *look) mig(h nvml.Device) {
	if !k.has.has(fMIGMode) {
		return
	}
	current, _, code := h.GetMigMode()
	if !k.ok("MIG mode", code) || current != nvml.DEVICE_MIG_ENABLE {
		return
	}
	all := gpu.Processes{Known: true}
	if !k.has.has(fMIGCount, fMIGHandle, fGI, fCI) {
		k.d.Processes.Known, k.d.Processes.Fault = false, "the driver cannot list MIG devices"
		return
	}
	n, code := h.GetMaxMigDeviceCount()
	if !k.ok("MIG devices", code) {
		all.Known, all.Fault = false, "MIG devices: "+explain(code)
	}
	for i := 0; i < n && !k.over(); i++ {
		m, code := h.GetMigDeviceHandleByIndex(i)
		if code == nvml.ERROR_NOT_FOUND {
			continue
		}
		if !k.ok("MIG device", code) {
			all.Known, all.Fault = false, "MIG device: "+explain(code)
			continue
		}
		found := k.migDevice(m)
		k.d.MIG = append(k.d.MIG, found)
		all.Known = all.Known && found.Processes.Known
		all.Fault = cmp.Or(all.Fault, found.Processes.Fault)
		all.List = unite(all.List, found.Processes.List)
	}
	all.List = unite(all.List, k.d.Processes.List)
	k.d.Processes = all
}

func (k *look) migDevice(h nvml.Device) gpu.MIG {
	m := gpu.MIG{GI: gpu.NoInstance, CI: gpu.NoInstance}
	if uuid, code := h.GetUUID(); k.ok("UUID of a MIG device", code) {
		m.UUID = uuid
	}
	if gi, code := h.GetGpuInstanceId(); k.ok("GPU instance", code) {
		m.GI = uint32(gi)
	}
	if ci, code := h.GetComputeInstanceId(); k.ok("compute instance", code) {
		m.CI = uint32(ci)
	}
	if memory, code := k.memoryOf(h); k.ok("memory of a MIG device", code) {
		m.Memory = memory
	}
	m.Processes = k.processesOf(h)
	for i := range m.Processes.List {
		if p := &m.Processes.List[i]; p.GI == gpu.NoInstance {
			p.GI, p.CI = m.GI, m.CI
		}
	}
	return m
}
