package invariant

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// numbers are a declaration's, with percentages resolved.
type numbers struct {
	replicas, unavailable, surge, partition int
	byGroup                                 bool
	groups                                  int // maxUnavailableGroups; 0: no cap
	roles                                   map[string]numbers
}

func numbersOf(s v1alpha1.ModelServingSpec) numbers {
	n := numbers{replicas: int(*s.Replicas), byGroup: s.RolloutStrategy.Type == v1alpha1.ServingGroupRollingUpdate, roles: map[string]numbers{}}
	if n.byGroup {
		n.unavailable = 1
		if c := s.RolloutStrategy.RollingUpdateConfiguration; c != nil {
			n.unavailable = scaled(c.MaxUnavailable, n.replicas, down, 1)
			n.surge = scaled(c.MaxSurge, n.replicas, up, 0)
			n.partition = scaled(c.Partition, n.replicas, up, 0)
		}
		return n
	}
	if g := s.RolloutStrategy.MaxUnavailableGroups; g != nil {
		n.groups = max(1, scaled(g, n.replicas, down, 0))
	}
	for _, r := range s.Template.Roles {
		replicas := int(*r.Replicas)
		n.roles[r.Name] = numbers{
			replicas: replicas, unavailable: scaled(r.MaxUnavailable, replicas, down, 1),
			surge: scaled(r.MaxSurge, replicas, up, 0), partition: scaled(r.Partition, replicas, up, 0),
		}
	}
	return n
}

// rounding is the direction in which a percentage is rounded.
type rounding bool

const (
	down rounding = false
	up   rounding = true
)

func scaled(v *intstr.IntOrString, total int, r rounding, absent int) int {
	if v == nil {
		return absent
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, bool(r))
	if err != nil {
		return absent
	}
	return n
}

// known are the declarations that the writer may have gone by.
func (c *Checker) known(w cluster.Write, ms *v1alpha1.ModelServing) []numbers {
	var out []numbers
	var last int64
	for _, o := range c.server.Versions(cluster.ModelServing, keyOf(ms), w.Frame.AsOf(cluster.ModelServing)) {
		if m, ok := o.(*v1alpha1.ModelServing); ok && m.UID == ms.UID && m.Generation != last {
			last = m.Generation
			out = append(out, numbersOf(m.Spec))
		}
	}
	return out
}

func highest(known []numbers, of func(numbers) int) int {
	most := 0
	for _, n := range known {
		most = max(most, of(n))
	}
	return most
}

// ofInUpdate bounds how many units are in update at one time: groups; or with RoleRollingUpdate the
// instances of a role in one group, and the groups that have any.
func (c *Checker) ofInUpdate(w cluster.Write, ms *v1alpha1.ModelServing, g *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) {
	known := c.known(w, ms)
	role, _, isInstance := v1alpha1.ParseUnit(u.Unit)
	if slices.ContainsFunc(known, func(n numbers) bool { return n.byGroup == isInstance }) {
		return // the strategy changes, and with it what a unit is
	}
	if !isInstance {
		most := highest(known, func(n numbers) int { return max(1, n.unavailable+n.surge) })
		c.atMost(w, "units", c.groupsInUpdate(ms, ""), most)
		return
	}
	most := highest(known, func(n numbers) int { return max(1, n.roles[role].unavailable+n.roles[role].surge) })
	c.atMost(w, "instances of "+role, c.instancesInUpdate(g, role), most)
	if !slices.ContainsFunc(known, func(n numbers) bool { return n.groups == 0 }) {
		c.atMost(w, "groups", c.groupsInUpdate(ms, u.Unit), highest(known, func(n numbers) int { return n.groups }))
	}
}

func (c *Checker) atMost(w cluster.Write, what string, count, most int) {
	if count > most {
		c.violated(w, ruleInUpdate, "%d %s are in update, at most %d may be", count, what, most)
	}
}

// groupsInUpdate counts the groups that are in a rollout's update as a whole or, if like is that of an
// instance, in parts.
func (c *Checker) groupsInUpdate(ms *v1alpha1.ModelServing, like string) int {
	count := 0
	for _, g := range c.groupsOf(ms) {
		prefix := string(g.UID) + "/"
		for unit := range c.rollouts {
			if strings.HasPrefix(unit, prefix) && (unit == prefix) == (like == "") {
				count++
				break
			}
		}
	}
	return count
}

func (c *Checker) instancesInUpdate(g *v1alpha1.ServingGroup, role string) int {
	count := 0
	for unit := range c.rollouts {
		name, isOf := strings.CutPrefix(unit, string(g.UID)+"/")
		if r, _, ok := v1alpha1.ParseUnit(name); isOf && ok && r == role {
			count++
		}
	}
	return count
}

// ofBudget judges whether a unit may be taken out of service.
func (c *Checker) ofBudget(w cluster.Write, ms *v1alpha1.ModelServing, g *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) {
	known := c.known(w, ms)
	since := w.Frame.AsOf(cluster.ServingGroup)
	role, _, isInstance := v1alpha1.ParseUnit(u.Unit)
	allowed := false
	for _, n := range known {
		switch {
		case !isInstance && (!n.byGroup || !groupReady(g) || len(g.Spec.Instances) == 0):
			allowed = true // the budgets of RoleRollingUpdate are those of its instances
		case !isInstance:
			allowed = allowed || c.serving(ms, g, since) >= n.replicas-n.unavailable
		case !instanceReady(g, u.Unit):
			allowed = true
		default:
			r, declared := n.roles[role]
			allowed = allowed || !declared || n.byGroup || c.servingInstances(ms, g, u.Unit, since) >= r.replicas-r.unavailable
		}
	}
	if !allowed && len(known) > 0 {
		c.violated(w, ruleBudget, "%s is ready, and without it too few are", v1alpha1.LedgerEntry(g.Name, u.Unit))
	}
}

// serving counts the other groups that are ready, or that the writer may have taken for ready.
func (c *Checker) serving(ms *v1alpha1.ModelServing, but *v1alpha1.ServingGroup, since time.Time) int {
	count := 0
	for ordinal := range int32(16) {
		name := v1alpha1.ServingGroupName(ms.Name, ordinal)
		if name == but.Name || c.booked(ms, name) {
			continue
		}
		if c.wasReady(ms, name, since) {
			count++
		}
	}
	return count
}

// wasReady reports whether the group was ready at any time since, and has not been taken out of
// service by the coordinator.
func (c *Checker) wasReady(ms *v1alpha1.ModelServing, name string, since time.Time) bool {
	versions := c.server.Versions(cluster.ServingGroup, types.NamespacedName{Namespace: ms.Namespace, Name: name}, since)
	ready := false
	for _, o := range versions {
		g, ok := o.(*v1alpha1.ServingGroup)
		if !ok || ownerUID(g) != ms.UID {
			continue
		}
		if slices.ContainsFunc(g.Spec.Updates, func(u v1alpha1.UnitUpdate) bool {
			return !u.Preparing() && (u.Unit == "" || u.Method != v1alpha1.UnitRemove)
		}) {
			ready = false
		} else if groupReady(g) {
			ready = true
		}
	}
	return ready
}

// booked reports whether the ledger names the group, or an instance of it that is being updated: one
// that goes because it is no longer declared takes nothing from the group.
func (c *Checker) booked(ms *v1alpha1.ModelServing, name string) bool {
	g, ok := c.server.Stored(cluster.ServingGroup, types.NamespacedName{Namespace: ms.Namespace, Name: name}).(*v1alpha1.ServingGroup)
	return slices.ContainsFunc(ms.Status.Updating, func(entry string) bool {
		group, unit, _ := strings.Cut(entry, "/")
		if group != name || unit == "" || !ok {
			return group == name && unit == ""
		}
		u := openOf(g, unit)
		return u != nil && u.Method != v1alpha1.UnitRemove
	})
}

// groupReady reports whether all instances that the group is to have are reported ready. One that is
// on its way out is missed by nobody.
func groupReady(g *v1alpha1.ServingGroup) bool {
	if g.DeletionTimestamp != nil {
		return false
	}
	return !slices.ContainsFunc(g.Spec.Instances, func(i v1alpha1.RoleInstance) bool {
		unit := v1alpha1.UnitName(i.Role, *i.Ordinal)
		u := updateOf(g, unit)
		return !instanceReady(g, unit) && (u == nil || u.Method != v1alpha1.UnitRemove)
	})
}

func instanceReady(g *v1alpha1.ServingGroup, unit string) bool {
	return slices.ContainsFunc(g.Status.Instances, func(i v1alpha1.InstanceStatus) bool {
		return i.Ready && v1alpha1.UnitName(i.Role, *i.Ordinal) == unit
	})
}

// servingInstances counts the other instances of the unit's role in its group that are ready, or
// that the writer may have taken for ready.
func (c *Checker) servingInstances(ms *v1alpha1.ModelServing, g *v1alpha1.ServingGroup, unit string, since time.Time) int {
	role, own, _ := v1alpha1.ParseUnit(unit)
	count := 0
	for _, i := range g.Spec.Instances {
		name := v1alpha1.UnitName(i.Role, *i.Ordinal)
		if i.Role != role || *i.Ordinal == own || openOf(g, name) != nil || slices.Contains(ms.Status.Updating, v1alpha1.LedgerEntry(g.Name, name)) {
			continue
		}
		for _, o := range c.server.Versions(cluster.ServingGroup, types.NamespacedName{Namespace: g.Namespace, Name: g.Name}, since) {
			if v, ok := o.(*v1alpha1.ServingGroup); ok && instanceReady(v, name) {
				count++
				break
			}
		}
	}
	return count
}

// ofInstances bounds, with RoleRollingUpdate, how many instances of a role a group has.
func (c *Checker) ofInstances(w cluster.Write, ms *v1alpha1.ModelServing, before, after *v1alpha1.ServingGroup) {
	if u := updateOf(after, ""); u != nil {
		return
	}
	known := c.known(w, ms)
	count := map[string]int{}
	grown := map[string]bool{}
	for _, i := range after.Spec.Instances {
		count[i.Role]++
		grown[i.Role] = grown[i.Role] || !declares(before, v1alpha1.UnitName(i.Role, *i.Ordinal))
	}
	for role, n := range count {
		most := highest(known, func(k numbers) int {
			if k.byGroup {
				return 1 << 20
			}
			return k.roles[role].replicas + k.roles[role].surge
		})
		if grown[role] && n > most {
			c.violated(w, ruleLive, "%d instances of %s, at most %d may be", n, role, most)
		}
	}
}
