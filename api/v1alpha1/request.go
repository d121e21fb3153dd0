package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verb is what a person may ask for beside the spec of a ModelServing.
// +kubebuilder:validation:Enum=recreate;cancel;retry
type Verb string

// The verbs.
const (
	// VerbRecreate has the Pods of a unit drained, deleted and created anew at the unit's own pin.
	VerbRecreate Verb = "recreate"
	// VerbCancel takes the update of a unit back before its swap.
	VerbCancel Verb = "cancel"
	// VerbRetry has everything tried again that the controller has given up for the present target.
	VerbRetry Verb = "retry"
)

// Verbs returns all verbs, in the order in which they are answered.
func Verbs() []Verb { return []Verb{VerbCancel, VerbRecreate, VerbRetry} }

// DoPrefix starts the annotation of a ModelServing by which a person asks for a verb, whose name follows. Its
// value is that of FormatRequest. The controller writes its answer to status.requests first, and then
// removes the annotation.
const DoPrefix = "pitstop.dev/do."

// Annotation is the name of the annotation that asks for the verb.
func (v Verb) Annotation() string { return DoPrefix + string(v) }

// How long the id of a request and the name of a unit may be.
const (
	maxRequestID   = 64
	maxRequestUnit = 340
)

// FormatRequest returns the value of an annotation that asks for a verb. The id is one that was never used
// before, and has no blanks: a request with the id of the last one of its verb does nothing. The unit is as in
// status.updating, and empty where the verb is about the whole ModelServing.
func FormatRequest(id, unit string) string { return strings.TrimSpace(id + " " + unit) }

// ParseRequest is the inverse of FormatRequest. Of a value that has another form it returns an id that
// tells it from others, and false.
func ParseRequest(value string) (id, unit string, ok bool) {
	words := strings.Fields(value)
	if len(words) == 0 || len(words) > 2 || len(words[0]) > maxRequestID || len(value) > maxRequestID+maxRequestUnit ||
		len(words) == 2 && len(words[1]) > maxRequestUnit {
		return strings.ToValidUTF8(value[:min(len(value), maxRequestID)], ""), "", false
	}
	return words[0], strings.Join(words[1:], ""), true
}

// RequestOutcome says what has become of a request.
// +kubebuilder:validation:Enum=Accepted;Begun;Refused
type RequestOutcome string

// The outcomes of a request.
const (
	// RequestAccepted: what it asks for is about to be written to the ServingGroups.
	RequestAccepted RequestOutcome = "Accepted"
	// RequestBegun: it is written, and goes on from there.
	RequestBegun RequestOutcome = "Begun"
	// RequestRefused: nothing is done. The message says why, and what to do instead.
	RequestRefused RequestOutcome = "Refused"
)

// RequestStatus is the controller's answer to the last request of one verb.
type RequestStatus struct {
	// verb is what was asked for.
	// +required
	Verb Verb `json:"verb,omitempty"`

	// id is that of the request. The next one of the same id does nothing.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ID string `json:"id,omitempty"`

	// unit is the unit that the request is about, as in updating; absent where it is about all.
	// +kubebuilder:validation:MaxLength=340
	// +optional
	Unit string `json:"unit,omitempty"`

	// outcome is what has become of the request.
	// +required
	Outcome RequestOutcome `json:"outcome,omitempty"`

	// message says what is done, or why nothing is.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// answered is when the request was accepted or refused.
	// +required
	Answered metav1.Time `json:"answered"`
}

// UnitRequest is the request of a person that an attempt was made for.
type UnitRequest struct {
	// verb is what was asked for.
	// +required
	Verb Verb `json:"verb,omitempty"`

	// id is that of the request.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ID string `json:"id,omitempty"`

	// wanted is the target of the rollout at that time. Another one goes before the request.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Wanted string `json:"wanted,omitempty"`
}
