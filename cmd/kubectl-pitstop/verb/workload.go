package verb

import (
	"context"
	"errors"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/cmd/kubectl-pitstop/pins"
)

// kinds are the words before the slash of an argument, as kubectl takes them.
func kinds() []string {
	return []string{"modelserving", "modelservings", "ms", "modelserving.pitstop.dev", "modelservings.pitstop.dev"}
}

// servingName returns the name in NAME or modelserving/NAME.
func servingName(arg string) (string, error) {
	kind, name, ok := strings.Cut(arg, "/")
	switch {
	case !ok:
		return arg, nil
	case !isServing(kind) || name == "":
		return "", usagef("%q is not the name of a ModelServing: NAME or modelserving/NAME", arg)
	}
	return name, nil
}

func isServing(kind string) bool { return slices.Contains(kinds(), strings.ToLower(kind)) }

// serving returns the ModelServing of this name, and the object as it was read; a missing one is an
// *order.RefusalError that says what there is.
func (c *cluster) serving(ctx context.Context, name string) (*v1alpha1.ModelServing, *unstructured.Unstructured, error) {
	object, err := c.object(ctx, v1alpha1.ModelServings, name)
	if apierrors.IsNotFound(err) {
		return nil, nil, order.NoServing(c.namespace, name, c.servingsAnywhere(ctx))
	}
	if err != nil {
		return nil, nil, err
	}
	ms, err := decode[v1alpha1.ModelServing](object)
	return ms, object, err
}

// servingsAnywhere are the ModelServings of all namespaces, or of this one if no more may be seen, or
// none: they are only suggestions.
func (c *cluster) servingsAnywhere(ctx context.Context) []*v1alpha1.ModelServing {
	all, err := c.servings(ctx, "")
	if err != nil {
		all, err = c.servings(ctx, c.namespace)
	}
	if err != nil {
		return nil
	}
	return all
}

func (c *cluster) servings(ctx context.Context, namespace string) ([]*v1alpha1.ModelServing, error) {
	return list[v1alpha1.ModelServing](ctx, c, v1alpha1.ModelServings, namespace)
}

func (c *cluster) groups(ctx context.Context, namespace string) ([]*v1alpha1.ServingGroup, error) {
	return list[v1alpha1.ServingGroup](ctx, c, v1alpha1.ServingGroups, namespace)
}

// members selects the objects of one ModelServing, or, if its name is empty, of all.
func members(name string) metav1.ListOptions {
	if name == "" {
		return metav1.ListOptions{LabelSelector: v1alpha1.LabelModelServing}
	}
	return metav1.ListOptions{LabelSelector: v1alpha1.LabelModelServing + "=" + name}
}

func (c *cluster) pods(ctx context.Context, namespace, serving string) ([]*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.Core.CoreV1().Pods(namespace).List(ctx, members(serving))
	if err != nil {
		return nil, access{"list", corev1.Resource("pods"), namespace}.explain(err)
	}
	return pointers(list.Items), nil
}

func (c *cluster) revisions(ctx context.Context, namespace, serving string) ([]*appsv1.ControllerRevision, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.Core.AppsV1().ControllerRevisions(namespace).List(ctx, members(serving))
	if err != nil {
		return nil, access{"list", appsv1.Resource("controllerrevisions"), namespace}.explain(err)
	}
	return pointers(list.Items), nil
}

// pins tell which revisions make the same Pods. Whoever may not read revisions goes by their names.
func (c *cluster) pins(ctx context.Context, namespace, serving string) pins.Pins {
	revisions, err := c.revisions(ctx, namespace, serving)
	if err != nil {
		return nil
	}
	return pins.Of(revisions)
}

func pointers[T any](items []T) []*T {
	all := make([]*T, 0, len(items))
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}

// patchServing applies a merge patch that holds what it was made from: the UID, or the resourceVersion
// too. Where that is no longer so the error is an *order.ConflictError.
func (c *cluster) patchServing(ctx context.Context, name string, patch []byte, options metav1.PatchOptions) (*v1alpha1.ModelServing, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object, err := c.Dynamic.Resource(v1alpha1.ModelServings).Namespace(c.namespace).Patch(ctx, name, types.MergePatchType, patch, options)
	switch {
	case apierrors.IsConflict(err), replaced(err), apierrors.IsNotFound(err) && !notInstalled(err):
		return nil, changed(c, name)
	case err != nil:
		return nil, c.denied(ctx, access{"patch", v1alpha1.ModelServings.GroupResource(), c.namespace}, err)
	}
	return decode[v1alpha1.ModelServing](object)
}

// replaced reports whether a patch was refused because the object has another UID than the patch: the
// API server answers that the field is immutable.
func replaced(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// changed says that a ModelServing is not, or no longer, the one that was looked at.
func changed(c *cluster, name string) error {
	return &order.ConflictError{
		Object: "modelserving " + c.namespace + "/" + name,
		Why:    "was changed or replaced by someone else at the same time",
		Way:    "look at it (`kubectl pitstop get " + name + "`) and repeat the command if it still applies",
	}
}
