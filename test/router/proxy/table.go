package proxy

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// A backend is one Pod as it was last seen, and what this router has to do with it.
type backend struct {
	pod      *corev1.Pod
	inFlight int
	last     uint64 // when it was chosen last, in choices
	said     string // resourceVersion of the Pod that the latest answer was about
	gone     bool   // the Pod is, and requests to it may still run
}

// chosenFor reports whether new requests may go to the backend. A Pod that drains is left out at
// once: its Ready condition, and all that follows from it, comes later.
func (b *backend) chosenFor() bool {
	return !b.gone && b.pod.DeletionTimestamp == nil && b.pod.Status.PodIP != "" &&
		readiness.Announced(b.pod) == "" && readiness.Ready(b.pod) && !isWorker(b.pod)
}

func isWorker(pod *corev1.Pod) bool {
	index, ok := pod.Labels[v1alpha1.LabelIndex]
	return ok && index != "0"
}

// owes returns the token to answer now, "" if there is none.
func (b *backend) owes() string {
	token := readiness.Announced(b.pod)
	if b.gone || b.inFlight > 0 || readiness.Answered(b.pod, token) || b.said == b.pod.ResourceVersion {
		return ""
	}
	return token
}

// A table is the router's memory. One lock covers choice, count and marks: a request is either
// counted before the drain is seen, or goes elsewhere.
type table struct {
	mu       sync.Mutex
	backends map[types.UID]*backend
	choices  uint64
}

func newTable() *table { return &table{backends: map[types.UID]*backend{}} }

// set takes up a new reading of a Pod.
func (t *table) set(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.backends[pod.UID]; b != nil {
		b.pod, b.gone = pod, false
		return
	}
	t.backends[pod.UID] = &backend{pod: pod}
}

func (t *table) remove(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.backends[pod]; b != nil {
		b.gone = true
		t.forget(b)
	}
}

// forget drops a backend that is gone, with its last request.
func (t *table) forget(b *backend) {
	if b.gone && b.inFlight == 0 {
		delete(t.backends, b.pod.UID)
	}
}

// choose counts one request to the backend with the fewest, nil if there is none.
func (t *table) choose() *corev1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	var best *backend
	for _, b := range t.backends {
		if b.chosenFor() && (best == nil || b.before(best)) {
			best = b
		}
	}
	if best == nil {
		return nil
	}
	t.choices++
	best.inFlight++
	best.last = t.choices
	return best.pod
}

func (b *backend) before(o *backend) bool {
	return cmp.Or(cmp.Compare(b.inFlight, o.inFlight), cmp.Compare(b.last, o.last), strings.Compare(b.pod.Name, o.pod.Name)) < 0
}

// done ends one request to the Pod, and reports whether it was the last.
func (t *table) done(pod types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.backends[pod]
	b.inFlight--
	t.forget(b)
	return b.inFlight == 0
}

// An answer is what is to be written on a Pod.
type answer struct {
	pod   *corev1.Pod
	token string
}

// due returns the answers that the router owes, by name of the Pod.
func (t *table) due() []answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []answer
	for _, b := range t.backends {
		if token := b.owes(); token != "" {
			all = append(all, answer{b.pod, token})
		}
	}
	slices.SortFunc(all, func(a, b answer) int {
		return cmp.Or(strings.Compare(a.pod.Namespace, b.pod.Namespace), strings.Compare(a.pod.Name, b.pod.Name))
	})
	return all
}

// said notes that an answer was given, or was refused as outdated: the next one waits for the
// next reading of the Pod.
func (t *table) said(a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.backends[a.pod.UID]; b != nil {
		b.said = a.pod.ResourceVersion
	}
}

// inFlight is how many requests run in the Pod.
func (t *table) inFlight(pod types.UID) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.backends[pod]; b != nil {
		return b.inFlight
	}
	return 0
}
