package verb

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// An access is what a request asks of the API server, and so the right that it takes.
type access struct {
	verb      string
	resource  schema.GroupResource
	namespace string // empty: all
}

// explain says what an error of the API server is about: a right that is missing, and a type that is not
// installed, are *order.RefusalErrors with the way out.
func (a access) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case notInstalled(err):
		return &order.RefusalError{
			Object: "this cluster",
			Why:    "has no resource " + a.resource.String() + ": Pitstop is not installed, or an older one is",
			Way:    "install it with `kubectl apply --server-side -k deploy/base`",
		}
	case apierrors.IsForbidden(err) && a.resource == corev1.Resource("nodes"):
		return &order.RefusalError{
			Object: "you",
			Why:    "may not " + a.verb + " nodes",
			Way:    fmt.Sprintf("ask for that right, which is one for the whole cluster; the API server says: %v", err),
		}
	case apierrors.IsForbidden(err):
		return &order.RefusalError{
			Object: "you",
			Why:    fmt.Sprintf("may not %s %s %s", a.verb, a.resource, a.where()),
			Way: fmt.Sprintf("ask for that right, with the ClusterRole %s for instance; the API server says: %v",
				a.role(), err),
		}
	}
	return fmt.Errorf("%s %s %s: %w", a.verb, a.resource, a.where(), err)
}

// denied explains why a write failed. "Forbidden" is also what policies and webhooks answer to whoever
// has the right; which of the two it is the API server says when asked.
func (c *cluster) denied(ctx context.Context, a access, err error) error {
	if !apierrors.IsForbidden(err) {
		return a.explain(err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: a.verb, Group: a.resource.Group, Resource: a.resource.Resource, Namespace: a.namespace,
		},
	}}
	answer, failed := c.Core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if failed == nil && answer.Status.Allowed {
		return fmt.Errorf("%s %s %s: a policy or webhook objects: %w", a.verb, a.resource, a.where(), err)
	}
	return a.explain(err)
}

func (a access) where() string {
	if a.namespace == "" {
		return "in all namespaces"
	}
	return "in namespace " + a.namespace
}

// role is one that has the right, as the manifests and Kubernetes itself install them.
func (a access) role() string {
	role := "edit"
	if a.verb == "get" || a.verb == "list" {
		role = "view"
	}
	if a.resource.Group == v1alpha1.GroupName {
		return "pitstop-" + role
	}
	return role
}

// notInstalled reports whether the API server does not know the type at all: it then answers
// as for any unknown path, which is a "not found" too.
func notInstalled(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// get reads one object of ours. Of what does not exist it returns the API server's error.
func get[T any](ctx context.Context, c *cluster, resource schema.GroupVersionResource, name string) (*T, error) {
	object, err := c.object(ctx, resource, name)
	if err != nil {
		return nil, err
	}
	return decode[T](object)
}

func (c *cluster) object(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object, err := c.Dynamic.Resource(resource).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && (notInstalled(err) || !apierrors.IsNotFound(err)) {
		return nil, access{"get", resource.GroupResource(), c.namespace}.explain(err)
	}
	return object, err
}

// list reads all objects of a type of ours in a namespace, or in all if namespace is empty.
func list[T any](ctx context.Context, c *cluster, resource schema.GroupVersionResource, namespace string) ([]*T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	objects, err := c.Dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, access{"list", resource.GroupResource(), namespace}.explain(err)
	}
	var all []*T
	for i := range objects.Items {
		v, err := decode[T](&objects.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func decode[T any](object *unstructured.Unstructured) (*T, error) {
	var v T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &v); err != nil {
		return nil, fmt.Errorf("decode %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return &v, nil
}
