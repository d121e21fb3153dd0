package agent

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// tracks remember what only this process has seen of the open attempts: since when each stands
// where it does, and the instants that the timings are made of. A restart loses them; what is
// needed then comes from the order's status, the Pod and the journal.
type tracks struct {
	mu   sync.Mutex
	open map[types.NamespacedName]*track
}

// A track is one open attempt. Only the worker that looks at its Pod uses it.
type track struct {
	token    string
	pod      types.UID
	stage    v1alpha1.Stage
	since    time.Time
	seen     time.Time // first look at the attempt
	acked    time.Time
	ready    time.Time // all containers ready
	denied   string    // why the API server refused the patch
	reported time.Time // latest report of a wait
}

func newTracks() *tracks { return &tracks{open: map[types.NamespacedName]*track{}} }

// of returns the track of the attempt, a new one if another attempt was tracked.
func (t *tracks) of(key types.NamespacedName, token string, pod types.UID, now time.Time) *track {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.open[key]
	if one == nil || one.token != token {
		one = &track{token: token, pod: pod, seen: now}
		t.open[key] = one
	}
	return one
}

func (t *tracks) drop(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, key)
}

// busy returns the Pods with an open attempt.
func (t *tracks) busy() []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(t.open))
	for key := range t.open {
		keys = append(keys, key)
	}
	return keys
}

// byPod returns the key of the Pod with this UID, if it has an open attempt.
func (t *tracks) byPod(uid types.UID) (types.NamespacedName, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, one := range t.open {
		if one.pod == uid {
			return key, true
		}
	}
	return types.NamespacedName{}, false
}
