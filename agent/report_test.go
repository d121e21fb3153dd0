package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/gpu/residency"
)

// aWindow is an attempt that has drained its Pod of one container, and what has come of that since.
func aWindow(want string, now cri.Container, patchedBy string) (*sight, Update) {
	order := &v1alpha1.InPlaceUpdate{}
	order.UID, order.Spec.Attempt, order.Status.Attempt = "ipu", 2, 2
	if want != "" {
		order.Spec.Containers = []v1alpha1.ContainerImage{{Name: "engine", Image: want}}
	}
	order.Status.Stage = v1alpha1.StageDrained
	order.Status.Containers = []v1alpha1.ContainerReport{{Name: "engine", Before: &v1alpha1.ContainerState{Image: "v1", ContainerID: "c1", RestartCount: 3}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "v1"}}}}
	if patchedBy != "" {
		pod.Spec.Containers[0].Image = "v2"
		pod.Annotations = map[string]string{v1alpha1.PatchedAt: v1alpha1.PatchMark{Token: patchedBy, StopTimeout: time.Second}.String()}
	}
	s := &sight{
		pod: pod, order: order, token: order.Token(), cri: cri.Pod{Containers: []cri.Container{now}},
		hash: func(_, image string) string { return "hash of " + image },
	}
	u := Update{Order: Order{Want: wanted(want)}, Node: Node{RuntimeUp: true}, Pod: Pod{patchedByOrder: patchedBy == order.Token()}}
	a := &Agent{stops: newStops(Config{Clock: clock.RealClock{}})}
	c := Container{Name: "engine", SpecImage: pod.Spec.Containers[0].Image, SpecHash: s.hash("engine", pod.Spec.Containers[0].Image), Want: want}
	a.observeRunning(s, &c, order.Status.Containers)
	u.Containers = []Container{c}
	return s, u
}

func wanted(image string) []string {
	if image == "" {
		return nil
	}
	return []string{"engine"}
}

func TestRestartsSinceTheBaseline(t *testing.T) {
	run := func(id, image string, restarts int) cri.Container {
		return cri.Container{ID: id, Name: "engine", State: cri.Running, Hash: "hash of " + image, RestartCount: restarts}
	}
	type counts struct{ Planned, Crashes, Peer int32 }
	for name, tt := range map[string]struct {
		want, patchedBy string // the image that is asked for; the attempt that patched the Pod
		now             cri.Container
		report          counts
		kind            journal.RestartKind
	}{
		"patched and restarted for it":                {"v2", "ipu/2", run("c2", "v2", 4), counts{Planned: 1}, journal.Planned},
		"patched, and crashed once more":              {"v2", "ipu/2", run("c3", "v2", 5), counts{Planned: 1, Crashes: 1}, journal.Crash},
		"nothing to change, and it runs on":           {"", "", run("c1", "v1", 3), counts{}, journal.Crash},
		"nothing to change, and it restarted":         {"", "", run("c2", "v1", 4), counts{Peer: 1}, journal.Peer},
		"nothing to change, and it restarted twice":   {"", "", run("c3", "v1", 5), counts{Peer: 2}, journal.Peer},
		"asked for and not patched, and it restarted": {"v2", "", run("c2", "v1", 4), counts{}, journal.Crash},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := aWindow(tt.want, tt.now, tt.patchedBy)
			st := s.order.Status.DeepCopy()
			(&Agent{}).fillContainers(s, u, Step{Stage: v1alpha1.StageVerified, Do: ActReport}, st)
			c := st.Containers[0]
			if diff := cmp.Diff(tt.report, counts{c.Planned, c.Crashes, c.Peer}); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			seen := corev1.ContainerStatus{Name: "engine", RestartCount: int32(tt.now.RestartCount)}
			if kind := s.kindOf(seen, tt.now.ID); kind != tt.kind {
				t.Errorf("counted as %v, want %v", kind, tt.kind)
			}
		})
	}
}

func TestALookAtTheGPUsIsNoWaitWorthAReportUnlessItLasts(t *testing.T) {
	for name, tt := range map[string]struct {
		reason  v1alpha1.Reason
		awaited time.Time
		reports bool
	}{
		"a stage that lasts is reported":               {v1alpha1.WaitingDrain, time.Time{}, true},
		"a look that was begun a moment ago is not":    {v1alpha1.WaitingUnread, at(99), false},
		"GPUs that could not be read for five seconds": {v1alpha1.WaitingUnread, at(95), true},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := aWindow("v2", cri.Container{}, "")
			s.now = at(100)
			s.track = &track{since: at(50), memory: memory{awaited: tt.awaited}}
			step, status := (&Agent{}).waiting(s, u, Step{Stage: v1alpha1.StageDraining, Reason: tt.reason, Until: at(200)})
			if reports := status != nil; reports != tt.reports || !reports && !step.Until.Equal(at(104)) {
				t.Errorf("reported %t, and looked at again at %v", reports, step.Until)
			}
		})
	}
}

func TestGPUsThatCannotBeToldAreReportedAsUnknown(t *testing.T) {
	s, u := aWindow("v2", cri.Container{}, "ipu/2")
	long := strings.Repeat("x", 200)
	s.track = &track{memory: memory{last: residency.Sample{Devices: []residency.Device{
		{UUID: "GPU-1"}, {Name: "0:0", Fault: "odd"}, {Name: "0:0", Fault: "odd"}, {Name: long + "1", Fault: "odd"}, {Name: long + "2", Fault: "odd"},
	}}}}
	var st v1alpha1.InPlaceUpdateStatus
	s.fillGPUs(u, Step{Stage: v1alpha1.StageDrained, Do: ActReport}, &st)
	u.GPUs.Judged = true
	s.fillGPUs(u, Step{Stage: v1alpha1.StageVerified, Do: ActReport}, &st)
	want := []v1alpha1.GPUReport{
		{UUID: "GPU-1", Verdict: v1alpha1.VerdictUnknown}, {UUID: "0:0", Verdict: v1alpha1.VerdictUnknown}, {UUID: long[:128], Verdict: v1alpha1.VerdictUnknown},
	}
	if diff := cmp.Diff(want, st.GPUs); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
