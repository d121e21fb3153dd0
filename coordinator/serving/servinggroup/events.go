package servinggroup

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// Events takes events for people. A client-go events.EventRecorder is one.
type Events interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// tell writes the events of what is new in the status.
func (r *Reconciler) tell(s *sight, plan pods.Plan, old v1alpha1.ServingGroupStatus) {
	for _, n := range plan.Notices {
		kind := corev1.EventTypeNormal
		if n.Warning {
			kind = corev1.EventTypeWarning
		}
		r.cfg.Events.Eventf(s.sg, nil, kind, n.Reason, n.Reason, "%s", n.Message)
	}
	was, _ := blockedBy(old)
	reason, message := blockedBy(plan.Status)
	if reason == "" || reason == was {
		return
	}
	event := v1alpha1.EventBlocked
	if reason == string(v1alpha1.BlockedRevision) {
		event = v1alpha1.EventRevisionUnresolved
	}
	r.cfg.Events.Eventf(s.sg, nil, corev1.EventTypeWarning, event, "Wait", "%s: %s", reason, message)
}
