//go:build cgo && linux

package nvml

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"pitstop.dev/gpu"
)

// A list is one of the process lists of a device. A driver that says "not supported" has no such list, except for
// compute, which every driver has.
type list struct {
	name, feature string
	optional      bool
	read          func(nvml.Device) ([]nvml.ProcessInfo, nvml.Return)
}

func lists() []list {
	return []list{
		{"compute", fCompute, false, nvml.Device.GetComputeRunningProcesses},
		{"graphics", fGraphics, true, nvml.Device.GetGraphicsRunningProcesses},
		{"MPS", fMPS, true, nvml.Device.GetMPSComputeRunningProcesses},
	}
}

func (k *look) processes(h nvml.Device) { k.d.Processes = k.processesOf(h) }

// processesOf reads the lists of a GPU or MIG device. Not all of them at once: what starts meanwhile is in some of
// them only.
func (k *look) processesOf(h nvml.Device) gpu.Processes {
	found := gpu.Processes{Known: true}
	unknown := func(why string) { found.Known, found.Fault = false, cmp.Or(found.Fault, why) }
	for _, l := range lists() {
		if !k.has.has(l.feature) {
			unknown("the driver lacks " + l.feature)
			continue
		}
		infos, code := l.read(h)
		switch {
		case code == nvml.SUCCESS:
		case l.optional && none(code):
			continue
		case fatal(code) || code == nvml.ERROR_GPU_IS_LOST:
			k.ok(l.name+" processes", code)
			return gpu.Processes{Fault: l.name + " processes: " + explain(code)}
		default:
			unknown(l.name + " processes: " + explain(code))
			continue
		}
		read, why := convert(infos, k.d.Memory)
		if why != "" {
			unknown(l.name + " processes: " + why)
		}
		found.List = unite(found.List, read)
	}
	return found
}

// pidLimit is what Linux numbers processes below, at most.
const pidLimit = 4 << 20

// allOnes is how NVML says that it does not know.
const allOnes = ^uint64(0)

// convert leaves out what cannot be, and says so: some drivers of version 535 wrote entries in another layout than
// their interface says, so that most numbers are parts of others.
func convert(infos []nvml.ProcessInfo, memory *gpu.Memory) (list []gpu.Process, why string) {
	for _, in := range infos {
		p := gpu.Process{PID: int32(in.Pid), UsedMiB: mib(in.UsedGpuMemory), GI: in.GpuInstanceId, CI: in.ComputeInstanceId}
		if in.UsedGpuMemory == allOnes {
			p.UsedMiB = -1
		}
		if in.Pid > pidLimit || memory != nil && p.UsedMiB > memory.Total {
			why = fmt.Sprintf("entry with PID %d and %d MiB cannot be", in.Pid, p.UsedMiB)
			continue
		}
		list = append(list, p)
	}
	return list, why
}

// unite joins two lists by PID. A process that is in both holds what the larger entry says: they tell of the same
// memory. PID 0 is nobody in particular, so that its entries are never joined.
func unite(a, b []gpu.Process) []gpu.Process {
	all := slices.Clone(a)
	for _, p := range b {
		i := slices.IndexFunc(all, func(o gpu.Process) bool {
			return p.PID != 0 && o.PID == p.PID && (o.GI == p.GI && o.CI == p.CI || o.GI == gpu.NoInstance || p.GI == gpu.NoInstance)
		})
		if i < 0 {
			all = append(all, p)
			continue
		}
		o := &all[i]
		o.UsedMiB = max(o.UsedMiB, p.UsedMiB)
		if o.GI == gpu.NoInstance {
			o.GI, o.CI = p.GI, p.CI
		}
	}
	slices.SortStableFunc(all, func(a, b gpu.Process) int { return cmp.Compare(a.PID, b.PID) })
	return all
}
