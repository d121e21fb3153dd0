package invariant

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/sim/cluster"
)

// ofAnswers: the coordinator writes of a ModelServing the status, and removes the annotations of requests whose
// answers are stored; an answer that says that something has begun is never taken back.
func (c *Checker) ofAnswers(w cluster.Write, before, after *v1alpha1.ModelServing) {
	if w.Verb == cluster.UpdateStatus {
		for _, was := range before.Status.Requests {
			if is := answerTo(after, was.Verb); is == nil || is.ID == was.ID && was.Outcome == v1alpha1.RequestBegun && is.Outcome != was.Outcome {
				c.violated(w, ruleRequest, "the answer to %s was %s and is %+v", was.ID, was.Outcome, is)
			}
		}
		return
	}
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !w.Bound {
		c.violated(w, ruleRequest, "more is written than that annotations are removed")
	}
	for key, value := range before.Annotations {
		if now, stays := after.Annotations[key]; stays && now == value {
			continue
		}
		verb, asked := strings.CutPrefix(key, v1alpha1.DoPrefix)
		id, _, _ := v1alpha1.ParseRequest(value)
		if r := answerTo(before, v1alpha1.Verb(verb)); !asked || r == nil || r.ID != id {
			c.violated(w, ruleRequest, "annotation %s: %s is taken away and not answered", key, value)
		}
	}
}

func answerTo(ms *v1alpha1.ModelServing, verb v1alpha1.Verb) *v1alpha1.RequestStatus {
	for i := range ms.Status.Requests {
		if ms.Status.Requests[i].Verb == verb {
			return &ms.Status.Requests[i]
		}
	}
	return nil
}

// ofRequests: an attempt that a person asked for follows the answer that accepts it, and there is one. Where a
// unit is created anew its Pods are doomed from the swap on, and no others.
func (c *Checker) ofRequests(w cluster.Write, ms *v1alpha1.ModelServing, before, after *v1alpha1.ServingGroup) {
	for _, u := range after.Spec.Updates {
		was := updateOf(before, u.Unit)
		if u.Request == nil {
			continue
		}
		entry, id := v1alpha1.LedgerEntry(after.Name, u.Unit), u.Request.ID
		if known := was != nil && was.Request != nil && was.Request.ID == id; !known {
			if r := answerTo(ms, u.Request.Verb); r == nil || r.ID != id || r.Outcome == v1alpha1.RequestRefused || r.Unit != entry {
				c.violated(w, ruleRequest, "%s is done to %s, and the answer is %+v", id, entry, r)
			}
			if done, again := c.requested[id]; again {
				c.violated(w, ruleRequest, "%s is done to %s by attempt %d, and was by %d", id, entry, u.Attempt, done)
			}
			c.requested[id] = u.Attempt
		}
		if !u.Recreates() {
			continue
		}
		if u.Target != pinOf(after, u.Unit) {
			c.violated(w, ruleRequest, "%s is created anew at %s, and not at its pin", entry, u.Target)
		}
		if u.Permit.Allows(v1alpha1.PermitSwap) && (was == nil || !was.Permit.Allows(v1alpha1.PermitSwap)) {
			for _, pod := range c.podsOf(after, u.Unit) {
				c.condemned[pod.UID] = true
			}
		}
	}
}

// ofAsked: at the end everything is answered.
func (c *Checker) ofAsked(ms *v1alpha1.ModelServing) {
	for _, verb := range v1alpha1.Verbs() {
		if value, stands := ms.Annotations[verb.Annotation()]; stands {
			c.ended(ruleRequest, "%s stands: %s", verb, value)
		}
		if r := answerTo(ms, verb); r != nil && r.Outcome == v1alpha1.RequestAccepted {
			c.ended(ruleRequest, "%s was accepted and has not begun", r.ID)
		}
	}
}

// ofRecreated: no Pod of a unit that was created anew is one that it had before.
func (c *Checker) ofRecreated(w cluster.Write, g *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) {
	if !u.Recreates() || stageOf(g, u) != v1alpha1.UnitInService {
		return
	}
	for _, pod := range c.podsOf(g, u.Unit) {
		if c.condemned[pod.UID] && pod.DeletionTimestamp == nil {
			c.violated(w, ruleRequest, "%s was created anew, and has Pod %s still", v1alpha1.LedgerEntry(g.Name, u.Unit), pod.Name)
		}
	}
}
