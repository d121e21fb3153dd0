//go:build lab

package onlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/gpu/stub"
)

func TestNoUpdateBeginsOnASickGPU(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{Name: "xid-before", Image: images.engine})
	s.xid(s.given()[1], 79)
	s.healthy(corev1.ConditionFalse, v1alpha1.GPUFalseXID)
	s.order(images.next, v1alpha1.PermitServe)
	if u := s.waits(v1alpha1.WaitingGPU); !strings.Contains(u.Status.Message, "XID 79") {
		t.Errorf("message %q", u.Status.Message)
	}
	s.untouched()
	s.inTraffic() // the old engine serves
}

func TestAGPUThatBreaksBeforeTheSwapKeepsTheOldEngine(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{Name: "xid-drained", Image: images.engine})
	uuids := s.given()
	s.drained(images.next)
	s.xid(uuids[0], 79)
	s.healthy(corev1.ConditionFalse, v1alpha1.GPUFalseXID)
	s.serve()
	s.waits(v1alpha1.WaitingGPU)
	s.untouched()
}

// What the end of an engine brings is expected then; a GPU that breaks is told even so, and the update ends as it would.
func TestAGPUThatBreaksInTheSwapIsTold(t *testing.T) {
	t.Parallel()
	s := newUpdate(t, cluster.PodSpec{Name: "xid-loading", Image: images.engine})
	uuids := s.given()
	s.order(images.loading, v1alpha1.PermitServe)
	s.mustPod(s.WaitPod(t.Context(), s.pod.Name, func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == images.loading }))
	s.xid(uuids[0], 31)
	s.xid(uuids[1], 79)
	sick, _ := condition(s.healthy(corev1.ConditionFalse, v1alpha1.GPUFalseXID))
	if !strings.Contains(sick.Message, "XID 79") || strings.Contains(sick.Message, "XID 31") {
		t.Errorf("the Pod's GPUs are unhealthy with %q", sick.Message)
	}
	u := s.ends(v1alpha1.StageInService, "")
	s.reports(u, uuids, v1alpha1.VerdictReloaded, engineMiB)
	s.once(u)
}

// nodeIs waits until the agent says so of the GPUs of the node.
func (s *scene) nodeIs(status corev1.ConditionStatus, reason v1alpha1.GPUReason) {
	s.t.Helper()
	var got corev1.NodeCondition
	err := wait.PollUntilContextTimeout(s.t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		node, err := s.Core.CoreV1().Nodes().Get(ctx, s.node.Name, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // tried again
		}
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == v1alpha1.GPUHealthy })
		if i >= 0 {
			got = node.Status.Conditions[i]
		}
		return got.Status == status && got.Reason == string(reason), nil
	})
	if err != nil {
		s.t.Fatalf("the node's GPUs: %+v: %v", got, err)
	}
	s.t.Logf("node: %s %s: %s", got.Status, got.Reason, got.Message)
}

func TestADriverThatWantsRecovery(t *testing.T) {
	s := newUpdate(t, cluster.PodSpec{Name: "recovery", Image: images.engine})
	uuid := s.given()[0]
	set := func(action int) {
		t.Helper()
		err := s.rig.State.Update(context.WithoutCancel(t.Context()), func(state *stub.State) {
			i := slices.IndexFunc(state.GPUs, func(g stub.GPU) bool { return g.UUID == uuid })
			state.GPUs[i].Recovery = action
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(0) })
	s.nodeIs(corev1.ConditionTrue, v1alpha1.GPUTrueHealthy)
	set(1)
	sick, _ := condition(s.healthy(corev1.ConditionFalse, v1alpha1.GPUFalseRecovery))
	t.Logf("Pod: %s", sick.Message)
	s.nodeIs(corev1.ConditionFalse, v1alpha1.GPUFalseRecovery)
	s.inTraffic() // it is the coordinator's to take it out
	set(0)
	s.healthy(corev1.ConditionTrue, v1alpha1.GPUTrueHealthy)
	s.nodeIs(corev1.ConditionTrue, v1alpha1.GPUTrueHealthy)
}

// What a restarted agent was not told itself it has from the one before: the driver says nothing of it again.
func TestARestartedAgentKnowsASickGPU(t *testing.T) {
	s := newUpdate(t, cluster.PodSpec{Name: "restarted", Image: images.engine})
	uuid := s.given()[0]
	s.xid(uuid, 79)
	s.healthy(corev1.ConditionFalse, v1alpha1.GPUFalseXID)
	t.Cleanup(func() {
		if err := s.RestartAgent(context.WithoutCancel(t.Context()), s.node.Name); err != nil {
			t.Error(err)
		}
	})
	if err := s.ReplaceAgent(t.Context(), s.node.Name); err != nil {
		t.Fatal(err)
	}
	var first time.Time
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		gpus, err := s.asked(ctx)
		if err != nil || gpus.State != gpu.Up {
			return false, nil //nolint:nilerr // tried again
		}
		i := slices.IndexFunc(gpus.Devices, func(d states.Device) bool { return d.Verdict.UUID == uuid })
		if i < 0 || gpus.Devices[i].Verdict.Status != corev1.ConditionFalse || !strings.Contains(gpus.Devices[i].Verdict.Message, "XID 79") {
			t.Fatalf("the agent says %+v", gpus)
		}
		if first.IsZero() {
			first = gpus.At
		}
		return gpus.At.Sub(first) > 20*time.Second, nil // four readings, each of which finds nothing wrong
	})
	if err != nil {
		t.Fatal(err)
	}
	s.healthy(corev1.ConditionFalse, v1alpha1.GPUFalseXID)
	s.nodeIs(corev1.ConditionFalse, v1alpha1.GPUFalseXID)
}

// asked returns what the agent of the node says of its GPUs.
func (s *scene) asked(ctx context.Context) (states.GPUs, error) {
	pods := s.Core.CoreV1().Pods(cluster.System)
	list, err := pods.List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + s.node.Name, LabelSelector: "app.kubernetes.io/component=agent",
	})
	if err != nil || len(list.Items) != 1 {
		return states.GPUs{}, errors.Join(err, fmt.Errorf("%d agents", len(list.Items)))
	}
	data, err := pods.ProxyGet("http", list.Items[0].Name, "9464", states.Path, nil).DoRaw(ctx)
	if err != nil {
		return states.GPUs{}, err
	}
	var all states.States
	err = json.Unmarshal(data, &all)
	return all.GPUs, err
}

func TestNoUpdateBeginsWithoutTheDevicePlugin(t *testing.T) {
	s := newUpdate(t, cluster.PodSpec{Name: "pluginless", Image: images.engine})
	uuids := s.given()
	s.rig.StopPlugin()
	back := func() {
		t.Helper()
		ctx := context.WithoutCancel(t.Context())
		if err := s.rig.StartPlugin(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitGPUs(ctx, s.node.Name, len(manyUUIDs())); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(back)
	if err := s.WaitGPUs(t.Context(), s.node.Name, 0); err != nil {
		t.Fatal(err)
	}
	s.order(images.next, v1alpha1.PermitServe)
	s.waits(v1alpha1.WaitingDevicePlugin)
	s.untouched()
	s.inTraffic()
	back()
	u := s.ends(v1alpha1.StageInService, "")
	s.reports(u, uuids, v1alpha1.VerdictReloaded, engineMiB)
	s.once(u)
	s.mustPod(s.WaitPod(t.Context(), s.pod.Name, readiness.Ready))
}
