package cluster

import (
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

func clone[T client.Object](o T) T {
	c, ok := o.DeepCopyObject().(T)
	if !ok {
		panic(fmt.Sprintf("the copy of a %T is something else", o))
	}
	return c
}

// shallow is a copy that shares with o what o points to. Only fields of its own may be set.
func shallow[T client.Object](o T) T {
	v := reflect.New(reflect.TypeOf(o).Elem())
	v.Elem().Set(reflect.ValueOf(o).Elem())
	c, ok := reflect.TypeAssert[T](v)
	if !ok {
		panic(fmt.Sprintf("the copy of a %T is something else", o))
	}
	return c
}

// withoutSpec is shallow without the spec.
func withoutSpec(o client.Object) client.Object {
	c := shallow(o)
	if spec := part(c, "Spec"); spec.IsValid() {
		spec.SetZero()
	}
	return c
}

// copyInto makes target equal to the stored object; they share nothing.
func copyInto(stored, target client.Object) {
	switch target := target.(type) {
	case *v1alpha1.ModelServing:
		copyOne(stored, target)
	case *v1alpha1.ServingGroup:
		copyOne(stored, target)
	case *v1alpha1.InPlaceUpdate:
		copyOne(stored, target)
	case *appsv1.ControllerRevision:
		copyOne(stored, target)
	case *corev1.Pod:
		copyOne(stored, target)
	case *corev1.Service:
		copyOne(stored, target)
	case *corev1.Node:
		copyOne(stored, target)
	case *coordinationv1.Lease:
		copyOne(stored, target)
	default:
		panic(fmt.Sprintf("not simulated: a copy of a %T", target))
	}
}

// listInto makes the list one of the stored objects; they share nothing.
func listInto(stored []client.Object, list client.ObjectList) {
	switch list := list.(type) {
	case *v1alpha1.ModelServingList:
		copyAll(stored, &list.Items)
	case *v1alpha1.ServingGroupList:
		copyAll(stored, &list.Items)
	case *v1alpha1.InPlaceUpdateList:
		copyAll(stored, &list.Items)
	case *appsv1.ControllerRevisionList:
		copyAll(stored, &list.Items)
	case *corev1.PodList:
		copyAll(stored, &list.Items)
	case *corev1.ServiceList:
		copyAll(stored, &list.Items)
	case *corev1.NodeList:
		copyAll(stored, &list.Items)
	case *coordinationv1.LeaseList:
		copyAll(stored, &list.Items)
	default:
		panic(fmt.Sprintf("not simulated: a list in a %T", list))
	}
}

// copier is a pointer to a T that can be copied without an object in between, which costs as much
// again as the copy.
type copier[T any] interface {
	*T
	DeepCopyInto(out *T)
}

func copyOne[T any, P copier[T]](stored client.Object, target P) {
	s, ok := stored.(P)
	if !ok {
		panic(fmt.Sprintf("a %T is stored as a %T", target, stored))
	}
	s.DeepCopyInto(target)
}

func copyAll[T any, P copier[T]](stored []client.Object, items *[]T) {
	*items = make([]T, len(stored))
	for i, o := range stored {
		copyOne[T, P](o, &(*items)[i])
	}
}
