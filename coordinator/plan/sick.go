package plan

import (
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// holdSick keeps units with a sick GPU out of traffic, as many as the budget allows: a driver that calls every GPU
// sick must not take a fleet out of service. Such a unit is in the ledger from before it is held until after it is let
// go, as one in update is, so that it is paid for.
func (w *world) holdSick() {
	w.letGo()
	if !w.byRole() {
		w.holdIn(w.pool.sorted((*unit).toHold, byUpdate))
		return
	}
	left := int32(len(w.groups))
	if most := w.Serving.MaxUnavailableGroups; most > 0 {
		left = most - w.touched()
	}
	for _, g := range w.groups {
		touched := w.touches(g)
		if !g.ailing || g.whole.leaving || !touched && left <= 0 {
			continue
		}
		for _, r := range w.Serving.Roles {
			p := w.rolePool(g, r)
			w.holdIn(p.sorted((*unit).toHold, byUpdate))
		}
		left -= one(!touched && w.touches(g))
	}
}

// toHold reports whether a GPU of the unit is sick, and nothing else goes on with it.
func (u *unit) toHold() bool {
	return u.sick != "" && !u.held && u.stays() && u.open == nil && !u.booked && !u.closed && !u.uncertain && !u.group.crossed(u)
}

// holdIn holds units of one pool, in order, until the budget is spent.
func (w *world) holdIn(units []*unit) {
	for _, u := range units {
		if w.full(u) || w.spare(u) != "" {
			return
		}
		g := u.group
		d := g.edit()
		d.GPUHolds = append(d.GPUHolds, u.unitName())
		slices.Sort(d.GPUHolds)
		g.entries = append(g.entries, u.name())
		w.left--
		u.booked, u.held, u.available = true, true, false
		g.note(v1alpha1.EventGPUHoldPlaced, u.name()+" is kept out of traffic: "+u.sick)
	}
}

// letGo gives units back whose GPUs are healthy again, and those that are no units any more.
func (w *world) letGo() {
	for _, g := range w.groups {
		for _, name := range g.Spec.GPUHolds {
			u, why := g.unit(name), "its GPUs are healthy, or its Pods are gone"
			switch {
			case u == nil:
				why = "it is no more"
			case w.byRole() != (u.role != ""):
				why = "units are others now"
			case u.sick != "":
				continue
			}
			d := g.edit()
			d.GPUHolds = slices.DeleteFunc(d.GPUHolds, func(n string) bool { return n == name })
			g.note(v1alpha1.EventGPUHoldRemoved, v1alpha1.LedgerEntry(g.Name, name)+" is held no more: "+why)
		}
	}
}

// unit returns the unit of the group with that name; nil if there is none.
func (g *group) unit(name string) *unit {
	for u := range g.units() {
		if u.unitName() == name {
			return u
		}
	}
	return nil
}

// findSick finds the units that have a sick GPU, and those that are held for one.
func (g *group) findSick() {
	g.whole.held = slices.Contains(g.Spec.GPUHolds, "")
	g.ailing = len(g.Spec.GPUHolds) > 0
	for i := range g.Status.Instances {
		st := &g.Status.Instances[i]
		if st.GPUFault == "" {
			continue
		}
		g.ailing = true
		if g.whole.sick == "" {
			g.whole.sick = st.GPUFault
		}
	}
}

// heldOf reports whether an instance of the group is held for a GPU.
func (g *group) heldOf(unit string) bool {
	return len(g.Spec.GPUHolds) > 0 && slices.Contains(g.Spec.GPUHolds, unit)
}

// blockedSick tells of a sick GPU: of one that no budget is left for first.
func (w *world) blockedSick() *Verdict {
	var held, serving *unit
	n := 0
	for u := range w.units() {
		switch {
		case u.sick == "" || !u.stays():
		case u.held:
			held = u
		default:
			serving, n = u, n+1
		}
	}
	const way = "drain the node and have done what the GPU needs; `kubectl pitstop node NODE` says what that is"
	switch {
	case serving != nil:
		return blockedBy(v1alpha1.BlockedGPU, "%d units with a sick GPU are not taken out of traffic, for want of budget or as something else goes on with them; %s: %s; %s", n, serving.name(), serving.sick, way)
	case held != nil:
		return blockedBy(v1alpha1.BlockedGPU, "%s is kept out of traffic until its GPU is healthy: %s; %s", held.name(), held.sick, way)
	}
	return nil
}

// standing reports which entries of the ledger holds stand behind.
func (g *group) standing(open map[string]bool) {
	for _, held := range [][]string{g.Spec.GPUHolds, g.draft.GPUHolds} {
		for _, name := range held {
			open[v1alpha1.LedgerEntry(g.Name, name)] = true
		}
	}
}

// wellForPlace reports whether the unit may be updated in place: a new engine is not started on a sick GPU.
func (u *unit) wellForPlace() bool { return u.sick == "" && !u.held }
