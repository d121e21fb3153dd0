package agent

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// tracks remember what only this process has seen of the open attempts: since when each stands
// where it does, and the instants that the timings are made of. A restart loses them; what is
// needed then comes from the order's status, the Pod and the journal.
type tracks struct {
	mu   sync.Mutex
	open map[types.NamespacedName]*track
}

// A track is one open attempt. Only the worker that looks at its Pod uses it; what others read
// besides is written under the lock.
type track struct {
	token    string
	pod      types.UID
	stage    v1alpha1.Stage
	since    time.Time
	patient  time.Time // latest wait for people or the coordinator
	looked   time.Time // latest relist that had it looked at
	resting  bool      // its latest step failed and is tried again with back-off
	seen     time.Time // first look at the attempt
	acked    time.Time
	ready    time.Time        // all containers ready
	current  time.Time        // when a write under its resourceVersion last proved that the order is the latest
	trouble  time.Time        // since when steps fail; zero: they do not
	first    map[string]int32 // restart counts at the first look, by container
	denied   string           // why the API server refused the patch
	reported time.Time        // latest report of a wait
	memory   memory           // of its GPUs
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

// restartsSince counts the restarts of a container since the first look at the attempt.
func (one *track) restartsSince(container string, count int32) int32 {
	if one.first == nil {
		one.first = map[string]int32{}
	}
	if _, ok := one.first[container]; !ok {
		one.first[container] = count
	}
	return max(0, count-one.first[container])
}

// drop forgets the attempt and returns it; nil if none was tracked.
func (t *tracks) drop(key types.NamespacedName) *track {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.open[key]
	delete(t.open, key)
	return one
}

// move notes that the attempt stands at another stage since now.
func (t *tracks) move(one *track, stage v1alpha1.Stage, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.stage, one.since = stage, now
}

// rest notes that the latest step of the Pod's attempt failed, goOn that it did not.
func (t *tracks) rest(key types.NamespacedName) {
	t.setResting(key, func(one *track) { one.resting = true })
}

func (t *tracks) goOn(key types.NamespacedName) {
	t.setResting(key, func(one *track) { one.resting = false })
}

func (t *tracks) setResting(key types.NamespacedName, set func(*track)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.open[key]; one != nil {
		set(one)
	}
}

// atWork reports whether the attempt waits for what the runtime or kubelet does.
func (one *track) atWork() bool {
	return rank(one.stage) >= rank(v1alpha1.StageDraining) && rank(one.stage) <= rank(v1alpha1.StageVerified) &&
		one.stage != v1alpha1.StageFailed
}

// busy reports whether any attempt is at work.
func (t *tracks) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.open {
		if one.atWork() {
			return true
		}
	}
	return false
}

// due returns the Pods that a relist is to look at: those at work each time, the others at the
// idle pace, and none whose back-off runs.
func (t *tracks) due(now time.Time) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []types.NamespacedName
	for key, one := range t.open {
		if one.resting || !one.atWork() && now.Sub(one.looked) < time.Duration(cri.Idle) {
			continue
		}
		one.looked = now
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
