package servinggroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// findPods asks by name for Pods that were there and are not in a live list, which labels select:
// somebody may have changed their labels. A Pod that is missing while its instance is made is found when it
// is made again.
func (r *Reconciler) findPods(ctx context.Context, s *sight) ([]corev1.Pod, error) {
	var found []corev1.Pod
	reported := map[string]bool{}
	for _, i := range s.sg.Status.Instances {
		if i.Ordinal == nil {
			continue
		}
		reported[v1alpha1.UnitName(i.Role, *i.Ordinal)] = true
		if i.Phase == v1alpha1.InstanceCreating && s.sg.DeletionTimestamp == nil {
			continue
		}
		for index := range max(i.Pods, i.LivePods) {
			if _, err := r.findPod(ctx, s, v1alpha1.PodName(s.sg.Name, i.Role, *i.Ordinal, index), &found); err != nil {
				return nil, err
			}
		}
	}
	if s.sg.DeletionTimestamp == nil {
		return found, nil
	}
	for _, i := range s.sg.Spec.Instances { // made just before the deletion, and never reported: as many as there are
		for index, more := int32(0), i.Ordinal != nil && !reported[v1alpha1.UnitName(i.Role, *i.Ordinal)]; more; index++ {
			var err error
			if more, err = r.findPod(ctx, s, v1alpha1.PodName(s.sg.Name, i.Role, *i.Ordinal, index), &found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// findPod appends the Pod of that name to found, unless it is known. It reports whether there is one.
func (r *Reconciler) findPod(ctx context.Context, s *sight, name string, found *[]corev1.Pod) (bool, error) {
	if s.pods[name] != nil {
		return true, nil
	}
	var p corev1.Pod
	err := r.cfg.Live.Get(ctx, types.NamespacedName{Namespace: s.sg.Namespace, Name: name}, &p)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read pod %s: %w", name, err)
	}
	*found = append(*found, p)
	return true, nil
}

// findServices asks by name for the Services of instances that are about to be gone, and that a list does not
// have, which labels select: nobody would look for them any more.
func (r *Reconciler) findServices(ctx context.Context, s *sight) error {
	for _, i := range s.sg.Status.Instances {
		if i.Ordinal == nil || i.Phase != v1alpha1.InstanceRemoving {
			continue
		}
		name := v1alpha1.EntryPodName(s.sg.Name, i.Role, *i.Ordinal)
		if slices.ContainsFunc(s.snap.Services, func(v pods.Service) bool { return v.Name == name }) {
			continue
		}
		var v corev1.Service
		err := r.cfg.Live.Get(ctx, types.NamespacedName{Namespace: s.sg.Namespace, Name: name}, &v)
		switch {
		case err == nil && metav1.IsControlledBy(&v, s.sg):
			s.snap.Services = append(s.snap.Services, pods.Service{Name: v.Name, UID: v.UID, Deleting: v.DeletionTimestamp != nil})
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read service %s: %w", name, err)
		}
	}
	return nil
}
