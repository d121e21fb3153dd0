package plan

import (
	"cmp"

	"pitstop.dev/api/v1alpha1"
)

// starts returns the units to take for an update now, in order. A unit that is booked has been paid
// for; one that is down costs nothing.
func (p *pool) starts() []*unit {
	if p.paused {
		return nil
	}
	budget, room := p.budget(), p.room()
	var chosen []*unit
	for _, u := range p.sorted(p.startable, byUpdate) {
		switch {
		case u.booked && room >= 0 && (budget >= 0 || u.down):
		case u.booked || room <= 0:
			continue
		case u.down:
			room--
		case budget <= 0:
			continue
		default:
			room--
			budget--
		}
		chosen = append(chosen, u)
	}
	return chosen
}

// startable reports whether the unit may be taken out of service: in place, once its nodes have the images.
func (p *pool) startable(u *unit) bool {
	return u.idle() && (!p.inPlace || u.ahead != nil && u.reached(v1alpha1.UnitPrepared) && u.wellForPlace())
}

// idle reports whether the unit is to be brought to the target, and nothing else goes on with it.
func (u *unit) idle() bool {
	return u.eligible() && u.open == nil && !u.latched() && !u.closed && !u.group.crossed(u)
}

// victims returns the n units that are to go first, as far as that leaves enough available ones. A
// unit of which the revision cannot be read does not go.
func (p *pool) victims(n int32) []*unit {
	if n <= 0 {
		return nil
	}
	budget := p.budget()
	var chosen []*unit
	for _, u := range p.sorted(func(u *unit) bool { return u.stays() && u.known }, byRemoval) {
		counts := u.available || u.uncertain
		if int32(len(chosen)) >= n || counts && budget <= 0 || u.serves() && budget < 0 {
			break
		}
		if counts {
			budget--
		}
		chosen = append(chosen, u)
	}
	return chosen
}

// recalled returns up to n units of which the removal can still be taken back, the lowest ordinals
// first.
func (p *pool) recalled(n int32) []*unit {
	units := p.sorted((*unit).recallable, func(a, b *unit) int { return cmp.Compare(a.ordinal, b.ordinal) })
	return units[:max(0, min(int(n), len(units)))]
}
