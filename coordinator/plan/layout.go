package plan

import (
	"cmp"
	"maps"
	"slices"

	"pitstop.dev/api/v1alpha1"
)

func (l Layout) has(role string) bool {
	_, ok := l[role]
	return ok
}

// same reports whether two revisions make the same of a unit. Of revisions that cannot be read only
// the name tells.
func (w *world) same(u *unit, a, b string) bool {
	if a == b {
		return true
	}
	la, lb := w.Layouts[a], w.Layouts[b]
	if la == nil || lb == nil {
		return false
	}
	if u.role != "" {
		return sameRole(la, lb, u.role)
	}
	return maps.EqualFunc(la, lb, func(x, y RoleLayout) bool { return x.Digest == y.Digest })
}

func sameRole(a, b Layout, role string) bool {
	x, ok := a[role]
	y, also := b[role]
	return ok && also && x.Digest == y.Digest
}

// layOut returns the instances of a group at a revision: of each of the revision's roles as many as
// are declared. like is a group at hand that has the instances of roles that are no longer declared.
func (w *world) layOut(revision string, like *group) []v1alpha1.RoleInstance {
	layout := w.Layouts[revision]
	var instances []v1alpha1.RoleInstance
	for _, role := range slices.Sorted(maps.Keys(layout)) {
		for o := range w.replicasOf(role, like) {
			instances = append(instances, v1alpha1.RoleInstance{Role: role, Ordinal: new(o)})
		}
	}
	return instances
}

// replicasOf is the number of instances of a role. One that is in the history only has as many as
// the group that is at hand, or one.
func (w *world) replicasOf(role string, like *group) int32 {
	if r, ok := w.declared[role]; ok {
		return r.Replicas
	}
	n := int32(0)
	if like != nil {
		for i := range like.draft.Instances {
			if like.draft.Instances[i].Role == role {
				n++
			}
		}
	}
	return max(n, 1)
}

// pods is the number of Pods of instances at a revision.
func (w *world) pods(revision string, instances []v1alpha1.RoleInstance) int32 {
	n := int32(0)
	for i := range instances {
		n += 1 + w.Layouts[cmp.Or(instances[i].Revision, revision)][instances[i].Role].Workers
	}
	return n
}

func compareInstances(a, b v1alpha1.RoleInstance) int {
	return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(*a.Ordinal, *b.Ordinal))
}
