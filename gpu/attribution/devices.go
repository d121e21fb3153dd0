package attribution

import (
	"slices"
	"strconv"
	"strings"

	"pitstop.dev/gpu"
)

// A Ref is what a device id of kubelet says about a GPU or a MIG device.
type Ref struct {
	// UUID is of the GPU or MIG device; empty if the id has none.
	UUID string
	// Minor is that of the GPU where there is no UUID; -1 if the id does not say.
	Minor int
	// GI and CI name a MIG device of that GPU; NoInstance if the id does not say.
	GI, CI uint32
	// Part: it is a MIG device of that GPU, whether GI says which or not.
	Part bool
	// Shared: others have the same device, as time slices or clients of MPS, so that its memory is not theirs alone.
	Shared bool
}

// Own is the UUID of the device itself, GPU or MIG device; empty if the Ref has none, or that of its GPU alone.
func (r Ref) Own() string {
	if r.GI != gpu.NoInstance {
		return ""
	}
	return r.UUID
}

// ParseDeviceID reads a device id as the device plugins of NVIDIA and GKE make them:
//
//	GPU-<uuid>, MIG-<uuid>, MIG-GPU-<uuid>/<gi>/<ci>      and each with ::<replica>
//	nvidia0, nvidia0/gi3, nvidia0/vgpu0, nvidia0/gi3/vgpu0
func ParseDeviceID(id string) (Ref, bool) {
	base, replica, shared := strings.Cut(id, "::")
	if shared && !digits(replica) {
		return Ref{}, false
	}
	r, ok := parseUUID(base)
	if !ok && !shared {
		r, ok = parseGKE(base)
	}
	r.Shared = r.Shared || shared
	if !ok {
		return Ref{}, false
	}
	return r, true
}

// ParseCDI reads the name of a CDI device, such as "nvidia.com/gpu=GPU-<uuid>", and the names of NVIDIA's DRA driver,
// "k8s.gpu.nvidia.com/claim=<claim UID>-gpu-<minor>". A bare number is an index at the time when the specification
// was written, and tells nothing.
func ParseCDI(name string) (Ref, bool) {
	kind, device, ok := strings.Cut(name, "=")
	if !ok || !strings.Contains(kind, "/") {
		return Ref{}, false
	}
	if r, ok := parseUUID(device); ok {
		return r, true
	}
	if len(device) > 37 && uuid(device[:36]) && device[36] == '-' {
		if r, ok := parseUUID(device[37:]); ok {
			return r, true
		}
		return ParseDRA(device[37:])
	}
	return Ref{}, false
}

// ParseDRA reads the name of a device of the driver gpu.nvidia.com: "gpu-<minor>", or
// "gpu-<minor>-mig-<profile>-<profile id>-<start>", which does not tell the instance.
func ParseDRA(name string) (Ref, bool) {
	rest, ok := strings.CutPrefix(name, "gpu-")
	if !ok {
		return Ref{}, false
	}
	minor, mig, part := strings.Cut(rest, "-mig-")
	n, ok := small(minor)
	if !ok || part && mig == "" {
		return Ref{}, false
	}
	return Ref{Minor: n, GI: gpu.NoInstance, CI: gpu.NoInstance, Part: part}, true
}

func parseUUID(s string) (Ref, bool) {
	r := Ref{UUID: s, Minor: -1, GI: gpu.NoInstance, CI: gpu.NoInstance}
	if old, ok := strings.CutPrefix(s, "MIG-GPU-"); ok {
		part := strings.Split(old, "/")
		if len(part) != 3 || !uuid(part[0]) {
			return Ref{}, false
		}
		gi, okGI := small(part[1])
		ci, okCI := small(part[2])
		r.UUID, r.GI, r.CI, r.Part = "GPU-"+part[0], uint32(gi), uint32(ci), true
		return r, okGI && okCI
	}
	bare, mig := strings.CutPrefix(s, "MIG-")
	if !mig {
		if bare, mig = strings.CutPrefix(s, "GPU-"); !mig {
			return Ref{}, false
		}
		return r, uuid(bare)
	}
	r.Part = true
	return r, uuid(bare)
}

func parseGKE(s string) (Ref, bool) {
	rest, ok := strings.CutPrefix(s, "nvidia")
	if !ok {
		return Ref{}, false
	}
	part := strings.Split(rest, "/")
	minor, ok := small(part[0])
	if !ok {
		return Ref{}, false
	}
	r := Ref{Minor: minor, GI: gpu.NoInstance, CI: gpu.NoInstance}
	part = part[1:]
	if len(part) > 0 {
		if text, is := strings.CutPrefix(part[0], "gi"); is {
			gi, ok := small(text)
			if !ok {
				return Ref{}, false
			}
			r.GI, r.Part, part = uint32(gi), true, part[1:]
		}
	}
	if len(part) > 0 {
		text, is := strings.CutPrefix(part[0], "vgpu")
		if !is || !digits(text) {
			return Ref{}, false
		}
		r.Shared, part = true, part[1:]
	}
	return r, len(part) == 0
}

// small reads a number as the plugins write it: no sign, no leading zeros, at most four digits.
func small(s string) (int, bool) {
	if !digits(s) || len(s) > 4 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// pciAddress reports whether an id is one, such as 0000:3b:00.2.
func pciAddress(id string) bool {
	slot, function, ok := strings.Cut(id, ".")
	part := strings.Split(slot, ":")
	return ok && len(part) == 3 && len(part[0]) >= 4 && len(part[1]) == 2 && len(part[2]) == 2 && len(function) == 1 &&
		!slices.ContainsFunc(append(part, function), func(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") != "" })
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// A Target is a device of a Reading.
type Target struct {
	Device gpu.Device
	// MIG is the MIG device of it that is meant; nil: the whole GPU, or one of its MIG devices that is not known.
	MIG *gpu.MIG
}

// Find returns the device of a Reading that the Ref means. False: the Reading has none, or does not say enough.
func (r Ref) Find(reading gpu.Reading) (Target, bool) {
	for _, d := range reading.Devices {
		is := func(m gpu.MIG) bool { return r.mig(d, m) }
		i := slices.IndexFunc(d.MIG, is)
		switch {
		case i >= 0 && slices.ContainsFunc(d.MIG[i+1:], is):
			return Target{Device: d}, true
		case i >= 0:
			return Target{Device: d, MIG: &d.MIG[i]}, true
		case r.gpu(d) && !r.named():
			return Target{Device: d}, true
		}
	}
	return Target{}, false
}

// named reports whether the Ref names one MIG device.
func (r Ref) named() bool { return r.Part && (r.UUID != "" || r.GI != gpu.NoInstance) }

func (r Ref) gpu(d gpu.Device) bool {
	if r.UUID != "" {
		return r.UUID == d.UUID
	}
	return r.Minor >= 0 && r.Minor == d.Minor
}

func (r Ref) mig(d gpu.Device, m gpu.MIG) bool {
	if !r.Part {
		return false
	}
	if r.GI == gpu.NoInstance {
		return r.UUID != "" && r.UUID == m.UUID
	}
	return r.gpu(d) && r.GI == m.GI && (r.CI == gpu.NoInstance || r.CI == m.CI)
}
