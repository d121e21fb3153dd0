package v1alpha1

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// patchMarkTime is RFC 3339 with milliseconds.
const patchMarkTime = "2006-01-02T15:04:05.000Z07:00"

// A PatchMark is the value of the annotation PatchedAt: what has to be known of a patch of a
// Pod's images when the order for it is gone.
//
// +kubebuilder:object:generate=false
type PatchMark struct {
	// Token is that of the attempt.
	Token string
	// At is when it patched, by the node's clock, in milliseconds.
	At time.Time
	// StopTimeout bounds the stop of the containers that it replaces, from At on.
	StopTimeout time.Duration
}

// String returns "<token> <time> <stop timeout>", as "1b2c.../3 2026-01-02T15:04:05.678Z 30s".
func (m PatchMark) String() string {
	return m.Token + " " + m.At.UTC().Format(patchMarkTime) + " " + m.StopTimeout.String()
}

// PatchMarkOf returns the Pod's mark, the zero value if it has none or one that cannot be read.
func PatchMarkOf(pod *corev1.Pod) PatchMark {
	fields := strings.Fields(pod.Annotations[PatchedAt])
	if len(fields) != 3 {
		return PatchMark{}
	}
	at, err := time.Parse(patchMarkTime, fields[1])
	stop, stopErr := time.ParseDuration(fields[2])
	if err != nil || stopErr != nil {
		return PatchMark{}
	}
	return PatchMark{Token: fields[0], At: at, StopTimeout: stop}
}
