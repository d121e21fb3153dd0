package world

import (
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/sim/cluster"
)

// loseOrder has somebody delete an order, one that keeps a Pod out of traffic if there is one.
func (w *World) loseOrder() {
	all := w.Server.All(cluster.InPlaceUpdate)
	var holds []client.Object
	for _, o := range all {
		if pod := w.pod(client.ObjectKeyFromObject(o), ""); pod != nil && pod.Annotations[v1alpha1.HoldInPlace] != "" {
			holds = append(holds, o)
		}
	}
	switch {
	case len(holds) > 0:
		w.userDeletes(pick(w.Loop, holds...))
	case len(all) > 0:
		w.userDeletes(pick(w.Loop, all...))
	}
}

// hold has an operator keep a Pod out of traffic for a while.
func (w *World) hold() {
	all := w.pods(nil)
	if len(all) == 0 {
		return
	}
	pod := pick(w.Loop, all...)
	w.tell("user", "holds %s", pod.Name)
	put, err := readiness.Put(pod, "alice", "")
	w.must(err)
	w.must(w.as("user").Status().Patch(w.ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, put)))
	w.After(w.Between(time.Second, 4*time.Minute), func() { w.letGo(client.ObjectKeyFromObject(pod), pod.UID) })
}

func (w *World) letGo(key types.NamespacedName, uid types.UID) {
	pod := w.pod(key, uid)
	if pod == nil {
		return
	}
	data, err := readiness.Release(pod, "alice")
	w.must(err)
	w.must(w.as("user").Status().Patch(w.ctx, pod, client.RawPatch(types.StrategicMergePatchType, data)))
}

func (w *World) deletePod() {
	if all := w.pods(nil); len(all) > 0 {
		w.userDeletes(pick(w.Loop, all...))
	}
}

func (w *World) deleteGroup() {
	if all := w.Server.All(cluster.ServingGroup); len(all) > 0 {
		w.userDeletes(pick(w.Loop, all...))
	}
}

// deleteServing deletes a ModelServing, and mostly makes one of the same name anew.
func (w *World) deleteServing() {
	all := w.Server.All(cluster.ModelServing)
	if len(all) == 0 {
		return
	}
	o := pick(w.Loop, all...)
	w.userDeletes(o)
	if w.Chance(0.7) {
		w.After(w.Between(100*time.Millisecond, 20*time.Second), func() {
			if w.Server.Stored(cluster.ModelServing, client.ObjectKeyFromObject(o)) == nil {
				w.Declare(o.GetName())
			}
		})
	}
}

func (w *World) userDeletes(o client.Object) {
	c, ok := o.DeepCopyObject().(client.Object)
	if ok {
		w.must(client.IgnoreNotFound(w.as("user").Delete(w.ctx, c)))
	}
}

// forge makes a Pod that has all labels of a ServingGroup's Pod and is nobody's.
func (w *World) forge() {
	all := w.pods(nil)
	if len(all) == 0 {
		return
	}
	model := pick(w.Loop, all...)
	pod := &corev1.Pod{Spec: *model.Spec.DeepCopy()}
	pod.Namespace, pod.Name = Namespace, model.Name+"-forged"
	pod.Labels, pod.Annotations = model.Labels, map[string]string{}
	pod.Spec.NodeName = ""
	w.create(pod)
}

// strip takes from an object the labels that caches select by.
func (w *World) strip() {
	kind := pick(w.Loop, cluster.Pod, cluster.Pod, cluster.Pod, cluster.Service, cluster.InPlaceUpdate, cluster.ControllerRevision)
	all := w.Server.All(kind)
	if len(all) == 0 {
		return
	}
	o, ok := pick(w.Loop, all...).DeepCopyObject().(client.Object)
	if !ok || o.GetDeletionTimestamp() != nil {
		return
	}
	w.tell("user", "takes the labels from %s %s", kind, o.GetName())
	kept := o.GetLabels()
	maps.DeleteFunc(kept, func(key, _ string) bool { return key != v1alpha1.LabelRevision })
	o.SetLabels(kept)
	w.must(w.as("user").Update(w.ctx, o))
}

// takeFinalizer takes the finalizer from a ServingGroup, and perhaps deletes it some time later.
func (w *World) takeFinalizer() {
	all := w.Server.All(cluster.ServingGroup)
	if len(all) == 0 {
		return
	}
	g, ok := pick(w.Loop, all...).DeepCopyObject().(client.Object)
	if !ok {
		return
	}
	w.tell("user", "takes the finalizers from %s", g.GetName())
	g.SetFinalizers(nil)
	w.must(w.as("user").Update(w.ctx, g))
	if w.Chance(0.3) {
		w.After(w.Between(0, 20*time.Second), func() { w.leave(g) })
	}
}

// squat takes a name that a ServingGroup or its Pods may need, for a while.
func (w *World) squat() {
	ordinal, role := int32(w.IntN(5)), pick(w.Loop, "prefill", "decode")
	name := v1alpha1.PodName(v1alpha1.ServingGroupName("m", ordinal), role, 0, 0)
	var o client.Object
	switch w.IntN(3) {
	case 0:
		pod := &corev1.Pod{Spec: w.template("other").Spec}
		o = pod
	case 1:
		o = &corev1.Service{}
	default:
		group := &v1alpha1.ServingGroup{Spec: v1alpha1.ServingGroupSpec{Ordinal: &ordinal, Revision: "somebody-elses"}}
		o, name = group, v1alpha1.ServingGroupName("m", ordinal)
	}
	o.SetNamespace(Namespace)
	o.SetName(name)
	if w.create(o) {
		w.After(w.Between(10*time.Second, 5*time.Minute), func() { w.leave(o) })
	}
}

// leave gives a taken name back.
func (w *World) leave(o client.Object) {
	kind, ok := kindOf(o)
	if !ok {
		return
	}
	if stored := w.Server.Stored(kind, client.ObjectKeyFromObject(o)); stored != nil && stored.GetUID() == o.GetUID() {
		w.userDeletes(stored)
	}
}

func kindOf(o client.Object) (string, bool) {
	switch o.(type) {
	case *corev1.Pod:
		return cluster.Pod, true
	case *corev1.Service:
		return cluster.Service, true
	case *v1alpha1.ServingGroup:
		return cluster.ServingGroup, true
	}
	return "", false
}

// create reports whether the name was free.
func (w *World) create(o client.Object) bool {
	err := w.as("user").Create(w.ctx, o)
	if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) {
		return false
	}
	w.must(err)
	return true
}

func (w *World) crashPod() {
	if all := w.pods(nil); len(all) > 0 {
		pod := pick(w.Loop, all...)
		w.tell("world", "the engine of %s crashes", pod.Name)
		w.crash(w.engines[pod.UID], "")
	}
}

func (w *World) evictPod() {
	if all := w.pods(nil); len(all) > 0 {
		pod := pick(w.Loop, all...)
		w.tell("world", "%s is evicted", pod.Name)
		w.fail(w.engines[pod.UID])
	}
}

func (w *World) loseNode() {
	n := pick(w.Loop, w.nodes...)
	w.nodeDown(n)
	w.After(w.Between(10*time.Second, 15*time.Minute), func() { w.nodeUp(n) })
}

func (w *World) loseAgent() {
	n := pick(w.Loop, w.nodes...)
	w.agentDown(n)
	w.After(w.Between(5*time.Second, 5*time.Minute), func() { w.agentUp(n) })
}

// refuse has the API server refuse new Pods for a while, as a quota does.
func (w *World) refuse() {
	w.tell("world", "the quota is used up")
	w.Server.Admit = func(o client.Object) error {
		if _, ok := o.(*corev1.Pod); ok {
			return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errQuota)
		}
		return nil
	}
	w.After(w.Between(5*time.Second, time.Minute), func() { w.Server.Admit = nil })
}

// errQuota is what a used up quota says.
var errQuota = errors.New("exceeded quota")
