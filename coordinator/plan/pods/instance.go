package pods

import (
	"cmp"
	"maps"
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// An instance is a role instance that is declared or has Pods.
type instance struct {
	role     string
	ordinal  int32
	unit     string
	declared bool
	pin      string
	shape    Shape
	// resolved: the pin could be read, and has the role.
	resolved bool
	// pods are all that exist, by index.
	pods []Pod
	old  v1alpha1.InstanceStatus
	// update covers the instance; nil: none does. prepares is an update that merely prepares: the
	// instance serves, and is looked after as if there were none.
	update, prepares *v1alpha1.UnitUpdate
	// doomed: every Pod that it has is to go, though it may be at the pin: a person asked for new ones.
	doomed bool
	phase  v1alpha1.InstancePhase
	// recoveries is how often it was created anew for having failed, this time included.
	recoveries int32
	// trouble says why the instance gets on no further, where its Pods do not.
	trouble string
}

// instances returns what is declared or has Pods, by role and ordinal.
func instances(s Snapshot) []*instance {
	all := make(map[string]*instance)
	at := func(role string, ordinal int32) *instance {
		unit := v1alpha1.UnitName(role, ordinal)
		if all[unit] == nil {
			all[unit] = &instance{role: role, ordinal: ordinal, unit: unit}
		}
		return all[unit]
	}
	for _, r := range s.Group.Spec.Instances {
		if r.Ordinal == nil {
			continue
		}
		i := at(r.Role, *r.Ordinal)
		i.declared, i.pin = true, cmp.Or(r.Revision, s.Group.Spec.Revision)
		i.shape, i.resolved = s.Revisions[i.pin][i.role]
	}
	for _, p := range s.Pods {
		i := at(p.Role, p.Instance)
		i.pods = append(i.pods, p)
	}
	phases := phasesOf(s.Group.Status)
	out := slices.SortedFunc(maps.Values(all), func(a, b *instance) int {
		return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.ordinal, b.ordinal))
	})
	for _, i := range out {
		if old := phases[i.unit]; old != nil {
			i.old = *old
		}
		i.recoveries = i.old.Recoveries
		if u := covering(s.Group.Spec.Updates, i.unit); u != nil && u.Permit.Allows(v1alpha1.PermitDrain) {
			i.update = u
			i.doomed = u.Recreates() && u.Permit.Allows(v1alpha1.PermitSwap) && !cleared(s.Group.Status, u)
		} else if u != nil && u.Method == v1alpha1.UnitInPlace {
			i.prepares = u
		}
		slices.SortFunc(i.pods, func(a, b Pod) int { return cmp.Compare(a.Index, b.Index) })
	}
	return out
}

// covering returns the update that the unit is part of: that of the whole group goes first, unless it
// merely prepares.
func covering(updates []v1alpha1.UnitUpdate, unit string) *v1alpha1.UnitUpdate {
	var own, whole *v1alpha1.UnitUpdate
	for n := range updates {
		switch updates[n].Unit {
		case "":
			whole = &updates[n]
		case unit:
			own = &updates[n]
		}
	}
	if own == nil || whole != nil && !whole.Preparing() {
		return whole
	}
	return own
}

// cleared reports whether the Pods are gone that the unit had when the attempt took them.
func cleared(st v1alpha1.ServingGroupStatus, u *v1alpha1.UnitUpdate) bool {
	return slices.ContainsFunc(st.Updates, func(s v1alpha1.UnitUpdateStatus) bool {
		return s.Unit == u.Unit && s.Attempt == u.Attempt && s.Cleared
	})
}

// size is the number of Pods that the instance is to have. Where the pin cannot be read it is what
// was reported last.
func (i *instance) size() int32 {
	switch {
	case !i.declared:
		return 0
	case !i.resolved:
		return i.old.Pods
	}
	return i.shape.Workers + 1
}

// expected reports whether the Pod is one that the instance is to have.
func (i *instance) expected(p Pod) bool {
	return i.declared && (!i.resolved || p.Index < i.size())
}

// atPin reports whether the Pod is what the pin says of its role. That it was made from the pin is enough: a
// digest is this build's, and that of an earlier one may differ.
func (i *instance) atPin(p Pod) bool {
	return p.Revision == i.pin || i.resolved && p.Digest != "" && p.Digest == i.shape.Digest
}

// outdated Pods are those that the instance is not to have as they are.
func (i *instance) outdated(p Pod) bool {
	return i.doomed || !i.expected(p) || !i.atPin(p) || i.halfway(p)
}

// halfway reports whether an update in place, that is no more, has left a Pod with other images than its
// pin's: what the Pod says of itself is written when it is opened.
func (i *instance) halfway(p Pod) bool {
	return p.Patched && p.HeldInPlace && i.resolved && !i.inPlace() && len(i.shape.missing(p)) > 0
}

func (i *instance) at(index int32) (Pod, bool) {
	for _, p := range i.pods {
		if p.Index == index {
			return p, true
		}
	}
	return Pod{}, false
}

// missing are the indexes of the Pods that do not exist.
func (i *instance) missing() []int32 {
	if !i.resolved {
		return nil
	}
	var out []int32
	for n := range i.size() {
		if _, ok := i.at(n); !ok {
			out = append(out, n)
		}
	}
	return out
}

// whole reports whether all Pods of the instance exist as they are to be, and no other.
func (i *instance) whole() bool {
	return i.all(func(Pod) bool { return true })
}

// all reports whether the instance is whole and what is asked holds for each Pod.
func (i *instance) all(is func(Pod) bool) bool {
	if !i.resolved && i.size() != int32(len(i.pods)) || len(i.missing()) > 0 {
		return false
	}
	return !slices.ContainsFunc(i.pods, func(p Pod) bool {
		return i.outdated(p) || p.Deleting || p.Ended || !is(p)
	})
}

func (i *instance) readyPods() int32 {
	var n int32
	for _, p := range i.pods {
		if p.Ready && !p.Deleting && i.expected(p) {
			n++
		}
	}
	return n
}

// covered reports whether an open update with that permit, or a higher one, covers the instance.
func (i *instance) covered(p v1alpha1.Permit) bool {
	return i.update != nil && i.update.Permit.Allows(p)
}

// inPlace reports whether an update in place has taken the instance out of service.
func (i *instance) inPlace() bool { return i.update != nil && i.update.Method == v1alpha1.UnitInPlace }

// leaving reports whether the Pods of the instance are on their way out.
func (i *instance) leaving() bool {
	if i.inPlace() {
		return false
	}
	if i.update != nil {
		return !i.covered(v1alpha1.PermitSwap) || i.update.Method == v1alpha1.UnitRemove
	}
	return i.phase == v1alpha1.InstanceRecreating || i.phase == v1alpha1.InstanceRemoving
}
