package plan

import (
	"cmp"
	"slices"
)

// byUpdate orders units for an update: those that are booked already, those that are down, then
// the highest ordinal.
func byUpdate(a, b *unit) int {
	return cmp.Or(
		first(a.booked, b.booked),
		first(a.down, b.down),
		cmp.Compare(b.ordinal, a.ordinal),
	)
}

// byRemoval orders units for removal: unprotected ones, those that are not ready, those that are booked
// already, those that cost least, then the highest ordinal.
func byRemoval(a, b *unit) int {
	return cmp.Or(
		first(!a.protected, !b.protected),
		first(!a.ready, !b.ready),
		first(a.booked, b.booked),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(b.ordinal, a.ordinal),
	)
}

// byCall orders groups for updates of their instances: those first that have instances out of service
// already, then those with a unit that is down, then the highest ordinal.
func byCall(a, b caller) int {
	return cmp.Or(
		first(a.touched, b.touched),
		first(a.down(), b.down()),
		cmp.Compare(b.whole.ordinal, a.whole.ordinal),
	)
}

// first orders what has a property before what has not.
func first[T ~bool](a, b T) int {
	switch {
	case a == b:
		return 0
	case bool(a):
		return -1
	default:
		return 1
	}
}

// sorted returns the units of which is holds, in order. Ordinals make it a total one.
func (p *pool) sorted(is func(*unit) bool, order func(a, b *unit) int) []*unit {
	var units []*unit
	for _, u := range p.units {
		if is(u) {
			units = append(units, u)
		}
	}
	slices.SortFunc(units, order)
	return units
}
