package plan

import "slices"

// A pool is a set of units that share one budget: the ServingGroups of a ModelServing, or the
// instances of one role in one ServingGroup.
type pool struct {
	units                              []*unit
	replicas, maxUnavailable, maxSurge int32
	paused, inPlace                    bool
}

func (p *pool) count(is func(*unit) bool) int32 {
	n := int32(0)
	for _, u := range p.units {
		if is(u) {
			n++
		}
	}
	return n
}

// budget is how many available units may be taken. Less than 0: failures took more than that.
func (p *pool) budget() int32 {
	available := p.count(func(u *unit) bool { return u.available })
	return available - (p.replicas - p.maxUnavailable)
}

// room is how many more units may be in update, those that are booked included.
func (p *pool) room() int32 {
	busy := p.count(func(u *unit) bool { return u.updating() || u.booked && !u.removing() && u.stays() })
	return max(1, p.maxUnavailable+p.maxSurge) - busy
}

// least is how many units there are to be at least. A paused rollout asks for no surge.
func (p *pool) least() int32 {
	if !p.paused && slices.ContainsFunc(p.units, (*unit).eligible) {
		return p.replicas + p.maxSurge
	}
	return p.replicas
}

// most is how many units may stay. Surge stays until the last update is closed, so that a unit
// under way is not the one that has to go.
func (p *pool) most() int32 {
	if slices.ContainsFunc(p.units, func(u *unit) bool { return u.eligible() || u.updating() }) {
		return p.replicas + p.maxSurge
	}
	return p.replicas
}

// free returns the n lowest ordinals that no living unit has.
func (p *pool) free(n int32) []int32 {
	if n <= 0 {
		return nil
	}
	taken := make(map[int32]bool, len(p.units))
	for _, u := range p.units {
		taken[u.ordinal] = true
	}
	var free []int32
	for o := int32(0); int32(len(free)) < n; o++ {
		if !taken[o] {
			free = append(free, o)
		}
	}
	return free
}
