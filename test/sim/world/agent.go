package world

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/sim/cluster"
)

// wakeAgent has the agent of the Pod's node look at the Pod. This file is a stand-in for the real
// agent: it answers orders that change no container.
func (w *World) wakeAgent(key types.NamespacedName) {
	w.After(w.Between(5*time.Millisecond, time.Second), func() { w.agent(key) })
}

// agent brings the Pod's gate and the report on its order up to date.
func (w *World) agent(key types.NamespacedName) {
	pod := w.pod(key, "")
	if pod == nil {
		return
	}
	n := w.node(pod.Spec.NodeName)
	if n == nil || !n.live() || !readiness.HasGate(pod) {
		return
	}
	order, ok := w.Server.Stored(cluster.InPlaceUpdate, key).(*v1alpha1.InPlaceUpdate)
	switch {
	case !ok || order.Spec.PodUID != pod.UID || order.Spec.ServingGroupUID == "":
		if data, needed := readiness.Sync(pod, w.Now()); needed {
			w.patch(n, pod, data)
		}
	case pod.DeletionTimestamp != nil:
		w.stage(n, order, v1alpha1.StageCancelled)
	case order.Spec.Permit == v1alpha1.PermitServe:
		w.serve(n, pod, order)
	default:
		w.drain(n, pod, order)
	}
}

// drain takes the Pod out of traffic and reports once its requests have ended.
func (w *World) drain(n *node, pod *corev1.Pod, order *v1alpha1.InPlaceUpdate) {
	token := order.Token()
	if pod.Annotations[v1alpha1.HoldInPlace] != token || readiness.GateOf(pod).Open {
		data, err := readiness.Lower(pod, token, w.Now())
		w.must(err)
		w.stage(n, order, v1alpha1.StageDraining)
		w.patch(n, pod, data)
		wait := order.Spec.Propagation()
		if order.Spec.Drain != nil {
			wait += w.Between(0, order.Spec.Drain.Timeout())
		}
		w.After(wait, func() {
			w.drained[token] = true
			w.agent(client.ObjectKeyFromObject(pod))
		})
		return
	}
	switch {
	case !w.drained[token]:
	case order.Spec.Permit == v1alpha1.PermitDrain:
		w.stage(n, order, v1alpha1.StageDrained)
	default:
		w.stage(n, order, v1alpha1.StageVerified)
	}
}

// serve takes the agent's hold away, and with the last hold the gate opens.
func (w *World) serve(n *node, pod *corev1.Pod, order *v1alpha1.InPlaceUpdate) {
	if _, held := pod.Annotations[v1alpha1.HoldInPlace]; held {
		data, err := readiness.Raise(pod, readiness.Opening{}, w.Now())
		w.must(err)
		w.patch(n, pod, data)
		return
	}
	if data, needed := readiness.Sync(pod, w.Now()); needed {
		w.patch(n, pod, data)
		return
	}
	if isReady(pod) {
		w.stage(n, order, v1alpha1.StageInService)
	}
}

func (w *World) patch(n *node, pod *corev1.Pod, data []byte) {
	err := w.as("agent/"+n.name).Status().Patch(w.ctx, pod, client.RawPatch(types.StrategicMergePatchType, data))
	w.must(err)
}

// stage reports on the order's attempt, once.
func (w *World) stage(n *node, order *v1alpha1.InPlaceUpdate, stage v1alpha1.Stage) {
	if order.Status.Attempt == order.Spec.Attempt && order.Status.Stage == stage {
		return
	}
	o := order.DeepCopy()
	o.Status.Attempt, o.Status.Stage = o.Spec.Attempt, stage
	w.must(w.as("agent/"+n.name).Status().Update(w.ctx, o))
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// errQuota is what a used up quota says.
var errQuota = errors.New("exceeded quota")
