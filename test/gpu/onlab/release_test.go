//go:build lab

package onlab

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/gpu/stub"
)

// release asks the agent of the node to let go of the driver for so long; 0: to take it again.
func (s *scene) release(d time.Duration) {
	s.t.Helper()
	var until any
	if d > 0 {
		until = time.Now().Add(d).UTC().Format(time.RFC3339)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationGPURelease: until}}})
	if err == nil {
		_, err = s.Core.CoreV1().Nodes().Patch(context.WithoutCancel(s.t.Context()), s.node.Name, types.MergePatchType, data, metav1.PatchOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// A drained engine serves again while somebody resets a GPU, and its update goes on afterwards.
func TestNoUpdateGoesOnWhileTheDriverIsReleased(t *testing.T) {
	s := newUpdate(t, cluster.PodSpec{Name: "released", Image: images.engine})
	uuids := s.given()
	s.drained(images.next)
	t.Cleanup(func() { s.release(0) })
	s.release(5 * time.Minute)
	s.nodeIs(corev1.ConditionUnknown, v1alpha1.GPUUnknownReleased)
	u := s.waits(v1alpha1.WaitingDriver)
	if !strings.Contains(u.Status.Message, "gpu release "+s.node.Name+" --end") {
		t.Errorf("it waits with %q", u.Status.Message)
	}
	s.inTraffic()
	s.serve()
	s.untouched()
	s.release(0)
	u = s.ends(v1alpha1.StageInService, "")
	s.reports(u, uuids, v1alpha1.VerdictReloaded, engineMiB)
	s.once(u)
}

// Nothing of the driver can be read: the update waits while the engine serves, and goes on with a baseline if that ends in time.
func TestAnUpdateWaitsForGPUsThatCannotBeRead(t *testing.T) {
	s := newUpdate(t, cluster.PodSpec{Name: "unread", Image: images.engine})
	uuids := s.given()
	suffer := func(faults ...stub.Fault) {
		t.Helper()
		if err := s.rig.State.Update(context.WithoutCancel(t.Context()), func(state *stub.State) { state.Faults = faults }); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { suffer() })
	suffer(stub.Fault{Call: "nvmlDeviceGetCount", Code: 999})
	s.healthy(corev1.ConditionUnknown, v1alpha1.GPUUnknownUnread)
	s.order(images.next, v1alpha1.PermitServe)
	if u := s.waits(v1alpha1.WaitingUnread); !strings.Contains(u.Status.Message, "NVML code 999") {
		t.Errorf("it waits with %q", u.Status.Message)
	}
	s.untouched()
	s.inTraffic()
	suffer()
	u := s.ends(v1alpha1.StageInService, "")
	s.reports(u, uuids, v1alpha1.VerdictReloaded, engineMiB)
	s.once(u)
}
