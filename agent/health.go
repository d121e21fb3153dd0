package agent

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/agent/health"
	"pitstop.dev/api/v1alpha1"
)

// healthAPI is what the health of the GPUs needs of the API server, as the agent has it.
type healthAPI struct{ agent *Agent }

// Pods implements health.API.
func (h healthAPI) Pods() (pods []*corev1.Pod, known bool) {
	known = h.agent.pods.synced() // before they are listed, so that they are at least those
	for _, obj := range h.agent.pods.objects.List() {
		cached, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		if pod, ok := h.agent.pods.get(keyOf(cached)); ok {
			pods = append(pods, pod)
		}
	}
	return pods, known
}

// Node implements health.API.
func (h healthAPI) Node(ctx context.Context) (*corev1.Node, error) {
	node, err := h.agent.api.node(ctx, h.agent.cfg.NodeName)
	if err != nil {
		return nil, err
	}
	return slimNode(node), nil
}

// PatchNodeStatus implements health.API.
func (h healthAPI) PatchNodeStatus(ctx context.Context, data []byte) (*corev1.Node, error) {
	node, err := h.agent.api.patchNodeStatus(ctx, h.agent.cfg.NodeName, data)
	if err != nil {
		return nil, err
	}
	return slimNode(node), nil
}

// PatchPodStatus implements health.API. The gate follows a hold in the look at the Pod that comes next.
func (h healthAPI) PatchPodStatus(ctx context.Context, pod *corev1.Pod, data []byte) error {
	out, err := h.agent.api.patchPodStatus(ctx, pod, data)
	if err != nil {
		return err
	}
	h.agent.pods.wrote(out)
	h.agent.queue.Add(keyOf(out))
	return nil
}

// Event implements health.API.
func (h healthAPI) Event(about *corev1.ObjectReference, kind, reason, message string) {
	h.agent.events.recorder.Event(about, kind, reason, message)
}

// slimNode keeps of the Node what the health of the GPUs is about.
func slimNode(node *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, Annotations: ours(node.Annotations)},
		Status: corev1.NodeStatus{
			Capacity: devices(node.Status.Capacity),
			Conditions: slices.DeleteFunc(slices.Clone(node.Status.Conditions), func(c corev1.NodeCondition) bool {
				return c.Type != v1alpha1.GPUHealthy
			}),
		},
	}
}

// checks are those that the agent makes of its node.
func (a *Agent) checks() *health.Checks {
	return health.NewChecks(append([]health.Check{
		health.CheckOfRuntime(a.cfg.Runtime, a.cfg.Clock),
		health.CheckOfKubelet(a.cfg.KubeletDir),
		health.CheckOfPlugins(a.cfg.KubeletDir, a.podsHaveDevices),
		health.CheckOfDisk(a.cfg.Runtime, a.cfg.MinFreeBytes),
		health.CheckOfJournal(a.keeper.problem),
	}, a.health.Checks()...)...)
}

// podsHaveDevices reports whether Pods of the node have devices, and whether that is known.
func (a *Agent) podsHaveDevices() (is, known bool) {
	pods, known := healthAPI{a}.Pods()
	is = slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return len(extended(pod)) > 0 })
	return is, is || known
}
