package cluster

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// hasGeneration: the generation of Pods says nothing that anybody here reads.
func hasGeneration(kind string) bool {
	return kind == ModelServing || kind == ServingGroup || kind == InPlaceUpdate
}

// resetStatus does to a new object's status what the API server does.
func resetStatus(o client.Object) {
	switch o := o.(type) {
	case *v1alpha1.ModelServing:
		o.Status = v1alpha1.ModelServingStatus{}
	case *v1alpha1.ServingGroup:
		o.Status = v1alpha1.ServingGroupStatus{}
	case *v1alpha1.InPlaceUpdate:
		o.Status = v1alpha1.InPlaceUpdateStatus{}
	case *corev1.Pod:
		o.Status = corev1.PodStatus{Phase: corev1.PodPending}
	}
}

// merge returns what of given an update on the resource, or on its status, may change of old. With given
// it shares nothing, and with old what an update leaves alone: stored objects are never changed.
func merge(verb Verb, old, given client.Object) client.Object {
	if verb == UpdateStatus {
		given = clone(withoutSpec(given))
		o := shallow(old)
		part(o, "Status").Set(part(given, "Status"))
		if _, ok := o.(*corev1.Pod); ok {
			o.SetLabels(given.GetLabels())
			o.SetAnnotations(given.GetAnnotations())
		}
		return o
	}
	o := clone(given)
	o.SetUID(old.GetUID())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	if status := part(o, "Status"); status.IsValid() {
		status.Set(part(old, "Status"))
	}
	return o
}

func part(o client.Object, name string) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName(name)
}

// samePart compares by pointer, for a part by value would be copied first.
func samePart(a, b client.Object, name string) bool {
	return equality.Semantic.DeepEqual(part(a, name).Addr().Interface(), part(b, name).Addr().Interface())
}

// round cuts times to whole seconds, as their form in JSON does: who compares what it computed
// with what it reads back must see the difference.
func round(o client.Object) {
	switch o := o.(type) {
	case *v1alpha1.ModelServing:
		roundConditions(o.Status.Conditions)
	case *v1alpha1.ServingGroup:
		roundConditions(o.Status.Conditions)
		for i := range o.Status.Instances {
			roundTime(o.Status.Instances[i].ReadySince)
			roundTime(o.Status.Instances[i].DownSince)
		}
		for i := range o.Status.Updates {
			roundTime(&o.Status.Updates[i].Since)
		}
	case *v1alpha1.InPlaceUpdate:
		roundConditions(o.Status.Conditions)
	case *corev1.Pod:
		roundTime(o.Status.StartTime)
		for i := range o.Status.Conditions {
			roundTime(&o.Status.Conditions[i].LastTransitionTime)
		}
	case *corev1.Node:
		for i := range o.Status.Conditions {
			roundTime(&o.Status.Conditions[i].LastTransitionTime)
		}
	}
}

func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.ModelServing:
		return o.Status.Conditions
	case *v1alpha1.ServingGroup:
		return o.Status.Conditions
	}
	return nil
}

func roundConditions(conditions []metav1.Condition) {
	for i := range conditions {
		roundTime(&conditions[i].LastTransitionTime)
	}
}

func roundTime(t *metav1.Time) {
	if t != nil {
		t.Time = t.Truncate(time.Second)
	}
}

// controllerOf is the controller owner's UID, or empty.
func controllerOf(o client.Object) string {
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// String tells of the write in a few words.
func (w Write) String() string {
	return fmt.Sprintf("%s %s %s", w.Verb, w.Kind, w.Key.Name)
}
