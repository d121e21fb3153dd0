package world

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// ask has the user ask for a verb, mostly of a unit in update, as one does who looks at what is under way.
func (w *World) ask() {
	all := w.Server.All(cluster.ModelServing)
	if len(all) == 0 {
		return
	}
	ms, ok := pick(w.Loop, all...).DeepCopyObject().(*v1alpha1.ModelServing)
	if !ok {
		return
	}
	verb := pick(w.Loop, v1alpha1.VerbRecreate, v1alpha1.VerbRecreate, v1alpha1.VerbCancel, v1alpha1.VerbCancel, v1alpha1.VerbRetry)
	if _, stands := ms.Annotations[verb.Annotation()]; stands && w.Chance(0.5) {
		return // else it takes the place of the one before
	}
	unit := ""
	if verb != v1alpha1.VerbRetry {
		unit = w.unit(ms, verb)
	}
	w.requests++
	id := fmt.Sprintf("request-%d", w.requests)
	metav1.SetMetaDataAnnotation(&ms.ObjectMeta, verb.Annotation(), v1alpha1.FormatRequest(id, unit))
	w.tell("user", "asks to %s %s: %s", verb, unit, id)
	w.must(w.as("user").Update(w.ctx, ms))
	if w.Chance(0.1) { // an old request comes back, as from a backup or a careless apply
		w.After(w.Between(0, 5*time.Minute), func() { w.askAgain(verb, id, unit) })
	}
}

// askAgain writes a request once more. Only the last one is known to have been answered.
func (w *World) askAgain(verb v1alpha1.Verb, id, unit string) {
	for _, o := range w.Server.All(cluster.ModelServing) {
		ms, ok := o.DeepCopyObject().(*v1alpha1.ModelServing)
		if !ok || len(ms.Status.Requests) == 0 {
			continue
		}
		for _, r := range ms.Status.Requests {
			if r.Verb == verb && r.ID == id {
				metav1.SetMetaDataAnnotation(&ms.ObjectMeta, verb.Annotation(), v1alpha1.FormatRequest(id, unit))
				w.tell("user", "asks once more: %s", id)
				w.must(w.as("user").Update(w.ctx, ms))
			}
		}
	}
}

// unit is a unit of the ModelServing: one in update rather than another one, and sometimes one that is none. One
// whose update is taken back has mostly not gone far.
func (w *World) unit(ms *v1alpha1.ModelServing, verb v1alpha1.Verb) string {
	var open, all []string
	for _, o := range w.Server.All(cluster.ServingGroup) {
		g, ok := o.(*v1alpha1.ServingGroup)
		if !ok || !metav1.IsControlledBy(g, ms) {
			continue
		}
		for _, u := range g.Spec.Updates {
			if verb == v1alpha1.VerbCancel && u.Permit.Allows(v1alpha1.PermitSwap) && w.Chance(0.8) {
				continue
			}
			open = append(open, v1alpha1.LedgerEntry(g.Name, u.Unit))
		}
		if ms.Spec.RolloutStrategy.Type == v1alpha1.ServingGroupRollingUpdate {
			all = append(all, g.Name)
			continue
		}
		for _, i := range g.Spec.Instances {
			all = append(all, v1alpha1.LedgerEntry(g.Name, v1alpha1.UnitName(i.Role, *i.Ordinal)))
		}
	}
	switch {
	case len(open) > 0 && w.Chance(0.7):
		return pick(w.Loop, open...)
	case len(all) > 0 && w.Chance(0.9):
		return pick(w.Loop, all...)
	}
	return pick(w.Loop, "m-7", "m-0/prefill-9", "m-0", "m-0/prefill-0")
}
