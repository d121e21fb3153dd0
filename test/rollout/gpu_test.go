//go:build lab

package rollout

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/rollout/record"
)

// sicken says of Pods what their agents would: here no GPU is real.
func (p *play) sicken(status corev1.ConditionStatus, pods ...corev1.Pod) {
	p.t.Helper()
	for _, pod := range pods {
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: v1alpha1.GPUHealthy, Status: status, Reason: string(v1alpha1.GPUFalseLost), Message: "GPU-1", LastTransitionTime: metav1.Now(),
		}}}})
		if err != nil {
			p.t.Fatal(err)
		}
		_, err = p.Core.CoreV1().Pods(pod.Namespace).Patch(p.t.Context(), pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// held are the groups of which a Pod has the hold gpu-health.
func (p *play) held() map[string]int {
	out := map[string]int{}
	for _, pod := range p.pods() {
		if _, holds := pod.Annotations[v1alpha1.HoldGPUHealth]; holds {
			out[pod.Labels[v1alpha1.LabelServingGroup]]++
		}
	}
	return out
}

// A driver that calls every GPU sick takes no more out of traffic than the budget allows: every frame is judged.
func TestADriverThatCallsAllGPUsSick(t *testing.T) {
	t.Parallel()
	p := newPlayOf(t, cluster.ServingSpec{Name: "sick", Strategy: inPlace()}, record.Rules{MaxUnavailable: 1, Whole: true})
	before, containers := p.kept(), p.containers()
	p.sicken(corev1.ConditionFalse, p.pods()...)
	p.blocked(v1alpha1.BlockedGPU)
	p.until("one group is held", func() bool { // that which was seen sick first
		h := slices.Collect(maps.Values(p.held()))
		return len(h) == 1 && h[0] == 3
	})
	p.waits(func(ms *v1alpha1.ModelServing) bool { return ms.Status.AvailableReplicas == 3 })
	p.verb(0, "GPU", "explain", "ms/sick")
	p.sicken(corev1.ConditionTrue, p.pods()...)
	p.until("none is held", func() bool { return len(p.held()) == 0 })
	p.waits(func(ms *v1alpha1.ModelServing) bool { return ms.Status.AvailableReplicas == 4 && cluster.Complete(ms) })
	want(t, "Pods", before, p.kept())
	want(t, "containers", containers, p.containers())
}
