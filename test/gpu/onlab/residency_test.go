//go:build lab

package onlab

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/gpu/stub"
)

func TestAnUpdatedEngineHasItsGPUsAgain(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{Name: "reloaded", Image: images.engine})
	before := s.given()
	s.order(images.next, v1alpha1.PermitServe)
	u := s.ends(v1alpha1.StageInService, "")
	s.reports(u, before, v1alpha1.VerdictReloaded, engineMiB)
	s.once(u)
	if diff := cmp.Diff(before, s.given()); diff != "" {
		t.Errorf("GPUs by kubelet (-before +after):\n%s", diff)
	}
	s.inTraffic()
}

// The weight server runs on, and what it holds is no leak.
func TestAWeightServerKeepsItsMemoryInAnUpdate(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{
		Name: "retained", Image: images.engine, Sidecar: images.weights, SidecarGPUMiB: 300,
		Annotations: map[string]string{v1alpha1.ResidentPrefix + "sidecar": "300"},
	})
	before, ran := s.given(), containers(s.pod)
	s.order(images.next, v1alpha1.PermitServe)
	u := s.ends(v1alpha1.StageInService, "")
	s.reports(u, before, v1alpha1.VerdictRetained, engineMiB+300)
	s.once(u)
	now := containers(s.mustPod(s.Pod(t.Context(), s.pod.Name)))
	if now["sidecar"] != ran["sidecar"] || now["engine"] == ran["engine"] {
		t.Errorf("containers before %v, after %v", ran, now)
	}
	s.inTraffic()
}

// fails waits until the update has failed for its memory, and checks that the Pod is out of traffic and that the message
// names what it must.
func (s *scene) fails(reason v1alpha1.Reason, names string) {
	s.t.Helper()
	u := s.ends(v1alpha1.StageFailed, reason)
	if !strings.Contains(u.Status.Message, names) {
		s.t.Errorf("the message does not name %s: %s", names, u.Status.Message)
	}
	s.mustPod(s.WaitPod(s.t.Context(), s.pod.Name, func(p *corev1.Pod) bool {
		return !readiness.Ready(p) && len(readiness.Holds(p)) == 1
	}))
}

func TestWhoComesInBetweenIsNamed(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{Name: "squatted", Image: images.engine})
	uuids := s.given()
	s.drained(images.next)
	const mib = 1500 // more than the weight server of another test may give back meanwhile
	pid, stop, err := s.rig.Squat(t.Context(), uuids[0], mib)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s.serve()
	s.fails(v1alpha1.FailedHeldByOther, fmt.Sprintf("process %d (sleep) of the node with %d MiB is the largest other holder", pid, mib))
	stop()
	u := s.ends(v1alpha1.StageInService, v1alpha1.EndedLateSuccess)
	s.reports(u, uuids, v1alpha1.VerdictReloaded, engineMiB)
	s.once(u)
	s.inTraffic()
}

func TestADeadEngineThatKeepsItsMemoryIsNamed(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{Name: "leaked", Image: images.leaking})
	uuids := s.given()
	pid := s.holder(uuids[0])
	s.order(images.next, v1alpha1.PermitServe)
	s.fails(v1alpha1.FailedLeaked, fmt.Sprintf("process %d that does not exist any more with %d MiB still holds memory", pid, engineMiB))
	err := s.rig.State.Update(t.Context(), func(state *stub.State) {
		state.Processes = slices.DeleteFunc(state.Processes, func(p stub.Process) bool { return p.PID == pid })
	})
	if err != nil {
		t.Fatal(err)
	}
	u := s.ends(v1alpha1.StageInService, v1alpha1.EndedLateSuccess)
	s.reports(u, uuids, v1alpha1.VerdictReloaded, engineMiB)
	s.once(u)
	s.inTraffic()
}

// holder is the process that holds memory of a GPU.
func (s *scene) holder(uuid string) int {
	s.t.Helper()
	state, err := s.rig.State.Read()
	if err != nil {
		s.t.Fatal(err)
	}
	i := slices.IndexFunc(state.Processes, func(p stub.Process) bool { return p.GPU == uuid })
	if i < 0 {
		s.t.Fatalf("nobody holds memory of %s", uuid)
	}
	return state.Processes[i].PID
}

func TestMemoryThatIsReleasedLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{Name: "late", Image: images.late})
	uuids := s.given()
	s.order(images.next, v1alpha1.PermitServe)
	s.waits(v1alpha1.WaitingRelease)
	u := s.ends(v1alpha1.StageInService, "")
	s.reports(u, uuids, v1alpha1.VerdictReloaded, engineMiB)
	s.once(u)
	s.inTraffic()
}

// There is not enough for the new engine beside the old one's rest: its first start fails, by plan, and kubelet's back-off
// brings one that finds enough.
func TestAFirstStartWithoutMemoryIsPlanned(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{Name: "starved", Image: images.large})
	uuids := s.given()
	s.order(images.larger, v1alpha1.PermitServe)
	u := s.ends(v1alpha1.StageInService, "")
	s.reports(u, uuids, v1alpha1.VerdictReloaded, largeMiB)
	// kubelet makes the second start at once, and it may be too early as well.
	if c := u.Status.Containers[0]; c.Planned != 2 || c.Crashes > 1 {
		t.Errorf("%d planned and %d crashes, want 2 and at most 1", c.Planned, c.Crashes)
	}
	s.inTraffic()
}
