// Package pins says whether two revisions make the same Pods: then a unit at one of them is not
// outdated where the other is the target, as with a rollout that changes other roles.
package pins

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"

	"pitstop.dev/coordinator/revision"
)

// Pins has what was read of the revisions: by name and role, a digest. Nil knows none.
type Pins map[string]map[string]string

// Of leaves out revisions that cannot be read.
func Of(revisions []*appsv1.ControllerRevision) Pins {
	p := Pins{}
	for _, cr := range revisions {
		data, err := revision.Decode(cr)
		if err != nil {
			continue
		}
		roles := map[string]string{}
		for _, r := range data.Roles {
			roles[r.Name] = data.RoleDigest(r.Name)
		}
		p[cr.Namespace+"/"+cr.Name] = roles
	}
	return p
}

// A Unit is what two revisions are compared for.
type Unit struct {
	Namespace string
	// Role is that of a role instance; empty for a whole group.
	Role string
}

// Same reports whether two revisions make the same Pods of the unit. Of those that were not read the
// names alone tell.
func (p Pins) Same(u Unit, a, b string) bool {
	x, y := p[u.Namespace+"/"+a], p[u.Namespace+"/"+b]
	switch {
	case a == b:
		return true
	case x == nil || y == nil:
		return false
	case u.Role == "":
		return maps.Equal(x, y)
	}
	return x[u.Role] != "" && x[u.Role] == y[u.Role]
}
