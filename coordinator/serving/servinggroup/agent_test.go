package servinggroup_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// agent does what the agent of the node does, and reports whether it did anything. Its Lease is
// renewed.
func (w *world) agent() bool {
	w.t.Helper()
	w.lease()
	var moved bool
	for _, p := range w.pods() {
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
			continue
		}
		var o v1alpha1.InPlaceUpdate
		err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(&p), &o)
		w.must(client.IgnoreNotFound(err))
		if err == nil && o.Spec.PodUID == p.UID && (o.Status.Attempt != o.Spec.Attempt || !o.Status.Stage.Ended()) {
			moved = w.follow(&p, &o) || moved
			continue
		}
		if data, needed := readiness.Sync(&p, w.clock.Now()); needed {
			w.patch(&p, data)
			moved = true
		}
	}
	return moved
}

// follow takes the Pod as far as its order permits.
func (w *world) follow(p *corev1.Pod, o *v1alpha1.InPlaceUpdate) bool {
	w.t.Helper()
	stage := v1alpha1.StageDrained
	var data []byte
	var err error
	if o.Spec.Permit == v1alpha1.PermitServe {
		stage = v1alpha1.StageInService
		data, err = readiness.Raise(p, readiness.Opening{}, w.clock.Now())
	} else {
		data, err = readiness.Lower(p, o.Token(), w.clock.Now())
	}
	w.must(err)
	if o.Status.Attempt == o.Spec.Attempt && o.Status.Stage == stage {
		return false
	}
	w.patch(p, data)
	o.Status.Attempt, o.Status.Stage = o.Spec.Attempt, stage
	w.must(w.api.Status().Update(w.t.Context(), o))
	return true
}

func (w *world) patch(p *corev1.Pod, data []byte) {
	w.t.Helper()
	w.must(w.patchStatus(context.WithoutCancel(w.t.Context()), w.api, "status", p, client.RawPatch(types.StrategicMergePatchType, data)))
}

// live lets controller, kubelet and agent do what they have to do.
func (w *world) live() {
	w.t.Helper()
	for range 20 {
		w.lease()
		w.reconcile()
		kubelet, agent := w.kubelet(), w.agent()
		if !kubelet && !agent {
			return
		}
	}
	w.t.Fatal("the world does not come to rest")
}

func (w *world) orders() []v1alpha1.InPlaceUpdate {
	w.t.Helper()
	var list v1alpha1.InPlaceUpdateList
	w.must(w.api.List(w.t.Context(), &list))
	return list.Items
}
