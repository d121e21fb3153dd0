package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// The bound of every message of a status.
const maxMessage = 1024

// validate refuses what the API server refuses of what the coordinator writes: rules of the CRDs
// that span fields or time, list keys, and the lengths that a generated text can pass.
func validate(w Write) error {
	old, o := w.Old, w.New
	var broken []string
	switch o := o.(type) {
	case *v1alpha1.ServingGroup:
		before, _ := old.(*v1alpha1.ServingGroup)
		broken = brokenGroup(before, o)
	case *v1alpha1.InPlaceUpdate:
		before, _ := old.(*v1alpha1.InPlaceUpdate)
		broken = brokenOrder(before, o)
	case *v1alpha1.ModelServing:
		broken = append(repeated(o.Status.Updating, func(s string) string { return s }), longConditions(o)...)
	case *corev1.Pod:
		if before, ok := old.(*corev1.Pod); ok && w.Verb != UpdateStatus {
			broken = brokenPod(before, o)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	var list field.ErrorList
	for _, b := range broken {
		list = append(list, field.Invalid(field.NewPath("object"), o.GetName(), b))
	}
	return apierrors.NewInvalid(schema.GroupKind{Kind: kindOf(o)}, o.GetName(), list)
}

func brokenGroup(old, o *v1alpha1.ServingGroup) []string {
	var broken []string
	add := func(it bool, text string) {
		if it {
			broken = append(broken, text)
		}
	}
	add(o.Spec.Ordinal == nil, "spec.ordinal is required")
	add(o.Spec.Revision == "", "spec.revision is required")
	if old != nil {
		add(*old.Spec.Ordinal != *o.Spec.Ordinal, "spec.ordinal is immutable")
		add(old.Spec.LastAttempt > o.Spec.LastAttempt, "spec.lastAttempt only grows")
	}
	broken = append(broken, repeated(o.Spec.Instances, func(i v1alpha1.RoleInstance) string { return v1alpha1.UnitName(i.Role, *i.Ordinal) })...)
	broken = append(broken, repeated(o.Spec.Updates, func(u v1alpha1.UnitUpdate) string { return u.Unit })...)
	broken = append(broken, repeated(o.Status.Instances, func(i v1alpha1.InstanceStatus) string { return v1alpha1.UnitName(i.Role, *i.Ordinal) })...)
	broken = append(broken, repeated(o.Status.Updates, func(u v1alpha1.UnitUpdateStatus) string { return u.Unit })...)
	for _, u := range o.Spec.Updates {
		add(u.Attempt < 1 || u.Attempt > o.Spec.LastAttempt, fmt.Sprintf("attempt %d of %q is not in 1..lastAttempt", u.Attempt, u.Unit))
		add(u.Method == "" || u.Permit == "", "method and permit are required")
	}
	for _, u := range o.Status.Updates {
		add(u.Attempt < 1 || u.Stage == "" || u.Since.IsZero(), fmt.Sprintf("report on %q lacks attempt, stage or since", u.Unit))
		add(len(u.Message) > maxMessage, "a message is too long")
	}
	for _, i := range o.Status.Instances {
		add(i.Phase == "" || len(i.Message) > maxMessage, fmt.Sprintf("report on %s-%d lacks a phase, or its message is too long", i.Role, *i.Ordinal))
	}
	return append(broken, longConditions(o)...)
}

func longConditions(o client.Object) []string {
	var broken []string
	for _, c := range conditionsOf(o) {
		if len(c.Message) > 32768 || c.Reason == "" || c.Status == "" {
			broken = append(broken, fmt.Sprintf("condition %s lacks status or reason, or its message is too long", c.Type))
		}
	}
	return broken
}

// brokenOrder has the transition rules of an InPlaceUpdate.
func brokenOrder(old, o *v1alpha1.InPlaceUpdate) []string {
	if o.Spec.PodUID == "" || o.Spec.NodeName == "" || o.Spec.Attempt < 1 {
		return []string{"podUID, nodeName and attempt are required"}
	}
	if old == nil {
		return nil
	}
	was, is := old.Spec, o.Spec
	switch {
	case was.PodUID != is.PodUID || was.NodeName != is.NodeName || was.ServingGroupUID != is.ServingGroupUID:
		return []string{"podUID, nodeName and servingGroupUID are immutable"}
	case is.Attempt < was.Attempt:
		return []string{"attempt only grows"}
	case is.Attempt > was.Attempt:
		return nil
	case !is.Permit.Allows(was.Permit):
		return []string{"permit only rises within an attempt"}
	}
	was.Permit = is.Permit
	if !equality.Semantic.DeepEqual(was, is) {
		return []string{"within an attempt only permit changes"}
	}
	return nil
}

// brokenPod: of a Pod's spec only the node may still be set, and images may change.
func brokenPod(old, o *corev1.Pod) []string {
	spec := o.Spec
	if len(spec.Containers) == len(old.Spec.Containers) {
		spec.Containers = slices.Clone(spec.Containers)
		for i := range spec.Containers {
			spec.Containers[i].Image = old.Spec.Containers[i].Image
		}
	}
	if old.Spec.NodeName == "" {
		spec.NodeName = ""
	}
	if !equality.Semantic.DeepEqual(&old.Spec, &spec) {
		return []string{"a Pod's spec is immutable"}
	}
	return nil
}

func repeated[T any](list []T, key func(T) string) []string {
	seen := make(map[string]bool, len(list))
	for _, v := range list {
		k := key(v)
		if seen[k] {
			return []string{fmt.Sprintf("%q stands twice in a list", k)}
		}
		seen[k] = true
	}
	return nil
}
