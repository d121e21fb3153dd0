package servinggroup

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
	"pitstop.dev/readiness"
)

// errLate reports that what was read is outdated: the next look reads anew.
var errLate = errors.New("what was read is outdated")

// An outcome is what acting has led to.
type outcome struct {
	// taken counts the actions that succeeded, by kind.
	taken map[pods.ActionKind]int
	// blocked says which creation was refused; its reason is empty if none was.
	blocked pods.Verdict
	// gone: the group may be gone now.
	gone bool
	// pins are the pin Pods that were refused.
	pins []refusedPin
	err  error
}

// A refusedPin is a pin Pod that the API server does not take, and why.
type refusedPin struct {
	action pods.Action
	cause  error
}

// refusePin notes that a pin Pod was refused: that is tried again, as all errors are.
func (o *outcome) refusePin(a pods.Action, cause error) {
	o.pins = append(o.pins, refusedPin{a, cause})
	o.blocked = pods.Verdict{True: true, Reason: v1alpha1.BlockedPin, Message: pinRefusal(a, cause)}
	o.err = errors.Join(o.err, cause)
}

// act takes the actions in their order. One that fails does not keep the others from being taken,
// but no more is created after a refusal.
func (r *Reconciler) act(ctx context.Context, s *sight, actions []pods.Action) outcome {
	out := outcome{taken: make(map[pods.ActionKind]int)}
	for _, a := range actions {
		creates := a.Kind == pods.CreatePod || a.Kind == pods.CreateService || a.Kind == pods.CreatePin
		if creates && out.blocked.True {
			continue
		}
		err := r.take(ctx, s, a)
		switch {
		case err == nil:
			out.taken[a.Kind]++
			out.gone = out.gone || a.Kind == pods.RemoveFinalizer
		case a.Kind == pods.CreatePin && (refused(err) || errors.Is(err, errTaken) || errors.Is(err, errNoPinImage)):
			out.refusePin(a, err)
		case creates && errors.Is(err, errTaken):
			out.blocked = pods.Verdict{True: true, Reason: v1alpha1.BlockedName, Message: err.Error()}
		case creates && refused(err):
			out.blocked = pods.Verdict{True: true, Reason: v1alpha1.BlockedCreate, Message: err.Error()}
			out.err = errors.Join(out.err, err)
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			out.err = errors.Join(out.err, errLate)
		default:
			out.err = errors.Join(out.err, err)
		}
	}
	return out
}

// refused reports whether the API server will not have what it was asked for, as it is.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func (r *Reconciler) take(ctx context.Context, s *sight, a pods.Action) error {
	r.logger(ctx).V(1).Info("step", "do", a.Kind, "object", a.Name)
	switch a.Kind {
	case pods.CreatePod:
		return r.createPod(ctx, s, a)
	case pods.CreateService:
		return r.create(ctx, s, newService(s.sg, a))
	case pods.CreatePin:
		return r.createPin(ctx, s, a)
	case pods.DeletePod, pods.DeletePin:
		return r.delete(ctx, s, a, &corev1.Pod{})
	case pods.DeleteService:
		return r.delete(ctx, s, a, &corev1.Service{})
	case pods.DeleteOrder:
		return r.delete(ctx, s, a, &v1alpha1.InPlaceUpdate{})
	case pods.CreateOrder:
		return r.createOrder(ctx, s, a)
	case pods.UpdateOrder:
		return r.updateOrder(ctx, s, a)
	case pods.ClearHold, pods.PlaceGPUHold, pods.ClearGPUHold, pods.SetLeader, pods.UnsetLeader, pods.RestoreLabels:
		return r.updatePod(ctx, s, a)
	case pods.OpenGate:
		return r.openGate(ctx, s, a)
	case pods.RestoreFinalizer:
		return r.setFinalizer(ctx, s, controllerutil.AddFinalizer)
	case pods.RemoveFinalizer:
		return client.IgnoreNotFound(r.setFinalizer(ctx, s, controllerutil.RemoveFinalizer))
	}
	return fmt.Errorf("unknown action %q", a.Kind)
}

func (r *Reconciler) createPod(ctx context.Context, s *sight, a pods.Action) error {
	pod, err := newPod(s.sg, s.data[a.Pod.Revision], a)
	if err != nil {
		return err
	}
	return r.create(ctx, s, pod)
}

// errTaken reports that another owner has an object of the name.
var errTaken = errors.New("is the name of an object of another owner: delete it, or rename the ModelServing")

// create makes an object of the group. It never adopts what has the name already.
func (r *Reconciler) create(ctx context.Context, s *sight, obj client.Object) error {
	err := r.cfg.Client.Create(ctx, obj)
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create", obj)
	}
	return r.find(ctx, s, obj)
}

// find finds out whose the object is that has the name. One of the group's is fine: the cache was late, or
// somebody took from it the labels that caches select by, and it gets them back.
func (r *Reconciler) find(ctx context.Context, s *sight, made client.Object) error {
	var have client.Object = &corev1.Pod{}
	if _, ok := made.(*corev1.Service); ok {
		have = &corev1.Service{}
	}
	err := r.cfg.Live.Get(ctx, client.ObjectKeyFromObject(made), have)
	switch {
	case apierrors.IsNotFound(err):
		return errLate
	case err != nil:
		return wrap(err, "read", made)
	case !metav1.IsControlledBy(have, s.sg):
		return fmt.Errorf("%s %w", describe(made), errTaken)
	}
	return errors.Join(r.giveLabels(ctx, s, have, made.GetLabels()), errLate)
}

// giveLabels gives an object that was found by its name the labels that say where it belongs.
func (r *Reconciler) giveLabels(ctx context.Context, s *sight, have client.Object, wanted map[string]string) error {
	lost := make(map[string]string)
	for _, key := range []string{
		v1alpha1.LabelModelServing, v1alpha1.LabelServingGroup, v1alpha1.LabelRole, v1alpha1.LabelInstance, v1alpha1.LabelIndex,
	} {
		if wanted[key] != have.GetLabels()[key] {
			lost[key] = wanted[key]
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if pod, ok := have.(*corev1.Pod); ok {
		return r.markPod(ctx, s, pod, readiness.Opening{Labels: lost})
	}
	have.SetLabels(labels.Merge(have.GetLabels(), lost))
	return wrap(r.cfg.Client.Update(ctx, have), "update", have)
}

// delete is bound to the UID that was read: what has the name by then may be another object.
func (r *Reconciler) delete(ctx context.Context, s *sight, a pods.Action, obj client.Object) error {
	obj.SetNamespace(s.sg.Namespace)
	obj.SetName(a.Name)
	bound := client.Preconditions{UID: &a.UID}
	if a.Kind == pods.DeletePod {
		pod, err := s.pod(a)
		if err != nil {
			return err
		}
		bound.ResourceVersion = &pod.ResourceVersion // one that was drained when it was read may serve by now
	}
	return wrap(client.IgnoreNotFound(r.cfg.Client.Delete(ctx, obj, bound)), "delete", obj)
}

// createOrder makes an order. What has its name and is not about the Pod, or was made by hand, stands
// in the way and means nothing to the agent: it is deleted, and the order made at the next look.
func (r *Reconciler) createOrder(ctx context.Context, s *sight, a pods.Action) error {
	order := newOrder(s.sg, s.ms, a)
	err := r.cfg.Client.Create(ctx, order)
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create", order)
	}
	var old v1alpha1.InPlaceUpdate
	if err := r.cfg.Live.Get(ctx, client.ObjectKeyFromObject(order), &old); err != nil {
		return wrap(err, "read", order)
	}
	found := old.Labels[v1alpha1.LabelServingGroup] == s.sg.Name && old.Labels[v1alpha1.LabelModelServing] != "" // else no cache shows it
	if found && old.Spec.PodUID == a.Order.PodUID && old.Spec.ServingGroupUID == s.sg.UID {
		return errLate
	}
	err = r.delete(ctx, s, pods.Action{Name: old.Name, UID: old.UID}, &old)
	return errors.Join(err, errLate)
}

func (r *Reconciler) updateOrder(ctx context.Context, s *sight, a pods.Action) error {
	order, ok := s.orders[a.Name]
	if !ok || order.UID != a.UID {
		return errLate
	}
	order = order.DeepCopy()
	fillOrder(order, s.sg, s.ms, a.Order)
	return wrap(r.cfg.Client.Update(ctx, order), "update", order)
}

func (r *Reconciler) updatePod(ctx context.Context, s *sight, a pods.Action) error {
	pod, err := s.pod(a)
	if err != nil {
		return err
	}
	return r.markPod(ctx, s, pod, marks(s.sg, a))
}

func (r *Reconciler) markPod(ctx context.Context, s *sight, pod *corev1.Pod, o readiness.Opening) error {
	data, err := readiness.Mark(pod, o)
	if err != nil {
		return fmt.Errorf("labels of pod %s: %w", pod.Name, err)
	}
	return r.patchPod(ctx, s, pod, data)
}

// marks are the labels and annotations that an action changes.
func marks(sg *v1alpha1.ServingGroup, a pods.Action) readiness.Opening {
	switch a.Kind { //nolint:exhaustive // the others change labels alone
	case pods.ClearHold:
		return readiness.Opening{Remove: []string{v1alpha1.HoldUnit}}
	case pods.PlaceGPUHold:
		return readiness.Opening{Annotations: map[string]string{v1alpha1.HoldGPUHealth: yes}}
	case pods.ClearGPUHold:
		return readiness.Opening{Remove: []string{v1alpha1.HoldGPUHealth}}
	case pods.SetLeader:
		return readiness.Opening{Labels: map[string]string{v1alpha1.LabelLeader: yes}}
	case pods.UnsetLeader:
		return readiness.Opening{Labels: map[string]string{v1alpha1.LabelLeader: ""}}
	}
	role, instance, index, _ := place(sg.Name, a.Name)
	return readiness.Opening{Labels: placeLabels(sg, role, instance, index)}
}

// patchPod patches the Pod's status subresource, which takes labels and annotations too. A second
// write in this pass is bound to the first.
func (r *Reconciler) patchPod(ctx context.Context, s *sight, pod *corev1.Pod, data []byte) error {
	pod = pod.DeepCopy()
	if err := r.cfg.Client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, data)); err != nil {
		return wrap(err, "patch", pod)
	}
	s.pods[pod.Name] = pod
	return nil
}

// openGate is bound to the resourceVersion: the agent may have come to life and closed the gate.
func (r *Reconciler) openGate(ctx context.Context, s *sight, a pods.Action) error {
	pod, err := s.pod(a)
	if err != nil {
		return err
	}
	data, err := readiness.Raise(pod, readiness.Opening{Remove: []string{v1alpha1.HoldUnit}}, s.snap.Now)
	if err != nil {
		return fmt.Errorf("gate of pod %s: %w", a.Name, err)
	}
	return r.patchPod(ctx, s, pod, data)
}

// setFinalizer is bound to the version that was read, and whatever follows in the pass to that of the answer.
func (r *Reconciler) setFinalizer(ctx context.Context, s *sight, set func(client.Object, string) bool) error {
	sg := s.sg.DeepCopy()
	set(sg, v1alpha1.FinalizerOrdinal)
	if err := r.cfg.Client.Update(ctx, sg); err != nil {
		return wrap(err, "update", sg)
	}
	s.sg = sg
	return nil
}

// pod returns the Pod that the action was decided on.
func (s *sight) pod(a pods.Action) (*corev1.Pod, error) {
	pod, ok := s.pods[a.Name]
	if !ok || pod.UID != a.UID {
		return nil, errLate
	}
	return pod, nil
}

func wrap(err error, verb string, obj client.Object) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, describe(obj), err)
}

// describe names an object for people.
func describe(obj client.Object) string {
	switch obj.(type) {
	case *corev1.Pod:
		return "Pod " + obj.GetName()
	case *corev1.Service:
		return "Service " + obj.GetName()
	case *v1alpha1.InPlaceUpdate:
		return "InPlaceUpdate " + obj.GetName()
	}
	return "ServingGroup " + obj.GetName()
}
