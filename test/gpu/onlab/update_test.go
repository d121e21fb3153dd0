//go:build lab

package onlab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu/attribution"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/gpu/stub"
)

// manyUUIDs are the GPUs of the second node. Those that a test makes sick for good are given to nobody after it.
func manyUUIDs() []string {
	var out []string
	for i := range 24 {
		out = append(out, fmt.Sprintf("GPU-00000002-0000-4000-8000-%012x", i))
	}
	return out
}

// newUpdate runs a Pod with two of the second node's GPUs, and returns once the agent says that they are healthy.
func newUpdate(t *testing.T, spec cluster.PodSpec) *scene {
	t.Helper()
	s := &scene{Cluster: shared, t: t, node: shared.Nodes()[1], rig: many}
	t.Cleanup(func() {
		if err := s.Remove(context.WithoutCancel(t.Context()), spec.Name); err != nil {
			t.Error(err)
		}
	})
	spec.Node, spec.GPUs = s.node.Name, 2
	s.pod = s.mustPod(s.Run(t.Context(), spec))
	s.pod = s.healthy(corev1.ConditionTrue, v1alpha1.GPUTrueHealthy)
	return s
}

// healthy waits until the agent says so of the Pod's GPUs.
func (s *scene) healthy(status corev1.ConditionStatus, reason v1alpha1.GPUReason) *corev1.Pod {
	s.t.Helper()
	return s.mustPod(s.WaitPod(s.t.Context(), s.pod.Name, func(p *corev1.Pod) bool {
		c, ok := condition(p)
		return ok && c.Status == status && c.Reason == string(reason)
	}))
}

func condition(p *corev1.Pod) (corev1.PodCondition, bool) {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.GPUHealthy })
	if i < 0 {
		return corev1.PodCondition{}, false
	}
	return p.Status.Conditions[i], true
}

// given are the GPUs that kubelet says the engine has.
func (s *scene) given() []string {
	s.t.Helper()
	client := attribution.NewPodResources(attribution.PodResourcesConfig{Dir: filepath.Join(s.node.KubeletDir, "pod-resources"), Witness: s.agent()})
	devices, _ := s.assigned(client, time.Time{})
	var uuids []string
	for _, d := range devices {
		uuids = append(uuids, d.Ref.UUID)
	}
	slices.Sort(uuids)
	if len(uuids) != 2 {
		s.t.Fatalf("the engine has %q, asked for 2", uuids)
	}
	return uuids
}

// order gives the order to change the engine to the image.
func (s *scene) order(image string, permit v1alpha1.Permit) {
	s.t.Helper()
	u := cluster.Order(s.pod, map[string]string{"engine": image})
	u.Spec.PropagationSeconds, u.Spec.Permit = new(int32(0)), permit
	if _, err := s.Give(s.t.Context(), u); err != nil {
		s.t.Fatal(err)
	}
}

// drained brings an update to Drained and keeps it there.
func (s *scene) drained(image string) {
	s.t.Helper()
	s.order(image, v1alpha1.PermitDrain)
	if _, err := s.WaitStage(s.t.Context(), s.pod.Name, v1alpha1.StageDrained); err != nil {
		s.t.Fatal(err)
	}
}

// serve lets the update go on to its end.
func (s *scene) serve() {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		u, err := s.Update(ctx, s.pod.Name)
		if err != nil {
			return false, err
		}
		u.Spec.Permit = v1alpha1.PermitServe
		err = s.Updates.Put().Namespace(u.Namespace).Resource("inplaceupdates").Name(u.Name).Body(u).Do(ctx).Error()
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end of the update.
func (s *scene) ends(stage v1alpha1.Stage, reason v1alpha1.Reason) *v1alpha1.InPlaceUpdate {
	s.t.Helper()
	u, err := s.WaitUpdate(s.t.Context(), s.pod.Name, func(u *v1alpha1.InPlaceUpdate) bool {
		return u.Status.Stage == stage || u.Status.Stage.Ended() && u.Status.Stage != v1alpha1.StageFailed
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if u.Status.Stage != stage || u.Status.Reason != reason {
		s.t.Fatalf("it ended %s (%s) %q, want %s (%s)", u.Status.Stage, u.Status.Reason, u.Status.Message, stage, reason)
	}
	s.t.Logf("%s %s %s; %s", u.Status.Stage, u.Status.Reason, u.Status.Message, told(u.Status.GPUs))
	return u
}

// waits waits until the update waits for this reason.
func (s *scene) waits(reason v1alpha1.Reason) *v1alpha1.InPlaceUpdate {
	s.t.Helper()
	u, err := s.WaitUpdate(s.t.Context(), s.pod.Name, func(u *v1alpha1.InPlaceUpdate) bool { return u.Status.Reason == reason })
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("%s %s: %s", u.Status.Stage, u.Status.Reason, u.Status.Message)
	return u
}

// told is what a report says of GPUs: UUID, MiB before and after, verdict.
func told(list []v1alpha1.GPUReport) string {
	var out []string
	for _, g := range list {
		mib := func(n *int64) string {
			if n == nil {
				return "?"
			}
			return fmt.Sprint(*n)
		}
		out = append(out, fmt.Sprintf("%s %s -> %s MiB %s", g.UUID, mib(g.Before), mib(g.After), g.Verdict))
	}
	return strings.Join(out, ", ")
}

// reports checks what the report says of each of the GPUs.
func (s *scene) reports(u *v1alpha1.InPlaceUpdate, uuids []string, verdict v1alpha1.Verdict, mib int64) {
	s.t.Helper()
	var want []v1alpha1.GPUReport
	for _, uuid := range uuids {
		want = append(want, v1alpha1.GPUReport{UUID: uuid, Before: &mib, After: &mib, Verdict: verdict})
	}
	got := slices.SortedFunc(slices.Values(u.Status.GPUs), func(a, b v1alpha1.GPUReport) int { return strings.Compare(a.UUID, b.UUID) })
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("GPUs (-want +got):\n%s", diff)
	}
}

// once checks that the engine was restarted once, by plan.
func (s *scene) once(u *v1alpha1.InPlaceUpdate) {
	s.t.Helper()
	if c := u.Status.Containers[0]; c.Name != "engine" || c.Planned != 1 || c.Crashes != 0 {
		s.t.Errorf("%s: %d planned and %d crashes, want 1 and 0", c.Name, c.Planned, c.Crashes)
	}
}

// untouched checks that the old engine is the one that runs.
func (s *scene) untouched() {
	s.t.Helper()
	now := s.mustPod(s.Pod(s.t.Context(), s.pod.Name))
	if diff := cmp.Diff(containers(s.pod), containers(now)); diff != "" {
		s.t.Errorf("containers (-before +after):\n%s", diff)
	}
}

// inTraffic checks that the Pod is Ready and nobody holds it.
func (s *scene) inTraffic() {
	s.t.Helper()
	s.mustPod(s.WaitPod(s.t.Context(), s.pod.Name, func(p *corev1.Pod) bool {
		return readiness.Ready(p) && len(readiness.Holds(p)) == 0
	}))
}

func containers(p *corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, c := range p.Status.ContainerStatuses {
		out[c.Name] = fmt.Sprintf("%s after %d restarts", c.ContainerID, c.RestartCount)
	}
	return out
}

// xid has the driver report an error of a GPU, which no other Pod is given later.
func (s *scene) xid(uuid string, number int) {
	s.t.Helper()
	s.t.Cleanup(func() { s.rig.Plugin().SetUnhealthy(uuid) })
	if err := s.rig.State.Raise(s.t.Context(), stub.Event{GPU: uuid, XID: number}); err != nil {
		s.t.Fatal(err)
	}
}
