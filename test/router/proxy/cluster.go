package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"pitstop.dev/api/v1alpha1"
)

// A Cluster is the Pods of one namespace that have these labels: a Marker, and by Watch a Source.
// It needs to get, list and watch pods, and to patch pods/status.
type Cluster struct {
	Client    typedcorev1.PodsGetter
	Namespace string
	Selector  labels.Selector
}

// Drained writes the answer. The resourceVersion makes it one about the reading at hand: that a
// Pod is drained must not come from before it was back in service.
func (c Cluster) Drained(ctx context.Context, pod *corev1.Pod, token string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
		"annotations": map[string]string{v1alpha1.Drained: token},
	}})
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	_, err = c.Client.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("answer on pod %s: %w", pod.Name, err)
	}
	return nil
}

// Watch tells the router of the Pods until ctx ends.
func (c Cluster) Watch(ctx context.Context, r *Router) error {
	tell := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			r.Set(pod)
		}
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: c.lister(),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    tell,
			UpdateFunc: func(_, obj any) { tell(obj) },
			DeleteFunc: func(obj any) {
				if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = d.Obj
				}
				if pod, ok := obj.(*corev1.Pod); ok {
					r.Remove(pod.UID)
				}
			},
		},
	})
	controller.RunWithContext(ctx)
	if ctx.Err() == nil {
		return errors.New("the watch of pods has ended")
	}
	return nil
}

func (c Cluster) lister() cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = c.Selector.String()
			return c.Client.Pods(c.Namespace).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = c.Selector.String()
			return c.Client.Pods(c.Namespace).Watch(ctx, o)
		},
	}
}
