//go:build lab

package deploy_test

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"pitstop.dev/api/v1alpha1"
)

func ordersClient(c *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c = rest.CopyConfig(c)
	c.APIPath, c.GroupVersion = "/apis", &v1alpha1.GroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(c)
}

// order makes an order for a Pod of node1, after change.
func (c client) order(ctx context.Context, pod string, change func(*v1alpha1.InPlaceUpdateSpec)) (*v1alpha1.InPlaceUpdate, error) {
	u := &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{Name: pod},
		Spec: v1alpha1.InPlaceUpdateSpec{
			PodUID: "9b9e1d5c-6f5c-4ee4-9d3e-4a7b5d1c0c11", NodeName: node1, Attempt: 1,
			Containers: []v1alpha1.ContainerImage{{Name: "engine", Image: "engine:2"}},
		},
	}
	change(&u.Spec)
	var out v1alpha1.InPlaceUpdate
	err := c.orders.Post().Namespace(apps).Resource("inplaceupdates").Body(u).Do(ctx).Into(&out)
	return &out, err
}

// reorder changes the spec of an order, or with sub "status" its report.
func (c client) reorder(ctx context.Context, u *v1alpha1.InPlaceUpdate, sub string, change func(*v1alpha1.InPlaceUpdate)) error {
	var live v1alpha1.InPlaceUpdate
	if err := c.orders.Get().Namespace(apps).Resource("inplaceupdates").Name(u.Name).Do(ctx).Into(&live); err != nil {
		return err
	}
	change(&live)
	put := c.orders.Put().Namespace(apps).Resource("inplaceupdates").Name(u.Name)
	if sub != "" {
		put = put.SubResource(sub)
	}
	return put.Body(&live).Do(ctx).Error()
}
