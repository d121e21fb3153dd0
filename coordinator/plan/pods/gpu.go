package pods

import "slices"

// holdGPUs has the Pods of the units that are kept out of traffic for a sick GPU held, and the others let go. The agent
// of the Pod's node closes and opens the gate for it, as for any hold.
func (d *decision) holdGPUs() {
	for _, i := range d.instances {
		holds := slices.Contains(d.s.Group.Spec.GPUHolds, "") || slices.Contains(d.s.Group.Spec.GPUHolds, i.unit)
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
