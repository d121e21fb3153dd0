package modelserving

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pitstop.dev/api/v1alpha1"
)

// A Recorder takes events; that of k8s.io/client-go/tools/events fits.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// maxNote is the API server's limit on an event's text.
const maxNote = 1024

// event tells of something on the ModelServing that has succeeded.
func (p *pass) event(reason, note string) {
	kind := corev1.EventTypeNormal
	switch reason {
	case v1alpha1.EventBlocked, v1alpha1.EventUnitFailed, v1alpha1.EventRevisionUnresolved:
		kind = corev1.EventTypeWarning
	}
	p.Events.Eventf(p.ms, nil, kind, reason, "Reconcile", "%s", cut(note, maxNote))
}

// tell emits the events of the step from the status that was to the one that was just written. It
// is silent where they agree, so that each change is told once.
func (p *pass) tell(was v1alpha1.ModelServingStatus) {
	is := p.ms.Status
	if was.UpdateRevision != "" && was.UpdateRevision != is.UpdateRevision {
		p.event(v1alpha1.EventRolloutStarted, "the target is revision "+is.UpdateRevision+"; it was "+was.UpdateRevision)
	}
	if was.CurrentRevision != "" && was.CurrentRevision != is.CurrentRevision {
		p.event(v1alpha1.EventRolloutComplete, "all ServingGroups are at revision "+is.CurrentRevision+" and available")
	}
	p.tellBlocked(meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionBlocked), meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionBlocked))
}

func (p *pass) tellBlocked(was, is *metav1.Condition) {
	if is == nil || is.Status != metav1.ConditionTrue || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	reason := v1alpha1.EventBlocked
	switch is.Reason {
	case string(v1alpha1.BlockedFailed):
		reason = v1alpha1.EventUnitFailed
	case string(v1alpha1.BlockedRevision):
		reason = v1alpha1.EventRevisionUnresolved
	}
	p.event(reason, is.Reason+": "+is.Message)
}

// cut shortens a text to at most n bytes, at the start of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const more = "..."
	for n -= len(more); n > 0 && text[n]&0xC0 == 0x80; n-- {
	}
	return text[:n] + more
}
