package readiness

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// Reasons of the InService condition.
const (
	// ReasonHeld: at least one hold stands.
	ReasonHeld = "Held"
	// ReasonNoHold: no hold stands.
	ReasonNoHold = "NoHold"
)

var (
	// ErrNoGate reports a Pod without our readiness gate.
	ErrNoGate = errors.New("pod has no readiness gate " + string(v1alpha1.InService))

	// ErrNoUID reports a Pod that was never stored: no patch could be bound to it.
	ErrNoUID = errors.New("pod has no UID")

	// ErrToken reports a token that the gate's message cannot carry.
	ErrToken = errors.New("not a token")

	// ErrNotHeld reports that the Pod's gate is not held down by that attempt.
	ErrNotHeld = errors.New("gate is not held by this attempt")
)

// Lower returns the patch that takes the Pod out of traffic for one attempt: the hold "inplace"
// with the token, and the gate closed with the time in its message. For a Pod that the same
// attempt holds already it keeps the times. Marks of other attempts are removed. It returns ErrNoGate, ErrNoUID or ErrToken.
//
// Where the gate never was open, the patch carries the Pod's resourceVersion and may conflict:
// that a Pod never served must not come from an old reading of it.
func Lower(pod *corev1.Pod, token string, now time.Time) ([]byte, error) {
	p, err := lower(pod, token, now)
	if err != nil {
		return nil, err
	}
	if hasMarks(pod) && Announced(pod) != token {
		p.announce(pod, "")
	}
	return p.encode()
}

func lower(pod *corev1.Pod, token string, now time.Time) (*patch, error) {
	if !HasGate(pod) {
		return nil, ErrNoGate
	}
	if !isToken(token) {
		return nil, fmt.Errorf("%q: %w", token, ErrToken)
	}
	p, err := patchOf(pod)
	if err != nil {
		return nil, err
	}
	p.annotate(v1alpha1.HoldInPlace, &token)
	holds := slices.DeleteFunc(Holds(pod), isInPlace)
	p.setGate(pod, append(holds, Hold{Holder: inPlace, Value: token}), now)
	return p, nil
}

// Acknowledge returns the patch that keeps when kubelet's answer to the lowered gate was seen,
// to the millisecond; an earlier such time is replaced. It returns ErrNotHeld unless that
// attempt lowered the gate and its hold stands.
func Acknowledge(pod *corev1.Pod, token string, at time.Time) ([]byte, error) {
	g := GateOf(pod)
	if g.Open || g.Token != token || !slices.Contains(Holds(pod), Hold{Holder: inPlace, Value: token}) {
		return nil, fmt.Errorf("acknowledge %q: %w", token, ErrNotHeld)
	}
	p, err := patchOf(pod)
	if err != nil {
		return nil, err
	}
	g.AcknowledgedAt = at
	p.close(pod, Holds(pod), g, at)
	return p.encode()
}

// An Opening is what goes into the opening write besides the gate.
type Opening struct {
	// Labels are set; an empty value removes the label.
	Labels map[string]string
	// Annotations are set.
	Annotations map[string]string
	// Remove names annotations to remove. The hold "inplace" is removed anyway.
	Remove []string
}

// Mark returns the patch that changes labels and removes annotations, and nothing else: a Pod that is
// sent back whole would lose what this build does not know of it. It carries the Pod's
// resourceVersion and may conflict.
func Mark(pod *corev1.Pod, o Opening) ([]byte, error) {
	p, err := patchOf(pod)
	if err != nil {
		return nil, err
	}
	p.Metadata.ResourceVersion = pod.ResourceVersion
	p.take(o)
	return p.encode()
}

// take puts what goes beside the gate into the patch.
func (p *patch) take(o Opening) {
	for _, key := range o.Remove {
		p.annotate(key, nil)
	}
	for key, value := range o.Annotations {
		p.annotate(key, &value)
	}
	for key, value := range o.Labels {
		if p.Metadata.Labels == nil {
			p.Metadata.Labels = make(map[string]*string, len(o.Labels))
		}
		p.Metadata.Labels[key] = nil
		if value != "" {
			p.Metadata.Labels[key] = &value
		}
	}
}

// Raise returns the opening write: labels, our own hold and the router's marks removed, and the gate
// open if no other hold stands; else it stays closed and its message names the holders. For a
// Pod without our gate it writes labels and annotations only.
//
// Where the gate never was open, the patch carries the Pod's resourceVersion and may conflict.
func Raise(pod *corev1.Pod, o Opening, now time.Time) ([]byte, error) {
	p, err := patchOf(pod)
	if err != nil {
		return nil, err
	}
	// The marks may be there though this reading lacks them: a router answers when it likes.
	p.annotate(v1alpha1.HoldInPlace, nil)
	p.announce(pod, "")
	p.take(o)
	if HasGate(pod) {
		p.setGate(pod, slices.DeleteFunc(Holds(pod), func(h Hold) bool {
			_, removed := p.Metadata.Annotations[v1alpha1.HoldPrefix+h.Holder]
			return removed
		}), now)
	}
	return p.encode()
}

// Sync returns the patch that makes the gate agree with the holds, and whether one is needed:
// a new Pod's gate is opened, a gate is closed while a hold stands and opened when the last one
// went. The times of an attempt are kept as long as its hold stands. The router's marks go with the
// hold: an answer that comes late is removed. A Pod without our gate, one that was never stored and
// one that is being deleted need none.
//
// Where the gate never was open, the patch carries the Pod's resourceVersion and may conflict.
func Sync(pod *corev1.Pod, now time.Time) (data []byte, needed bool) {
	if !HasGate(pod) || pod.DeletionTimestamp != nil {
		return nil, false
	}
	p, err := patchOf(pod)
	if err != nil {
		return nil, false
	}
	p.setGate(pod, Holds(pod), now)
	_, held := pod.Annotations[v1alpha1.HoldInPlace]
	left := !held && hasMarks(pod)
	if left {
		p.announce(pod, "")
	}
	if got := condition(pod, v1alpha1.InService); got != nil && p.Status.Conditions[0].says(*got) {
		if !left {
			return nil, false
		}
		p.Status = nil
	}
	data, err = p.encode()
	return data, err == nil
}

// inPlace is the holder of v1alpha1.HoldInPlace.
const inPlace = "inplace"

func isInPlace(h Hold) bool { return h.Holder == inPlace }

// isToken reports whether the text is made of what v1alpha1.Token makes tokens of, so that
// the gate's message can be read back.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./", r)
	})
}

// patch is a strategic-merge patch of a Pod. A nil label or annotation removes it.
type patch struct {
	Metadata patchMetadata `json:"metadata"`
	Status   *patchStatus  `json:"status,omitempty"`
}

type patchMetadata struct {
	UID             types.UID          `json:"uid"`
	ResourceVersion string             `json:"resourceVersion,omitempty"`
	Labels          map[string]*string `json:"labels,omitempty"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
}

type patchStatus struct {
	Conditions []patchCondition `json:"conditions"`
}

// patchCondition always names reason and message, so that old ones do not stay.
type patchCondition struct {
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status"`
	Reason             string                  `json:"reason"`
	Message            string                  `json:"message"`
	LastTransitionTime *metav1.Time            `json:"lastTransitionTime,omitempty"`
}

// patchOf returns a patch that changes nothing, bound to the Pod's UID.
func patchOf(pod *corev1.Pod) (*patch, error) {
	if pod.UID == "" {
		return nil, ErrNoUID
	}
	return &patch{Metadata: patchMetadata{UID: pod.UID}}, nil
}

func (p *patch) encode() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return data, nil
}

// setGate makes the gate of the patched Pod agree with holds, which are those that will stand.
func (p *patch) setGate(pod *corev1.Pod, holds []Hold, now time.Time) {
	old := GateOf(pod)
	if !old.Present {
		p.Metadata.ResourceVersion = pod.ResourceVersion
	}
	if len(holds) == 0 {
		p.setCondition(pod, corev1.ConditionTrue, ReasonNoHold, "", now)
		return
	}
	g := Gate{NeverServed: old.NeverServed}
	// A value that is no token was not written by us; its hold stands, without times.
	if i := slices.IndexFunc(holds, isInPlace); i >= 0 && isToken(holds[i].Value) {
		g.Token, g.LoweredAt = holds[i].Value, now
		if old.Token == g.Token && !old.LoweredAt.IsZero() {
			g.LoweredAt, g.AcknowledgedAt = old.LoweredAt, old.AcknowledgedAt
		}
	}
	p.close(pod, holds, g, now)
}

// close makes the gate False with what g remembers.
func (p *patch) close(pod *corev1.Pod, holds []Hold, g Gate, now time.Time) {
	if g.NeverServed {
		p.Metadata.ResourceVersion = pod.ResourceVersion
	}
	holders := make([]string, 0, len(holds))
	for _, h := range holds {
		holders = append(holders, h.Holder)
	}
	slices.Sort(holders)
	p.setCondition(pod, corev1.ConditionFalse, ReasonHeld, g.message(holders), now)
}

// setCondition moves lastTransitionTime only where the status changes, as Kubernetes does.
func (p *patch) setCondition(pod *corev1.Pod, s corev1.ConditionStatus, reason, message string, now time.Time) {
	c := patchCondition{Type: v1alpha1.InService, Status: s, Reason: reason, Message: message}
	if !is(pod, v1alpha1.InService, s) {
		t := metav1.NewTime(now)
		c.LastTransitionTime = &t
	}
	p.Status = &patchStatus{Conditions: []patchCondition{c}}
}

func (c patchCondition) says(got corev1.PodCondition) bool {
	return c.Status == got.Status && c.Reason == got.Reason && c.Message == got.Message
}
