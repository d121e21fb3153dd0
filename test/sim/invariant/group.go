package invariant

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
	"pitstop.dev/test/sim/world"
)

// ofGroup judges what is written to a ServingGroup's spec.
func (c *Checker) ofGroup(w cluster.Write) {
	if w.Frame == nil || w.Verb == cluster.UpdateStatus {
		return
	}
	if w.Verb == cluster.Remove {
		c.ofRemoval(w, w.Old.(*v1alpha1.ServingGroup))
	}
	ms := c.servingOf(w.Object().(*v1alpha1.ServingGroup))
	if ms == nil {
		return // its ModelServing is gone, and so will it be
	}
	switch w.Verb {
	case cluster.Create:
		c.ofNewGroup(w, ms, w.New.(*v1alpha1.ServingGroup))
	case cluster.Update:
		c.ofSpec(w, ms, w.Old.(*v1alpha1.ServingGroup), w.New.(*v1alpha1.ServingGroup))
	case cluster.Mark:
		c.ofDeletion(w, w.Old.(*v1alpha1.ServingGroup))
	case cluster.Remove: // see ofRemoval
	case cluster.UpdateStatus: // the ServingGroup controller's own report
	}
}

// ofRemoval: a group's ordinal is taken until its last Pod is gone.
func (c *Checker) ofRemoval(w cluster.Write, g *v1alpha1.ServingGroup) {
	if g.DeletionTimestamp == nil {
		c.violated(w, ruleOrdinal, "it had no finalizer that reserves its ordinal")
	}
	for _, pod := range c.server.All(cluster.Pod) {
		if ownerUID(pod) == g.UID && pinned(pod) == "" && pod.GetCreationTimestamp().Add(slack).Before(w.At) {
			c.violated(w, ruleOrdinal, "its Pod %s lives", pod.GetName())
		}
	}
}

func (c *Checker) ofNewGroup(w cluster.Write, ms *v1alpha1.ModelServing, g *v1alpha1.ServingGroup) {
	if g.Name != v1alpha1.ServingGroupName(ms.Name, *g.Spec.Ordinal) {
		c.violated(w, ruleOrdinal, "ordinal %d", *g.Spec.Ordinal)
	}
	if !slices.Contains(g.Finalizers, v1alpha1.FinalizerOrdinal) {
		c.violated(w, ruleOrdinal, "it has no finalizer that reserves its ordinal")
	}
	c.ofReferences(w, g)
	known := c.known(w, ms)
	live := len(c.groupsOf(ms))
	if most := highest(known, func(n numbers) int { return n.replicas + n.surge }); live > most {
		c.violated(w, ruleLive, "%d groups live, at most %d may", live, most)
	}
	c.ofNewPin(w, ms, g, known)
}

// ofNewPin: below the partition a new group is what is current; see DESIGN 3.2, 5.
func (c *Checker) ofNewPin(w cluster.Write, ms *v1alpha1.ModelServing, g *v1alpha1.ServingGroup, known []numbers) {
	protected := true
	for _, n := range known {
		protected = protected && n.byGroup && int(*g.Spec.Ordinal) < n.partition
	}
	if !protected {
		return
	}
	for _, o := range c.server.Versions(cluster.ModelServing, keyOf(ms), w.Frame.AsOf(cluster.ModelServing)) {
		if m, ok := o.(*v1alpha1.ModelServing); ok && (m.Status.CurrentRevision == g.Spec.Revision || m.Status.CurrentRevision == "") {
			return
		}
	}
	c.violated(w, rulePartition, "it is protected and not at the current revision")
}

func (c *Checker) ofReferences(w cluster.Write, g *v1alpha1.ServingGroup) {
	for _, name := range referred(g) {
		if c.server.Stored(cluster.ControllerRevision, types.NamespacedName{Namespace: g.Namespace, Name: name}) == nil {
			c.violated(w, ruleRevision, "it names %s, which is not stored", name)
		}
	}
}

func (c *Checker) ofSpec(w cluster.Write, ms *v1alpha1.ModelServing, before, after *v1alpha1.ServingGroup) {
	c.ofNewReferences(w, before, after)
	for _, u := range before.Spec.Updates {
		if updateOf(after, u.Unit) == nil {
			c.ofClosing(w, before, after, u)
		}
	}
	var opened []v1alpha1.UnitUpdate
	for _, u := range after.Spec.Updates {
		was := updateOf(before, u.Unit)
		switch {
		case was == nil:
			opened = append(opened, u)
		case was.Preparing():
			c.ofPrepared(w, before, *was, u)
			if !u.Preparing() {
				opened = append(opened, u)
			}
		case u.Preparing(): // closed and begun anew in one write
			c.ofClosing(w, before, after, *was)
		case was.Attempt != u.Attempt:
			c.ofAttempt(w, before, *was, u)
		case was.Permit != u.Permit:
			c.ofPermit(w, before, after, *was, u)
		}
	}
	c.ofRequests(w, ms, before, after)
	c.ofGPUHolds(w, ms, before, after)
	for _, u := range opened { // last: the same write may make room for them
		c.ofOpening(w, ms, before, u)
	}
	c.ofSwapped(after)
	c.ofPins(w, before, after)
	c.ofInstances(w, ms, before, after)
}

// ofNewReferences: what a group named before may have been deleted by somebody.
func (c *Checker) ofNewReferences(w cluster.Write, before, after *v1alpha1.ServingGroup) {
	old := referred(before)
	for _, name := range referred(after) {
		if !slices.Contains(old, name) && c.server.Stored(cluster.ControllerRevision, types.NamespacedName{Namespace: after.Namespace, Name: name}) == nil {
			c.violated(w, ruleRevision, "it names %s, which is not stored", name)
		}
	}
}

// ofPrepared judges what becomes of an update that merely prepared: another attempt, or the drain.
func (c *Checker) ofPrepared(w cluster.Write, before *v1alpha1.ServingGroup, was, u v1alpha1.UnitUpdate) {
	entry := v1alpha1.LedgerEntry(before.Name, u.Unit)
	switch {
	case was.Attempt != u.Attempt && u.Attempt <= before.Spec.LastAttempt:
		c.violated(w, rulePermit, "attempt %d of %s is not new", u.Attempt, entry)
	case u.Preparing() || u.Method == v1alpha1.UnitRemove || u.Recreates():
	case was.Attempt != u.Attempt || u.Permit != v1alpha1.PermitDrain || stageOf(before, was) != v1alpha1.UnitPrepared:
		c.violated(w, rulePermit, "%s gets %s at stage %q of attempt %d", entry, u.Permit, stageOf(before, was), was.Attempt)
	case u.Method == v1alpha1.UnitInPlace:
		c.ofProof(w, before, u)
	}
}

// ofProof: a unit leaves traffic only for images that kubelet starts.
func (c *Checker) ofProof(w cluster.Write, g *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) {
	for _, pod := range c.podsOf(g, u.Unit) {
		p, _ := placeOf(pod)
		images := c.facts(g, u.Target).images[p.role]
		if image := images[min(p.index, 1)]; pod.DeletionTimestamp == nil && image != imageOf(pod) && world.Borrowed(image) {
			c.violated(w, ruleProof, "kubelet will not start %s for %s", image, pod.Name)
		}
	}
}

// ofOpening judges the first write of an update.
func (c *Checker) ofOpening(w cluster.Write, ms *v1alpha1.ModelServing, g *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) {
	entry := v1alpha1.LedgerEntry(g.Name, u.Unit)
	if u.Preparing() {
		return // it costs nothing
	}
	if !slices.Contains(ms.Status.Updating, entry) {
		c.violated(w, ruleLedger, "%s is not in the ledger %v", entry, ms.Status.Updating)
	}
	if u.Permit != v1alpha1.PermitDrain {
		c.violated(w, rulePermit, "update of %s opens with permit %s", entry, u.Permit)
	}
	for _, other := range g.Spec.Updates {
		if (other.Unit == "") != (u.Unit == "") && !other.Preparing() && u.Method != v1alpha1.UnitRemove {
			c.violated(w, rulePermit, "update of %s starts while %s is in update", entry, v1alpha1.LedgerEntry(g.Name, other.Unit))
		}
	}
	c.ofBudget(w, ms, g, u)
	if u.Method != v1alpha1.UnitRemove {
		c.rollouts[string(g.UID)+"/"+u.Unit] = true
		c.ofInUpdate(w, ms, g, u)
		if !u.Recreates() {
			c.ofProtected(w, ms, g, u)
		}
	}
}

// ofProtected: no unit below the partition is updated.
func (c *Checker) ofProtected(w cluster.Write, ms *v1alpha1.ModelServing, g *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) {
	for _, n := range c.known(w, ms) {
		if !n.byGroup || int(*g.Spec.Ordinal) >= n.partition {
			if role, ordinal, ok := v1alpha1.ParseUnit(u.Unit); !ok || n.byGroup || int(ordinal) >= n.roles[role].partition {
				return
			}
		}
	}
	c.violated(w, rulePartition, "%s is protected", v1alpha1.LedgerEntry(g.Name, u.Unit))
}

// ofAttempt judges a new attempt of an open update.
func (c *Checker) ofAttempt(w cluster.Write, before *v1alpha1.ServingGroup, was, u v1alpha1.UnitUpdate) {
	entry := v1alpha1.LedgerEntry(before.Name, u.Unit)
	if u.Attempt <= before.Spec.LastAttempt {
		c.violated(w, rulePermit, "attempt %d of %s is not new", u.Attempt, entry)
	}
	switch u.Permit {
	case v1alpha1.PermitServe:
		if u.Target != pinOf(before, u.Unit) {
			c.violated(w, rulePermit, "%s backs out to %s, not to its pin %s", entry, u.Target, pinOf(before, u.Unit))
		}
		if was.Permit.Allows(v1alpha1.PermitSwap) {
			c.violated(w, rulePermit, "%s backs out after Swap", entry)
		}
		c.backOuts[entry] = u.Attempt
	case v1alpha1.PermitDrain:
	case v1alpha1.PermitPrepare, v1alpha1.PermitSwap:
		c.violated(w, rulePermit, "a new attempt of %s starts at %s", entry, u.Permit)
	}
	if u.Method == v1alpha1.UnitRemove {
		delete(c.rollouts, string(before.UID)+"/"+u.Unit)
	}
}

// ofPermit judges a higher permit: it answers a stage that was reported on this attempt and spec.
func (c *Checker) ofPermit(w cluster.Write, before, after *v1alpha1.ServingGroup, was, u v1alpha1.UnitUpdate) {
	entry := v1alpha1.LedgerEntry(before.Name, u.Unit)
	want := v1alpha1.UnitVerified
	if !was.Permit.Allows(v1alpha1.PermitSwap) {
		want = v1alpha1.UnitDrained
	}
	if stage := stageOf(before, u); stage != want && (want != v1alpha1.UnitVerified || stage != v1alpha1.UnitInService) {
		c.violated(w, rulePermit, "%s gets %s at stage %q", entry, u.Permit, stage)
	}
	if !u.Permit.Allows(was.Permit) {
		c.violated(w, rulePermit, "%s goes back to %s", entry, u.Permit)
	}
	if u.Method != v1alpha1.UnitRemove && want == v1alpha1.UnitDrained && pinOf(after, u.Unit) != u.Target {
		c.violated(w, rulePin, "%s gets %s and its pin is not the target", entry, u.Permit)
	}
}

func (c *Checker) ofClosing(w cluster.Write, before, after *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) {
	delete(c.rollouts, string(before.UID)+"/"+u.Unit)
	whole := updateOf(after, "")
	c.ofRecreated(w, before, u)
	switch {
	case u.Preparing():
	case u.Unit != "" && whole != nil && whole.Method == v1alpha1.UnitRemove:
	case u.Method == v1alpha1.UnitRemove && u.Unit != "":
		if slices.ContainsFunc(before.Status.Instances, func(i v1alpha1.InstanceStatus) bool {
			return v1alpha1.UnitName(i.Role, *i.Ordinal) == u.Unit
		}) {
			c.violated(w, rulePermit, "removal of %s is closed while it is reported", v1alpha1.LedgerEntry(before.Name, u.Unit))
		}
	case stageOf(before, u) == v1alpha1.UnitFailed && c.givenUp(before, u):
		// Its Pods are at the pin, nothing newer is wanted of it, and it is broken: that is recovery's.
	case stageOf(before, u) != v1alpha1.UnitInService:
		c.violated(w, rulePermit, "update of %s is closed at stage %q", v1alpha1.LedgerEntry(before.Name, u.Unit), stageOf(before, u))
	}
}

// givenUp reports whether an update that failed leads to what is not the target: on the way back, or of
// a unit that a higher partition keeps where it is.
func (c *Checker) givenUp(g *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) bool {
	if c.backOuts[v1alpha1.LedgerEntry(g.Name, u.Unit)] == u.Attempt {
		return true
	}
	ms := c.servingOf(g)
	return u.Permit == v1alpha1.PermitServe && (ms.Generation != ms.Status.ObservedGeneration || ms.Status.UpdateRevision != u.Target)
}

// stageOf is what was reported on this attempt, if the report is about the present spec.
func stageOf(g *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) v1alpha1.UnitStage {
	if g.Status.ObservedGeneration != g.Generation {
		return ""
	}
	for _, s := range g.Status.Updates {
		if s.Unit == u.Unit && s.Attempt == u.Attempt {
			return s.Stage
		}
	}
	return ""
}

// ofDeletion: a group is deleted once its removal was booked and its Pods are drained.
func (c *Checker) ofDeletion(w cluster.Write, g *v1alpha1.ServingGroup) {
	u := updateOf(g, "")
	if u == nil || u.Method != v1alpha1.UnitRemove || stageOf(g, *u) != v1alpha1.UnitDrained {
		c.violated(w, rulePermit, "its removal is not drained")
	}
}

// ofPins: outside of Swap a pin changes only for an equal one.
func (c *Checker) ofPins(w cluster.Write, before, after *v1alpha1.ServingGroup) {
	for _, i := range after.Spec.Instances {
		unit := v1alpha1.UnitName(i.Role, *i.Ordinal)
		was, is := pinOf(before, unit), pinOf(after, unit)
		if !declares(before, unit) || c.facts(after, was).digests[i.Role] == c.facts(after, is).digests[i.Role] {
			continue
		}
		if !swaps(before, after, unit) && !swaps(before, after, "") {
			c.violated(w, rulePin, "%s goes from %s to %s", v1alpha1.LedgerEntry(after.Name, unit), was, is)
		}
	}
}

// swaps reports whether the write lets the unit swap to its new pin.
func swaps(before, after *v1alpha1.ServingGroup, unit string) bool {
	u := updateOf(after, unit)
	return u != nil && u.Permit.Allows(v1alpha1.PermitSwap) && u.Target == pinOf(after, unit) && stageOf(before, *u) == v1alpha1.UnitDrained
}

func (c *Checker) facts(g *v1alpha1.ServingGroup, name string) revisionFacts {
	return c.revisions[types.NamespacedName{Namespace: g.Namespace, Name: name}]
}

// declares reports whether the group is to have the instance.
func declares(g *v1alpha1.ServingGroup, unit string) bool {
	return slices.ContainsFunc(g.Spec.Instances, func(i v1alpha1.RoleInstance) bool { return v1alpha1.UnitName(i.Role, *i.Ordinal) == unit })
}

// pinOf is the revision that the unit is bound to.
func pinOf(g *v1alpha1.ServingGroup, unit string) string {
	for _, i := range g.Spec.Instances {
		if i.Revision != "" && v1alpha1.UnitName(i.Role, *i.Ordinal) == unit {
			return i.Revision
		}
	}
	return g.Spec.Revision
}

// groupsOf are the groups that the ModelServing owns, by name.
func (c *Checker) groupsOf(ms *v1alpha1.ModelServing) []*v1alpha1.ServingGroup {
	byOrdinal := map[int32]*v1alpha1.ServingGroup{}
	for _, o := range c.server.All(cluster.ServingGroup) {
		if g := o.(*v1alpha1.ServingGroup); ownerUID(g) == ms.UID {
			byOrdinal[*g.Spec.Ordinal] = g
		}
	}
	out := make([]*v1alpha1.ServingGroup, 0, len(byOrdinal))
	for _, ordinal := range slices.Sorted(maps.Keys(byOrdinal)) {
		out = append(out, byOrdinal[ordinal])
	}
	return out
}

func (c *Checker) servingOf(g *v1alpha1.ServingGroup) *v1alpha1.ModelServing {
	for _, o := range c.server.All(cluster.ModelServing) {
		if ms := o.(*v1alpha1.ModelServing); ms.UID == ownerUID(g) {
			return ms
		}
	}
	return nil
}

func keyOf(ms *v1alpha1.ModelServing) types.NamespacedName {
	return types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}
}
