package readiness

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// Announced returns the token of the attempt that asks the Pod's router to drain it, "" if none does.
func Announced(pod *corev1.Pod) string { return pod.Annotations[v1alpha1.Draining] }

// Answered reports whether a router has answered that attempt: it has no request left in the Pod.
// An answer counts as long as its question stands; one to another attempt never does.
func Answered(pod *corev1.Pod, token string) bool {
	return token != "" && pod.Annotations[v1alpha1.Draining] == token && pod.Annotations[v1alpha1.Drained] == token
}

// LowerAndAnnounce is Lower, and asks the Pod's router in the same patch. An answer is kept only
// where that attempt holds the Pod already: one from before may be older than the Pod's last request.
func LowerAndAnnounce(pod *corev1.Pod, token string, now time.Time) ([]byte, error) {
	p, err := lower(pod, token, now)
	if err != nil {
		return nil, err
	}
	p.announce(pod, token)
	return p.encode()
}

// Announce returns the patch that asks the router of a held Pod for that attempt, in place of an
// earlier one; an empty token takes the question back. Answers to others are removed.
func Announce(pod *corev1.Pod, token string) ([]byte, error) {
	if token != "" && !isToken(token) {
		return nil, fmt.Errorf("%q: %w", token, ErrToken)
	}
	p, err := patchOf(pod)
	if err != nil {
		return nil, err
	}
	p.announce(pod, token)
	return p.encode()
}

func (p *patch) announce(pod *corev1.Pod, token string) {
	if token == "" {
		p.annotate(v1alpha1.Draining, nil)
		p.annotate(v1alpha1.Drained, nil)
		return
	}
	p.annotate(v1alpha1.Draining, &token)
	if pod.Annotations[v1alpha1.HoldInPlace] == "" || !Answered(pod, token) {
		p.annotate(v1alpha1.Drained, nil)
	}
}

// hasMarks reports whether there is a question to a router on the Pod, or an answer.
func hasMarks(pod *corev1.Pod) bool {
	_, asked := pod.Annotations[v1alpha1.Draining]
	_, answered := pod.Annotations[v1alpha1.Drained]
	return asked || answered
}

func (p *patch) annotate(key string, value *string) {
	if p.Metadata.Annotations == nil {
		p.Metadata.Annotations = map[string]*string{}
	}
	p.Metadata.Annotations[key] = value
}
