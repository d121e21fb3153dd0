package pods

import (
	"cmp"
	"slices"
	"strings"

	"pitstop.dev/api/v1alpha1"
)

// holdGPUs has the Pods of the units that are kept out of traffic for a sick GPU held, and the others let go. The agent
// of the Pod's node closes and opens the gate for it, as for any hold.
func (d *decision) holdGPUs() {
	for _, i := range d.instances {
		holds := d.heldForGPU(i)
		for _, p := range i.pods {
			switch {
			case p.Deleting || p.Ended:
			case holds && !p.HeldGPU:
				d.do(Action{Kind: PlaceGPUHold, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion})
			case !holds && p.HeldGPU:
				d.do(Action{Kind: ClearGPUHold, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion})
			}
		}
	}
}

// heldForGPU reports whether the instance is kept out of traffic for a sick GPU.
func (d *decision) heldForGPU(i *instance) bool {
	return slices.Contains(d.s.Group.Spec.GPUHolds, "") || slices.Contains(d.s.Group.Spec.GPUHolds, i.unit)
}

// gpuFault is what is wrong with a GPU of the Pod, in the words of its agent; empty if nothing is.
func (i *instance) gpuFault(p Pod) string {
	words := "Pod " + p.Name + " on node " + p.Node + ": "
	switch {
	case p.Deleting:
	case p.GPUFault != "":
		return cut(words+p.GPUFault, maxFault)
	case p.GPUUnknown && strings.HasPrefix(i.old.GPUFault, words):
		return i.old.GPUFault
	}
	return ""
}

// driverless reports whether a Pod of a unit of several is to be changed and its agent waits, or would wait, for the GPU
// driver: the others would be out of traffic for as long. A Pod that is alone is given back by its agent. Where some may
// have been changed already there is nothing to go back to.
func (d *decision) driverless(u *v1alpha1.UnitUpdate, i *instance, p Pod) bool {
	if u.Swapped || d.alone(u) || len(d.change(u, i, p, u.Permit).Containers) == 0 {
		return false
	}
	o, answered := d.answer(u, p)
	return p.DriverReleased != "" || answered && o.Reason == v1alpha1.WaitingDriver
}

// noDriver is the standing of an attempt that is given up, or does not begin, as the driver is released.
func (d *decision) noDriver(u *v1alpha1.UnitUpdate, p Pod) standing {
	o, _ := d.answer(u, p)
	return standing{
		stage: v1alpha1.UnitRefused, reason: v1alpha1.UnitReason(v1alpha1.WaitingDriver),
		message: "Pod " + p.Name + " on node " + p.Node + ": " + cmp.Or(p.DriverReleased, o.Message),
	}
}
