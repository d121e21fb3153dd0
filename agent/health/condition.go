package health

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu/health"
	"pitstop.dev/readiness"
)

// A condition always names reason and message in a patch, so that old ones do not stay. Times are sent only where they
// are to change.
type condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Reason             v1alpha1.GPUReason     `json:"reason"`
	Message            string                 `json:"message"`
	LastHeartbeatTime  *metav1.Time           `json:"lastHeartbeatTime,omitempty"` // of a Node
	LastProbeTime      *metav1.Time           `json:"lastProbeTime,omitempty"`     // of a Pod
	LastTransitionTime *metav1.Time           `json:"lastTransitionTime,omitempty"`
}

func conditionOf(s health.Summary) condition {
	return condition{Type: v1alpha1.GPUHealthy, Status: s.Status, Reason: s.Reason, Message: s.Message}
}

// keeps reports whether what was said before stands: until an agent that has just started knows better, and where it was
// False, until something is known. What follows from False must not end because nobody can look; it does where there is
// nothing to look at.
func keeps(before corev1.ConditionStatus, now health.Summary) bool {
	sick := before == corev1.ConditionFalse && now.Status == corev1.ConditionUnknown && !now.Gone
	return sick || now.Reason == v1alpha1.GPUUnknownUnjudged
}

// rewordEvery is the least time between two writes of other words alone: a driver that hangs has some in each round.
const rewordEvery = time.Minute

// stands reports whether what an object says may stay as it is: it was written less than so long ago. A time that is
// yet to come is that of a clock that was set back.
func stands(written, now time.Time, most time.Duration) bool {
	age := now.Sub(written)
	return age >= 0 && age < most
}

// nodePatch returns the strategic-merge patch of the Node's status that makes its condition say s, and whether one is
// needed: where something has changed, or the last sign of life is as old as every. Other words alone wait for rewordEvery.
func nodePatch(node *corev1.Node, s health.Summary, now time.Time, every time.Duration) (data []byte, needed bool) {
	c := conditionOf(s)
	stamp := metav1.NewTime(now)
	c.LastHeartbeatTime = &stamp
	old := nodeCondition(node)
	if old == nil {
		c.LastTransitionTime = &stamp
	} else {
		if keeps(old.Status, s) {
			return nil, false
		}
		most := every
		if old.Message != c.Message {
			most = rewordEvery
		}
		alike := old.Status == c.Status && old.Reason == string(c.Reason)
		if alike && stands(old.LastHeartbeatTime.Time, now, most) {
			return nil, false
		}
		if old.Status != c.Status {
			c.LastTransitionTime = &stamp
		}
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []condition{c}}})
	return data, err == nil
}

// A podReport is what is to be written on one Pod.
type podReport struct {
	Metadata struct {
		UID         types.UID          `json:"uid"`
		Annotations map[string]*string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Status *podStatus `json:"status,omitempty"`
}

type podStatus struct {
	Conditions []condition `json:"conditions"`
}

// A judgement is what is known of the GPUs of one Pod.
type judgement struct {
	health.Summary
	// judged: all its GPUs were read often enough to say whether they answer.
	judged bool
}

// judgePod judges the GPUs that a Pod was given.
func judgePod(all []health.Verdict, uuids []string) judgement {
	some, missing := health.Of(all, uuids)
	j := judgement{Summary: health.Sum(some, missing)}
	j.judged = len(missing) == 0 && len(some) > 0 &&
		!slices.ContainsFunc(some, func(v health.Verdict) bool { return v.Status == corev1.ConditionUnknown })
	return j
}

// reportable reports whether the agent may write on the Pod, and somebody has use for it.
func reportable(pod *corev1.Pod) bool {
	return readiness.HasGate(pod) && pod.DeletionTimestamp == nil &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// podPatch returns the strategic-merge patch of the Pod's status that makes its condition say j, and puts on or takes off
// the hold for a lost GPU, and whether one is needed. That hold is taken off only once all GPUs of the Pod were read.
// Other words alone wait for rewordEvery, unless something else is written.
func podPatch(pod *corev1.Pod, j judgement, now time.Time) (data []byte, needed bool) {
	var r podReport
	r.Metadata.UID = pod.UID
	_, held := pod.Annotations[v1alpha1.HoldDevice]
	switch {
	case len(j.Lost) > 0 && !held:
		value := "lost " + cmp.Or(strings.Join(j.Lost[:min(len(j.Lost), 8)], ", "), "a GPU")
		r.Metadata.Annotations = map[string]*string{v1alpha1.HoldDevice: &value}
	case len(j.Lost) == 0 && held && j.judged:
		r.Metadata.Annotations = map[string]*string{v1alpha1.HoldDevice: nil}
	}
	c, old := conditionOf(j.Summary), podCondition(pod)
	stamp := metav1.NewTime(now)
	c.LastProbeTime = &stamp
	if old == nil || old.Status != c.Status {
		c.LastTransitionTime = &stamp
	}
	switch alike := old != nil && old.Status == c.Status && old.Reason == string(c.Reason); {
	case old != nil && keeps(old.Status, j.Summary), alike && old.Message == c.Message:
	case alike && r.Metadata.Annotations == nil && stands(old.LastProbeTime.Time, now, rewordEvery):
	default:
		r.Status = &podStatus{Conditions: []condition{c}}
	}
	if r.Status == nil && r.Metadata.Annotations == nil {
		return nil, false
	}
	data, err := json.Marshal(r)
	return data, err == nil
}

func nodeCondition(node *corev1.Node) *corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == v1alpha1.GPUHealthy })
	if i < 0 {
		return nil
	}
	return &node.Status.Conditions[i]
}

func podCondition(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.GPUHealthy })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// around is how much longer than the stop of its old containers an update counts as their end: the driver reports an
// error a moment after what brought it.
const around = time.Minute

// windowOf returns the time in which containers of the Pod end on purpose, and false if there is none. It is read from
// the Pod alone: a hold for an update is an open window, and the mark of the last patch says when one was.
func windowOf(pod *corev1.Pod, uuids []string) (health.Window, bool) {
	mark := v1alpha1.PatchMarkOf(pod)
	w := health.Window{UUIDs: uuids}
	if _, held := pod.Annotations[v1alpha1.HoldInPlace]; held {
		w.From = readiness.GateOf(pod).LoweredAt
		if w.From.IsZero() {
			w.From = mark.At
		}
		return w, true
	}
	if mark.At.IsZero() {
		return w, false
	}
	w.From, w.To = mark.At, mark.At.Add(mark.StopTimeout+around)
	return w, true
}

// windowsOf returns the windows of all Pods that were given GPUs.
func windowsOf(pods []*corev1.Pod, assigned map[types.UID][]string) (windows []health.Window) {
	for _, pod := range pods {
		if w, ok := windowOf(pod, assigned[pod.UID]); ok && len(w.UUIDs) > 0 {
			windows = append(windows, w)
		}
	}
	return windows
}
