//go:build lab

package crash

import (
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
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
	// Containers, by name: how many there ever were.
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

func (s *scene) want() outcome {
	changed := report{Before: true, After: true, Planned: 1}
	return outcome{
		Stage: v1alpha1.StageInService, Attempt: 1, Revision: "v2", Open: true, Ready: true,
		Images:  strings.Join([]string{s.image("engine", "v2"), s.image("router", "v2"), s.image("sidecar", "v1"), ""}, " "),
		Patches: 1, Lowered: 1, Outages: 1, Generation: s.pod.Generation + 1, Sandboxes: 1,
		Containers: map[string]int{"engine": 2, "router": 2, "sidecar": 1},
		Reports:    map[string]report{"engine": changed, "router": changed, "sidecar": {Before: true, After: true}},
	}
}

func (s *scene) got() outcome {
	t := s.t
	t.Helper()
	pod, err := s.core.CoreV1().Pods(namespace).Get(t.Context(), s.name, metav1.GetOptions{})
	must(t, err)
	if pod.UID != s.pod.UID {
		t.Errorf("the Pod is another one")
	}
	// The watch is behind the answer to a read.
	eventually(t, patient, func() bool { return s.latest(pod.UID).Version == pod.ResourceVersion })
	u := s.order(s.name)
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
		o.Containers[c.Name]++
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

// check compares the end with what was promised.
func (s *scene) check() {
	s.t.Helper()
	if diff := cmp.Diff(s.want(), s.got()); diff != "" {
		s.t.Errorf("(-want +got):\n%s\n%s", diff, s.story())
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
