package verb

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
	"pitstop.dev/cmd/kubectl-pitstop/node"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

const (
	// A person's command makes a handful of requests, one after the other.
	qps   = 50
	burst = 100
	// callTimeout bounds one request that is not a watch.
	callTimeout = 30 * time.Second
)

// Clients reach the API server.
type Clients struct {
	Core    kubernetes.Interface
	Dynamic dynamic.Interface
}

// Connect makes clients from a kubeconfig.
func Connect(from genericclioptions.RESTClientGetter) (Clients, error) {
	config, err := from.ToRESTConfig()
	if err != nil {
		return Clients{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = qps, burst
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Clients{}, fmt.Errorf("make client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return Clients{}, fmt.Errorf("make client: %w", err)
	}
	return Clients{Core: core, Dynamic: dyn}, nil
}

// A cluster is the API server with the namespace that the command is about.
type cluster struct {
	Clients
	namespace string
}

func (c *cli) connect() (*cluster, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	clients, err := c.Connect(c.flags)
	if err != nil {
		return nil, err
	}
	return &cluster{Clients: clients, namespace: namespace}, nil
}

// A missingPodError is the *order.RefusalError of a Pod that does not exist.
type missingPodError struct{ error }

func (e missingPodError) Unwrap() error { return e.error }

// pod returns the Pod of this name, or a missingPodError.
func (c *cluster) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pod, err := c.Core.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, missingPodError{&order.RefusalError{
			Object: fmt.Sprintf("pod %s/%s", c.namespace, name),
			Why:    "does not exist",
			Way:    "list those there are with `kubectl -n " + c.namespace + " get pods`, or name another namespace with -n",
		}}
	}
	return pod, access{"get", corev1.Resource("pods"), c.namespace}.explain(err)
}

// patch applies a merge patch to pod and returns what it became.
func (c *cluster) patch(ctx context.Context, pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	patched, err := c.Core.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, c.denied(ctx, access{"patch", corev1.Resource("pods"), pod.Namespace}, err)
	}
	return patched, nil
}

// update returns the InPlaceUpdate of this name, or nil if there is none.
func (c *cluster) update(ctx context.Context, name string) (*v1alpha1.InPlaceUpdate, error) {
	u, err := get[v1alpha1.InPlaceUpdate](ctx, c, v1alpha1.InPlaceUpdates, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return u, err
}

// ordered returns a Pod, and the InPlaceUpdate of its name, or nil if there is none.
func (c *cluster) ordered(ctx context.Context, name string) (*corev1.Pod, *v1alpha1.InPlaceUpdate, error) {
	pod, err := c.pod(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	last, err := c.update(ctx, name)
	return pod, last, err
}

// updates returns all InPlaceUpdates of a namespace, or of all if namespace is empty.
func (c *cluster) updates(ctx context.Context, namespace string) ([]*v1alpha1.InPlaceUpdate, error) {
	return list[v1alpha1.InPlaceUpdate](ctx, c, v1alpha1.InPlaceUpdates, namespace)
}

// write creates u, or replaces it if it was read before. An object that someone else made or
// changed meanwhile is an *order.ConflictError.
func (c *cluster) write(ctx context.Context, u *v1alpha1.InPlaceUpdate) (*v1alpha1.InPlaceUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(u)
	if err != nil {
		return nil, fmt.Errorf("encode inplaceupdate: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion(v1alpha1.GroupVersion.String())
	object.SetKind("InPlaceUpdate")
	resource := c.Dynamic.Resource(v1alpha1.InPlaceUpdates).Namespace(u.Namespace)
	if u.ResourceVersion == "" {
		object, err = resource.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object, err = resource.Update(ctx, object, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return nil, &order.ConflictError{
			Object: fmt.Sprintf("inplaceupdate %s/%s", u.Namespace, u.Name),
			Why:    "was written by someone else at the same time",
			Way:    "look at it (`kubectl pitstop status " + u.Name + "`) and repeat the command if it still applies",
		}
	case err != nil:
		what := map[bool]string{true: "create", false: "update"}[u.ResourceVersion == ""]
		return nil, c.denied(ctx, access{what, v1alpha1.InPlaceUpdates.GroupResource(), u.Namespace}, err)
	}
	return decode[v1alpha1.InPlaceUpdate](object)
}

// facts reads what a diagnosis is made from.
func (c *cluster) facts(ctx context.Context, name string, now time.Time) (diagnose.Facts, error) {
	pod, err := c.pod(ctx, name)
	if err != nil {
		return diagnose.Facts{}, err
	}
	u, err := c.update(ctx, name)
	if err != nil {
		return diagnose.Facts{}, err
	}
	f := diagnose.Facts{Pod: pod, Update: u, Now: now}
	if pod.Spec.NodeName != "" {
		f.Lease, f.LeaseUnknown = c.lease(ctx, v1alpha1.AgentLeaseName(pod.Spec.NodeName))
		c.aboutGPUs(ctx, &f)
	}
	return f, nil
}

// aboutGPUs reads what says more of a Pod that is held for a sick GPU, or that the agent writes no condition on. Whoever
// may not read it is told less.
func (c *cluster) aboutGPUs(ctx context.Context, f *diagnose.Facts) {
	owner := metav1.GetControllerOfNoCopy(f.Pod)
	if _, held := f.Pod.Annotations[v1alpha1.HoldGPUHealth]; held && owner != nil {
		if sg, err := get[v1alpha1.ServingGroup](ctx, c, v1alpha1.ServingGroups, owner.Name); err == nil {
			f.Group = sg
		}
		if mates, err := c.pods(ctx, c.namespace, f.Pod.Labels[v1alpha1.LabelModelServing]); err == nil {
			f.Mates = mates
		}
	}
	if node.Unreported(f.Pod) {
		if n, err := c.node(ctx, f.Pod.Spec.NodeName); err == nil {
			f.Node = n
		}
	}
}

// lease returns a Lease of ours, nil if there is none, and whether that is unknown because it
// could not be read: operators need no right to see Leases.
func (c *cluster) lease(ctx context.Context, name string) (lease *coordinationv1.Lease, unknown bool) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	lease, err := c.Core.CoordinationV1().Leases(diagnose.LeaseNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false
	case err != nil:
		return nil, true
	}
	return lease, false
}
