package pods_test

import (
	"slices"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// covering is the update that the instance is part of.
func (w *world) covering(unit string) *v1alpha1.UnitUpdate {
	if u := w.update(""); u != nil {
		return u
	}
	return w.update(unit)
}

func (w *world) shape(unit string) pods.Shape {
	role, _, _ := v1alpha1.ParseUnit(unit)
	return revisions()[w.pin(unit)][role]
}

// outdated reports whether the Pod is not what its unit is pinned to.
func (w *world) outdated(p *body) bool {
	unit := v1alpha1.UnitName(p.Role, p.Instance)
	s := w.shape(unit)
	return p.doomed || !w.declared(unit) || p.Index > s.Workers || p.Digest != s.Digest
}

// judge fails the world if the action breaks a rule.
func (w *world) judge(a pods.Action) {
	p, o := w.pods[a.Name], w.orders[a.Name]
	switch a.Kind {
	case pods.CreatePod:
		w.judgeCreate(a)
	case pods.DeletePod:
		w.judgeDelete(a)
	case pods.CreateOrder:
		switch {
		case p == nil || p.UID != a.Order.PodUID || o != nil:
			w.fail("%s: an order for no Pod, or a second one", a.Name)
		default:
			w.judgeOrder(p, a)
		}
	case pods.UpdateOrder:
		switch {
		case o == nil || o.UID != a.UID || p == nil:
			w.fail("%s: an order that is not there is updated", a.Name)
		case a.Order.Attempt < o.Attempt || a.Order.Attempt == o.Attempt && (a.Order.Key != o.Key || !a.Order.Permit.Allows(o.Permit)):
			w.fail("%s: an attempt is changed", a.Name)
		case a.Order.Attempt == o.Attempt && a.Order.Permit == o.Permit:
			w.fail("%s: an order is given twice", a.Name)
		default:
			w.judgeOrder(p, a)
		}
	case pods.DeleteOrder:
		if o == nil || o.UID != a.UID || p != nil && p.UID == o.PodUID {
			w.fail("%s: the order of a live Pod is deleted", a.Name)
		}
	case pods.ClearHold, pods.OpenGate:
		w.judgeOpen(a)
	case pods.CreateService:
		if _, ok := w.services[a.Name]; ok {
			w.fail("%s: a Service is made twice", a.Name)
		}
	case pods.RemoveFinalizer:
		if !w.group.Deleting || len(w.pods) > 0 {
			w.fail("the group is let go with Pods")
		}
	case pods.RestoreFinalizer:
		if w.group.Deleting || w.group.Finalizer {
			w.fail("the finalizer is restored without need")
		}
	case pods.CreatePin, pods.DeletePin, pods.PlaceGPUHold, pods.ClearGPUHold, pods.DeleteService, pods.SetLeader, pods.UnsetLeader, pods.RestoreLabels:
	}
}

func (w *world) judgeCreate(a pods.Action) {
	unit := v1alpha1.UnitName(a.Pod.Role, a.Pod.Instance)
	u := w.covering(unit)
	switch {
	case w.pods[a.Name] != nil:
		w.fail("%s is made twice", a.Name)
	case w.orders[a.Name] != nil:
		w.fail("%s is made under an old order", a.Name)
	case w.group.Deleting || !w.declared(unit):
		w.fail("%s is made and not declared", a.Name)
	case a.Pod.Revision != w.pin(unit) || a.Pod.Digest != w.shape(unit).Digest || a.Pod.Index > w.shape(unit).Workers:
		w.fail("%s is made at another revision than its pin", a.Name)
	case a.Pod.Held != (u != nil && u.Permit != v1alpha1.PermitServe):
		w.fail("%s is born held: %t", a.Name, a.Pod.Held)
	case u != nil && u.Permit == v1alpha1.PermitDrain:
		w.fail("%s is made to be deleted", a.Name)
	case a.Pod.Size > 1 && w.services[v1alpha1.EntryPodName("llm-0", a.Pod.Role, a.Pod.Instance)].Name == "":
		w.fail("%s is made before its Service", a.Name)
	}
	for _, p := range w.pods {
		other := v1alpha1.UnitName(p.Role, p.Instance)
		if (u != nil && w.covering(other) == u || other == unit && w.phase(unit) != v1alpha1.InstanceRunning) && w.outdated(p) {
			w.fail("%s is made while %s of the revision before is there", a.Name, p.Name)
		}
	}
}

// phase is the phase of an instance as it was reported.
func (w *world) phase(unit string) v1alpha1.InstancePhase {
	for _, i := range w.group.Status.Instances {
		if unit == v1alpha1.UnitName(i.Role, *i.Ordinal) {
			return i.Phase
		}
	}
	return ""
}

func (w *world) judgeDelete(a pods.Action) {
	p := w.pods[a.Name]
	if p == nil || p.UID != a.UID || w.deleted[a.UID] {
		w.fail("%s is deleted twice", a.Name)
		return
	}
	w.deleted[a.UID] = true
	unit := v1alpha1.UnitName(p.Role, p.Instance)
	u := w.covering(unit)
	switch {
	case w.group.Deleting:
		return
	case u != nil && u.Permit == v1alpha1.PermitDrain:
		w.fail("%s is deleted before Swap", a.Name)
	case u != nil && !w.outdated(p) && !p.Ended:
		w.fail("%s is deleted for nothing in an update", a.Name)
	case u == nil && w.settings.Recovery == v1alpha1.RecoverNone && !w.outdated(p) && !p.Ended && w.phase(unit) != v1alpha1.InstanceRecreating:
		w.fail("%s is deleted where nothing recovers", a.Name)
	case u == nil && !w.outdated(p) && !p.Ended && w.phase(unit) != v1alpha1.InstanceRecreating:
		w.fail("%s is deleted and its unit is not Recreating", a.Name)
	}
	if !p.Ended && !p.condemned && !w.drained(p) {
		w.fail("%s is deleted undrained", a.Name)
	}
}

// drained reports whether nobody could have the Pod's requests end.
func (w *world) drained(p *body) bool {
	o := w.orders[p.Name]
	return p.HeldUnit || p.Node == "" || p.Deleting || !w.agents[p.Node] ||
		o != nil && o.PodUID == p.UID && o.ReportedAttempt == o.Attempt && (o.Stage == v1alpha1.StageDrained || o.Stage.Ended())
}

// judgeOrder fails the world if a Pod is taken out of traffic for nothing.
func (w *world) judgeOrder(p *body, a pods.Action) {
	if a.Order.Permit != v1alpha1.PermitDrain {
		return
	}
	unit := v1alpha1.UnitName(p.Role, p.Instance)
	u := w.covering(unit)
	switch {
	case u != nil && u.Permit != v1alpha1.PermitDrain && !w.outdated(p):
		w.fail("%s is drained in an update that does not ask for it", a.Name)
	case u == nil && !w.outdated(p) && w.phase(unit) != v1alpha1.InstanceRecreating:
		w.fail("%s is drained for nothing", a.Name)
	}
}

func (w *world) judgeOpen(a pods.Action) {
	p := w.pods[a.Name]
	if p == nil || p.UID != a.UID {
		w.fail("%s is opened and not there", a.Name)
		return
	}
	if u := w.covering(v1alpha1.UnitName(p.Role, p.Instance)); u != nil && u.Permit != v1alpha1.PermitServe {
		w.fail("%s is opened before Serve", a.Name)
	}
	if a.Kind == pods.OpenGate && (w.agents[p.Node] || p.gate != absent || p.HeldInPlace || p.HeldOther) {
		w.fail("the gate of %s is another's to open", a.Name)
	}
}

// judgeReport fails the world if the status says what is not so, or a wait has no reason.
func (w *world) judgeReport(s pods.Snapshot, plan pods.Plan) {
	if s.Group.Deleting {
		return
	}
	for _, st := range plan.Status.Updates {
		if u := w.update(st.Unit); u == nil || u.Attempt != st.Attempt {
			w.fail("update %q: a report on no open attempt", st.Unit)
		} else {
			w.judgeStage(st, u)
		}
	}
	for _, i := range plan.Status.Instances {
		unit := v1alpha1.UnitName(i.Role, *i.Ordinal)
		if !i.Ready && i.Message == "" {
			w.fail("%s waits without a reason", unit)
		}
		if i.Phase == v1alpha1.InstanceRecreating && w.settings.Recovery == v1alpha1.RecoverNone {
			w.fail("%s is recreated where nothing recovers", unit)
		}
		if i.Ready && w.covering(unit) != nil {
			w.fail("%s counts as ready in an update", unit)
		}
	}
}

func (w *world) judgeStage(st v1alpha1.UnitUpdateStatus, u *v1alpha1.UnitUpdate) {
	if st.Reason == "" && st.Stage != v1alpha1.UnitInService {
		w.fail("update %q waits without a reason", st.Unit)
	}
	for _, unit := range w.units(u) {
		for _, p := range w.pods {
			if unit != v1alpha1.UnitName(p.Role, p.Instance) {
				continue
			}
			switch {
			case st.Stage == v1alpha1.UnitDrained && !w.drained(p) && !p.Ended:
				w.fail("update %q: Drained, and %s is not", st.Unit, p.Name)
			case st.Stage == v1alpha1.UnitVerified && u.Permit == v1alpha1.PermitSwap && (w.outdated(p) || !p.ContainersReady || p.Deleting):
				w.fail("update %q: Verified, and %s is not", st.Unit, p.Name)
			case st.Stage == v1alpha1.UnitInService && (w.outdated(p) || p.Deleting || !p.ContainersReady || p.gate != open || p.HeldUnit || p.HeldInPlace):
				w.fail("update %q: InService, and %s is not", st.Unit, p.Name)
			}
		}
		whole := slices.Contains([]v1alpha1.UnitStage{v1alpha1.UnitInService}, st.Stage) ||
			st.Stage == v1alpha1.UnitVerified && u.Permit == v1alpha1.PermitSwap
		if whole && w.declared(unit) && w.count(unit) != w.shape(unit).Workers+1 {
			w.fail("update %q: %s, and Pods of %s are missing", st.Unit, st.Stage, unit)
		}
	}
}

// units are those that the update covers.
func (w *world) units(u *v1alpha1.UnitUpdate) []string {
	if u.Unit != "" {
		return []string{u.Unit}
	}
	var out []string
	for _, i := range w.group.Spec.Instances {
		out = append(out, v1alpha1.UnitName(i.Role, *i.Ordinal))
	}
	return out
}

func (w *world) count(unit string) int32 {
	var n int32
	for _, p := range w.pods {
		if unit == v1alpha1.UnitName(p.Role, p.Instance) {
			n++
		}
	}
	return n
}
