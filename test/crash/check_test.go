//go:build lab

package crash

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
)

// An outcome is the end of an update, as far as it may not depend on who was killed when.
type outcome struct {
	Stage    v1alpha1.Stage
	Attempt  int64
	Images   string
	Revision string
	Holds    int
	Open     bool
	Ready    bool
	// Patches, Lowered and Outages count what every version of the Pod shows: changes of the
	// images, placings of the hold, falls of Ready.
	Patches, Lowered, Outages int
	Generation                int64
	Sandboxes                 int
	// Containers, by name: how many there ever were, as kubelet numbered them; it may have collected
	// the dead ones.
	Containers map[string]int
	Reports    map[string]report
}

type report struct {
	// Before is true if the baseline is the container that ran at the beginning.
	Before bool
	// After is true if the report is of the container that runs now.
	After                  bool
	Planned, Crashes, Peer int32
}

// A subject is one Pod in service and what is to become of it.
type subject struct {
	*watcher
	core    kubernetes.Interface
	runtime *cri.Client // of its node
	t       *testing.T
	pod     *corev1.Pod
	first   map[string]string // the containers at the beginning, by name
	change  map[string]string // the new images of the containers that are updated
}

// remember notes the containers that run at the beginning.
func (s *subject) remember() {
	s.t.Helper()
	seen, err := s.runtime.Pod(s.t.Context(), string(s.pod.UID))
	must(s.t, err)
	s.first = map[string]string{}
	for _, c := range seen.Containers {
		s.first[c.Name] = c.ID
	}
}

// want is the one end that there is.
func (s *subject) want() outcome {
	o := outcome{
		Stage: v1alpha1.StageInService, Attempt: 1, Revision: "v2", Open: true, Ready: true,
		Patches: 1, Lowered: 1, Outages: 1, Generation: s.pod.Generation + 1, Sandboxes: 1,
		Containers: map[string]int{}, Reports: map[string]report{},
	}
	for _, c := range s.pod.Spec.Containers {
		image, changed := s.change[c.Name]
		if !changed {
			image = c.Image
		}
		o.Images += image + " "
		o.Containers[c.Name] = 1 + count(changed)
		o.Reports[c.Name] = report{Before: true, After: true, Planned: int32(count(changed))}
	}
	return o
}

// stage is how far the update has gone.
func (s *subject) stage() v1alpha1.Stage {
	if u := s.order(s.pod.Name); u != nil {
		return u.Status.Stage
	}
	return ""
}

// started reports whether the agent has done anything to the Pod.
func (s *subject) started() bool {
	now := s.latest(s.pod.UID)
	return now.Hold != "" || now.PatchedAt != ""
}

func (s *subject) inService() bool { return s.stage() == v1alpha1.StageInService }

// story is what the API server tells of a case.
func (s *subject) story() string {
	var b strings.Builder
	if u := s.order(s.pod.Name); u != nil {
		status, _ := json.MarshalIndent(u.Status, "", " ")
		fmt.Fprintf(&b, "order of attempt %d: %s\n", u.Spec.Attempt, status)
	}
	for _, v := range s.sightings(s.pod.UID) {
		fmt.Fprintf(&b, "pod %+v\n", v)
	}
	return b.String()
}

func (s *subject) got() outcome {
	t := s.t
	t.Helper()
	pod, err := s.core.CoreV1().Pods(namespace).Get(t.Context(), s.pod.Name, metav1.GetOptions{})
	must(t, err)
	if pod.UID != s.pod.UID {
		t.Errorf("the Pod is another one")
	}
	// The watch is behind the answer to a read.
	eventually(t, patient, func() bool { return s.latest(pod.UID).Version == pod.ResourceVersion })
	u := s.order(s.pod.Name)
	seen, err := s.runtime.Pod(t.Context(), string(pod.UID))
	must(t, err)
	o := outcome{
		Stage: u.Status.Stage, Attempt: u.Status.Attempt, Revision: pod.Labels[v1alpha1.LabelRevision],
		Holds: len(readiness.Holds(pod)), Open: readiness.GateOf(pod).Open, Ready: readiness.Ready(pod),
		Generation: pod.Generation, Sandboxes: len(seen.Sandboxes),
		Containers: map[string]int{}, Reports: map[string]report{},
	}
	var before sighting
	for i, v := range s.sightings(pod.UID) {
		o.Images = v.Images
		if i > 0 {
			o.Patches += count(v.Images != before.Images || v.PatchedAt != before.PatchedAt)
			o.Lowered += count(v.Hold != "" && before.Hold == "")
			o.Outages += count(v.Ready != corev1.ConditionTrue && before.Ready == corev1.ConditionTrue)
		}
		before = v
	}
	for _, c := range seen.Containers {
		o.Containers[c.Name] = max(o.Containers[c.Name], 1+c.RestartCount)
	}
	for _, r := range u.Status.Containers {
		now, _ := seen.Newest(r.Name)
		o.Reports[r.Name] = report{
			Before:  r.Before != nil && r.Before.ContainerID == s.first[r.Name],
			After:   r.After != nil && r.After.ContainerID == now.ID,
			Planned: r.Planned, Crashes: r.Crashes, Peer: r.Peer,
		}
	}
	return o
}

func count(yes bool) int { //nolint:revive // the condition is what is counted
	if yes {
		return 1
	}
	return 0
}

// check compares the end with what was promised; story is told where it is another one.
func (s *subject) check(story func() string) {
	s.t.Helper()
	if diff := cmp.Diff(s.want(), s.got()); diff != "" {
		s.t.Errorf("(-want +got):\n%s\n%s", diff, story())
	}
}

// checkJournal reads what the agent left on disk. Where it kept what it had, the ledger
// is complete.
func (s *scene) checkJournal(f fault) {
	t := s.t
	t.Helper()
	j, _, err := journal.Open(t.Context(), s.journalOptions())
	must(t, err)
	defer j.Close() //nolint:errcheck // only read
	r, known, err := j.Read(s.pod.UID)
	must(t, err)
	if known && r.Open() {
		t.Errorf("the journal says that the update is open: %+v\n%s", r, s.story())
	}
	ledger, err := j.Restarts(s.pod.UID)
	must(t, err)
	planned := map[string]int64{}
	for _, c := range ledger {
		planned[c.Container] = c.Planned
		if c.Crashes != 0 || c.Peer != 0 || c.Planned > 1 {
			t.Errorf("ledger: %+v\n%s", c, s.story())
		}
	}
	if f.keeps && (planned["engine"] != 1 || planned["router"] != 1 || planned["sidecar"] != 0) {
		t.Errorf("planned restarts in the ledger: %v\n%s", planned, s.story())
	}
}
