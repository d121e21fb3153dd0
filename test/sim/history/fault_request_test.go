package history

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// requestFaults are those of what people ask for.
func requestFaults() map[string]fault {
	return map[string]fault{
		"a request that is done before its answer is written": {
			build: plans(func(p *plan.Plan) { dropActions(p, plan.Record) }), rules: []string{"what a person asks for"},
		},
		"a request that is forgotten once it is done": {
			build: tampered(serving, tamper{get: answersForgotten}), rules: []string{"what a person asks for"},
		},
		"new Pods that are taken for those that were to go": {
			build: tampered(group, tamper{get: clearedForgotten, live: clearedForgotten}), rules: []string{"a Pod is deleted"},
		},
		"Pods that were to go and are taken for new ones": {
			build: tampered(group, tamper{get: clearedTooEarly, live: clearedTooEarly}), rules: []string{"what a person asks for"},
		},
		"a unit that is created anew and not drained before": {
			build: tampered(serving, tamper{update: recreatesAtDrain}), rules: []string{"a permit", "the ledger", "ends as declared"},
		},
	}
}

func answersForgotten(o client.Object) {
	if ms, ok := o.(*v1alpha1.ModelServing); ok {
		ms.Status.Requests = slices.DeleteFunc(slices.Clone(ms.Status.Requests), func(r v1alpha1.RequestStatus) bool {
			return r.Outcome == v1alpha1.RequestBegun
		})
	}
}

// clearedForgotten forgets that the old Pods are gone as soon as there are new ones.
func clearedForgotten(o client.Object) {
	g, ok := o.(*v1alpha1.ServingGroup)
	if !ok || g.Status.LivePods == 0 {
		return
	}
	for i := range g.Status.Updates {
		g.Status.Updates[i].Cleared = false
	}
}

func clearedTooEarly(o client.Object) {
	if g, ok := o.(*v1alpha1.ServingGroup); ok {
		for i := range g.Status.Updates {
			g.Status.Updates[i].Cleared = true
		}
	}
}

// recreatesAtDrain lets a unit serve at once that is to be created anew.
func recreatesAtDrain(_ client.Reader, o client.Object) {
	if g, ok := o.(*v1alpha1.ServingGroup); ok {
		for i := range g.Spec.Updates {
			if u := &g.Spec.Updates[i]; u.Recreates() && u.Permit == v1alpha1.PermitDrain {
				u.Permit = v1alpha1.PermitServe
			}
		}
	}
}
