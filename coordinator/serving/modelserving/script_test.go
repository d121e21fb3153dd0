package modelserving_test

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// simplePlan makes all groups, then takes one after the other through its update: as much of a plan
// as the shell has to be shown, and no more.
func simplePlan(s plan.Snapshot) plan.Plan {
	p := plan.Plan{Report: plan.Report{
		Replicas: int32(len(s.Groups)), Complete: len(s.Groups) == int(s.Serving.Replicas) && len(s.Ledger) == 0,
		Progressing: plan.Verdict{Reason: v1alpha1.ProgressingComplete}, Enough: plan.Verdict{True: true, Reason: v1alpha1.AvailableEnough},
	}}
	have := map[string]plan.Group{}
	for _, g := range s.Groups {
		have[g.Name] = g
		if g.Spec.Revision == s.Target && len(g.Spec.Updates) == 0 {
			p.Report.Updated++
		} else {
			p.Report.Complete = false
		}
	}
	for i := range s.Serving.Replicas {
		if _, ok := have[v1alpha1.ServingGroupName("ms", i)]; !ok {
			p.Actions = append(p.Actions, createAction(s, i))
		}
	}
	for i := s.Serving.Replicas; i < int32(len(s.Groups)); i++ {
		if g, ok := have[v1alpha1.ServingGroupName("ms", i)]; ok && !g.Deleting {
			p.Actions = append(p.Actions, plan.Action{Kind: plan.Delete, Group: g.Name, UID: g.UID, ResourceVersion: g.ResourceVersion})
		}
	}
	if len(p.Actions) == 0 {
		p.Actions = update(s)
	}
	return p
}

func createAction(s plan.Snapshot, n int32) plan.Action {
	spec := v1alpha1.ServingGroupSpec{Ordinal: &n, Revision: s.Target, Instances: []v1alpha1.RoleInstance{{Role: "prefill", Ordinal: ordinal(0)}}}
	name := v1alpha1.ServingGroupName("ms", n)
	return plan.Action{Kind: plan.Create, Group: name, Spec: spec, Event: v1alpha1.EventScaled, Message: "created " + name}
}

func update(s plan.Snapshot) []plan.Action {
	for _, g := range s.Groups {
		spec := *g.Spec.DeepCopy()
		a := plan.Action{Kind: plan.Write, Group: g.Name, UID: g.UID, ResourceVersion: g.ResourceVersion}
		switch {
		case len(spec.Updates) > 0:
			if !advance(&spec, g.Status) {
				return nil
			}
			a.Spec = spec
			return []plan.Action{a}
		case slices.Contains(s.Ledger, g.Name) && spec.Revision == s.Target:
			return []plan.Action{{Kind: plan.Strike, Entries: []string{g.Name}}}
		case spec.Revision != s.Target:
			spec.LastAttempt++
			spec.Updates = []v1alpha1.UnitUpdate{{
				Attempt: spec.LastAttempt, Method: v1alpha1.UnitRecreate, Target: s.Target, Previous: spec.Revision, Permit: v1alpha1.PermitDrain,
			}}
			a.Spec, a.Event, a.Message = spec, v1alpha1.EventUnitStarted, g.Name+" is being updated"
			return []plan.Action{{Kind: plan.Book, Entries: []string{g.Name}}, a}
		}
	}
	return nil
}

func advance(spec *v1alpha1.ServingGroupSpec, st v1alpha1.ServingGroupStatus) bool {
	u := &spec.Updates[0]
	if len(st.Updates) == 0 || st.Updates[0].Attempt != u.Attempt {
		return false
	}
	if st.Updates[0].Stage == v1alpha1.UnitInService {
		spec.Updates = nil
		return true
	}
	if st.Updates[0].Stage == v1alpha1.UnitDrained {
		u.Permit, spec.Revision = v1alpha1.PermitServe, u.Target
		return true
	}
	return false
}

// obey is the ServingGroup controller as far as the other one sees it, with Pods that are ready at
// once.
func (w *world) obey() {
	w.t.Helper()
	for _, sg := range w.groups() {
		if !sg.DeletionTimestamp.IsZero() {
			sg.Finalizers = nil
			if err := w.api.Update(w.t.Context(), sg); err != nil {
				w.t.Fatal(err)
			}
			continue
		}
		st := w.answer(sg)
		if equality.Semantic.DeepEqual(st, sg.Status) {
			continue
		}
		sg.Status = st
		if err := w.api.Status().Update(w.t.Context(), sg); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) answer(sg *v1alpha1.ServingGroup) v1alpha1.ServingGroupStatus {
	epoch := metav1.NewTime(w.clock.Now())
	st := v1alpha1.ServingGroupStatus{ObservedGeneration: sg.Generation}
	for _, u := range sg.Spec.Updates {
		stage := map[v1alpha1.Permit]v1alpha1.UnitStage{
			v1alpha1.PermitDrain: v1alpha1.UnitDrained, v1alpha1.PermitSwap: v1alpha1.UnitVerified, v1alpha1.PermitServe: v1alpha1.UnitInService,
		}[u.Permit]
		st.Updates = append(st.Updates, v1alpha1.UnitUpdateStatus{Unit: u.Unit, Attempt: u.Attempt, Stage: stage, Since: epoch})
	}
	for _, i := range sg.Spec.Instances {
		revision := i.Revision
		if revision == "" {
			revision = sg.Spec.Revision
		}
		st.Instances = append(st.Instances, v1alpha1.InstanceStatus{
			Role: i.Role, Ordinal: i.Ordinal, Phase: v1alpha1.InstanceRunning, Revision: revision, Pods: 1, ReadyPods: 1, LivePods: 1,
			Ready: len(sg.Spec.Updates) == 0, ReadySince: &epoch,
		})
	}
	st.Pods = int32(len(sg.Spec.Instances))
	st.ReadyPods, st.LivePods = st.Pods, st.Pods
	return st
}

// settle lets the two controllers answer each other until neither has anything to write.
func (w *world) settle() {
	w.t.Helper()
	for range 100 {
		before := len(w.writes)
		_, err := w.pass()
		for err != nil { // as the work queue does
			_, err = w.pass()
		}
		w.obey()
		if len(w.writes) == before {
			return
		}
	}
	w.t.Fatalf("does not settle; last writes %v", w.writes[len(w.writes)-10:])
}
