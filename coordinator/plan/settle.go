package plan

// settle pins groups to the target that are what the target makes of them: the last of their parts
// got there, or the two revisions differ in nothing that concerns them. No Pod is touched.
func (w *world) settle() {
	for _, g := range w.groups {
		if w.foldable(g) {
			d := g.edit()
			d.Revision = w.Target
			for i := range d.Instances {
				d.Instances[i].Revision = ""
			}
		}
	}
}

func (w *world) foldable(g *group) bool {
	u := g.whole
	if u.leaving || u.booked || u.protected && u.pin != w.Target || !u.known || !u.atTarget || len(g.draft.Updates) > 0 {
		return false
	}
	if u.pin == w.Target && !g.overrides() {
		return false
	}
	// An added role counts for the group's readiness from here on, so it has to be ready.
	return !g.anyPart(func(i *unit) bool {
		return i.booked || i.leaving || !g.layout.has(i.role) && !i.ready
	})
}

// overrides reports whether an instance has a pin of its own.
func (g *group) overrides() bool {
	if !g.changed {
		return g.ownPins
	}
	for i := range g.draft.Instances {
		if g.draft.Instances[i].Revision != "" {
			return true
		}
	}
	return false
}
