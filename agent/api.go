package agent

import (
	"context"
	"fmt"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pitstop.dev/api/v1alpha1"
)

// An apiServer is the part of the API that the agent uses. It has a scheme of its own with the
// few types that it needs: a full clientset costs tens of MiB.
type apiServer struct {
	core, coordination, pitstop rest.Interface
	params                      runtime.ParameterCodec
	scheme                      *runtime.Scheme
}

func newAPIServer(cfg *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) (*apiServer, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("scheme: %w", err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	a := &apiServer{params: runtime.NewParameterCodec(scheme), scheme: scheme}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	for _, c := range []struct {
		to   *rest.Interface
		gv   schema.GroupVersion
		path string
	}{
		{&a.core, corev1.SchemeGroupVersion, "/api"},
		{&a.coordination, coordinationv1.SchemeGroupVersion, "/apis"},
		{&a.pitstop, v1alpha1.GroupVersion, "/apis"},
	} {
		one := rest.CopyConfig(cfg)
		one.GroupVersion, one.APIPath, one.NegotiatedSerializer = &c.gv, c.path, codecs
		if wrap != nil {
			one.Wrap(wrap)
		}
		client, err := rest.RESTClientFor(one)
		if err != nil {
			return nil, fmt.Errorf("client for %s: %w", c.gv, err)
		}
		*c.to = client
	}
	return a, nil
}

func (a *apiServer) pod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	var pod corev1.Pod
	err := a.core.Get().Namespace(key.Namespace).Resource("pods").Name(key.Name).Do(ctx).Into(&pod)
	if err != nil {
		return nil, fmt.Errorf("read pod: %w", err)
	}
	return slimPod(&pod), nil
}

func (a *apiServer) node(ctx context.Context, name string) (*corev1.Node, error) {
	var node corev1.Node
	if err := a.core.Get().Resource("nodes").Name(name).Do(ctx).Into(&node); err != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return &node, nil
}

// patchNodeStatus writes conditions of the Node with a strategic merge patch.
func (a *apiServer) patchNodeStatus(ctx context.Context, name string, data []byte) (*corev1.Node, error) {
	var out corev1.Node
	err := a.core.Patch(types.StrategicMergePatchType).Resource("nodes").Name(name).SubResource("status").Body(data).Do(ctx).Into(&out)
	if err != nil {
		return nil, fmt.Errorf("patch node %s: %w", name, err)
	}
	return &out, nil
}

func (a *apiServer) update(ctx context.Context, key types.NamespacedName) (*v1alpha1.InPlaceUpdate, error) {
	var u v1alpha1.InPlaceUpdate
	err := a.pitstop.Get().Namespace(key.Namespace).Resource("inplaceupdates").Name(key.Name).Do(ctx).Into(&u)
	if err != nil {
		return nil, fmt.Errorf("read in-place update: %w", err)
	}
	return slimUpdate(&u), nil
}

// patchPodStatus writes metadata and conditions of the Pod with a strategic merge patch.
func (a *apiServer) patchPodStatus(ctx context.Context, pod *corev1.Pod, data []byte) (*corev1.Pod, error) {
	return a.patchPod(ctx, pod, types.StrategicMergePatchType, data, "status")
}

func (a *apiServer) patchPod(ctx context.Context, pod *corev1.Pod, t types.PatchType, data []byte, sub ...string) (*corev1.Pod, error) {
	var out corev1.Pod
	err := a.core.Patch(t).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource(sub...).
		Body(data).Do(ctx).Into(&out)
	if err != nil {
		return nil, fmt.Errorf("patch pod: %w", err)
	}
	return slimPod(&out), nil
}

// report writes the status of an order under its resourceVersion.
func (a *apiServer) report(ctx context.Context, u *v1alpha1.InPlaceUpdate) (*v1alpha1.InPlaceUpdate, error) {
	var out v1alpha1.InPlaceUpdate
	err := a.pitstop.Put().Namespace(u.Namespace).Resource("inplaceupdates").Name(u.Name).SubResource("status").
		Body(u).Do(ctx).Into(&out)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return slimUpdate(&out), nil
}

// podsOf lists and watches the Pods of one node.
func (a *apiServer) podsOf(node string) cache.ListerWatcher {
	return a.listerWatcher(a.core, "pods", "spec.nodeName="+node, func() runtime.Object { return &corev1.PodList{} })
}

// updatesOf lists and watches the orders for one node.
func (a *apiServer) updatesOf(node string) cache.ListerWatcher {
	return a.listerWatcher(a.pitstop, "inplaceupdates", "spec.nodeName="+node, func() runtime.Object { return &v1alpha1.InPlaceUpdateList{} })
}

func (a *apiServer) listerWatcher(c rest.Interface, resource, fields string, list func() runtime.Object) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = fields
			into := list()
			if err := c.Get().Resource(resource).VersionedParams(&o, a.params).Do(ctx).Into(into); err != nil {
				return nil, fmt.Errorf("list %s: %w", resource, err)
			}
			return into, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector, o.Watch = fields, true
			return c.Get().Resource(resource).VersionedParams(&o, a.params).Watch(ctx)
		},
	}
}
