// Package lookout looks at the GPUs of one Pod: it joins what the driver, procfs, the runtime and kubelet say into a
// sample that gpu/residency judges.
package lookout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
	"pitstop.dev/gpu/residency"
)

// A Lookout looks at the GPUs of Pods. It may be used from several goroutines if its parts may.
type Lookout struct {
	// Reader reads the GPUs of the node.
	Reader gpu.Reader
	// Assigned says which devices kubelet has given to whom.
	Assigned interface {
		Read(ctx context.Context) attribution.Assignments
	}
	// Attributor says whose the processes are.
	Attributor interface {
		Attribute(ctx context.Context, r gpu.Reading) (list []attribution.Holders, known bool)
	}
	// BootID is that of this boot.
	BootID string
}

// Look returns what the Pod's GPUs hold now. What cannot be told is a fault of the sample or of the device.
func (l Lookout) Look(ctx context.Context, pod *corev1.Pod) (residency.Sample, error) {
	r := l.Reader.Read(ctx)
	s := residency.Sample{At: r.At, State: r.State, BootID: l.BootID}
	if r.State == gpu.Absent {
		return s, nil
	}
	a := l.Assigned.Read(ctx)
	targets, fault := targetsOf(pod, a, r)
	switch {
	case len(targets) == 0 && fault == "": // its devices are no GPUs, whatever the driver says
		s.State = gpu.Up
		return s, nil
	case r.State == gpu.Released:
		s.Fault = strings.TrimSpace("the GPU driver is released " + r.Message)
		return s, nil
	case r.State == gpu.Unknown:
		s.Fault = cmp.Or(r.Message, "the GPUs could not be read")
		return s, nil
	case len(targets) == 0:
		s.Fault = fault
		return s, nil
	}
	s.Partial = !complete(pod, a)
	list, _ := l.Attributor.Attribute(ctx, r)
	holders := map[string]attribution.Holders{}
	for _, h := range list {
		holders[h.UUID] = h
	}
	for _, t := range targets {
		s.Devices = append(s.Devices, t.device(holders[t.at.Device.UUID]))
	}
	return s, nil
}

// A target is one device of the Pod.
type target struct {
	uuid   string // empty if it is not known which device it is
	name   string // kubelet's for it, in that case
	shared bool
	at     attribution.Target
	fault  string // why it was not found
}

// targetsOf returns the GPUs and MIG devices that the containers of a Pod were given, each once, or why they are not
// known.
func targetsOf(pod *corev1.Pod, a attribution.Assignments, r gpu.Reading) (targets []target, fault string) {
	at := map[string]int{}
	for _, c := range a.List {
		if c.Pod != nameOf(pod) {
			continue
		}
		for _, d := range c.Devices {
			if !d.GPU() {
				continue
			}
			t := find(d, r)
			if i, ok := at[t.uuid]; ok && t.uuid != "" {
				targets[i].shared = targets[i].shared || t.shared
				continue
			}
			at[t.uuid] = len(targets)
			targets = append(targets, t)
		}
	}
	if len(targets) == 0 && !complete(pod, a) {
		return nil, fmt.Sprintf("it is not known which GPUs the Pod has: %s: %s", a.Reason, a.Message)
	}
	return targets, ""
}

func nameOf(pod *corev1.Pod) attribution.PodName {
	return attribution.PodName{Namespace: pod.Namespace, Name: pod.Name}
}

// complete reports whether kubelet lists all devices of the Pod: it is sure, or has listed as many as each container
// asks for. Init containers that end are never listed.
func complete(pod *corev1.Pod, a attribution.Assignments) bool {
	if a.Confidence == attribution.Known {
		return true
	}
	asked := false
	sidecars := slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c corev1.Container) bool {
		return c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	})
	for _, c := range append(sidecars, pod.Spec.Containers...) {
		listed := map[string]int64{}
		for _, d := range a.Of(nameOf(pod), c.Name) {
			listed[d.Resource]++
		}
		for name, n := range c.Resources.Limits {
			if !strings.Contains(string(name), "/") || strings.HasPrefix(string(name), "kubernetes.io/") {
				continue // kubelet's own, such as cpu
			}
			asked = true
			if listed[string(name)] < n.Value() {
				return false
			}
		}
	}
	return asked
}

// find looks an assigned device up. One that the reading lacks, or could not be read, keeps the UUID that kubelet has
// for it; by a number, or as a part of a GPU, it cannot be told then.
func find(d attribution.Assigned, r gpu.Reading) target {
	if d.Ref == nil {
		return target{name: d.ID, fault: fmt.Sprintf("it is not known which device %s of %s is", d.ID, d.Resource)}
	}
	t := target{shared: d.Ref.Shared}
	found, ok := d.Ref.Find(r)
	switch {
	case !ok && d.Ref.Own() != "":
		t.uuid, t.fault = d.Ref.Own(), "the driver has no device "+d.ID
		return t
	case !ok:
		t.name, t.fault = d.ID, "it is not known which device "+d.ID+" is: the driver has none of that name now"
		return t
	case found.MIG != nil:
		t.uuid = found.MIG.UUID
	case d.Ref.Part:
		t.name, t.fault = d.ID, "it is not known which MIG device "+d.ID+" is"
		return t
	default:
		t.uuid = found.Device.UUID
	}
	t.at = found
	return t
}

// device is what is known of one of the Pod's devices.
func (t target) device(h attribution.Holders) residency.Device {
	d := residency.Device{UUID: t.uuid, Name: t.name, Shared: t.shared, Coherent: t.at.Device.Coherent, Memory: t.at.Device.Memory}
	switch {
	case t.fault != "":
		d.Fault = t.fault
	case t.at.Device.Lost:
		d.Fault = t.uuid + " is lost: it does not answer any more"
	case t.at.Device.Fault != "":
		d.Fault = t.uuid + ": " + t.at.Device.Fault
	case !h.Known:
		d.Fault = t.uuid + ": " + cmp.Or(h.Fault, "its processes are not known")
	}
	if t.at.MIG != nil {
		d.Memory = t.at.MIG.Memory
	}
	for _, one := range h.List {
		if t.at.MIG == nil || one.MIG == t.uuid || one.MIG == "" {
			d.Holders = append(d.Holders, t.holder(one))
		}
	}
	return d
}

// holder is a process in the words of residency. On a GPU with MIG one without an instance may be on another device
// of it.
func (t target) holder(h attribution.Holder) residency.Holder {
	out := residency.Holder{
		PID: h.PID, Started: h.Start, Command: h.Command, MiB: h.MiB, PodUID: h.PodUID, ContainerID: h.ContainerID,
		Ownership: ownership(h),
	}
	if t.at.MIG != nil && h.MIG == "" {
		out.Ownership = residency.Undecided
	}
	return out
}

// ownership says how well it is known whose a process is. One in a container that the runtime does not have any more
// is that container's: control groups say so.
func ownership(h attribution.Holder) residency.Ownership {
	switch h.Outcome {
	case attribution.Attributed:
		return residency.Contained
	case attribution.Undecided:
		return residency.Undecided
	case attribution.Unattributed:
	}
	switch h.Reason {
	case attribution.OnHost:
		return residency.Outside
	case attribution.UnknownContainer:
		return residency.Contained
	case attribution.NotInProcfs:
		return residency.Ghost
	case attribution.Untold, attribution.InPod, attribution.Disagreement, attribution.Unreadable:
	}
	return residency.Undecided
}
