package pods

import (
	"slices"
	"strings"
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
