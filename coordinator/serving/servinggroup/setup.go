package servinggroup

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	kind "sigs.k8s.io/controller-runtime/pkg/source"

	"pitstop.dev/api/v1alpha1"
)

const (
	// indexNode is the index of Pods by their node.
	indexNode = "nodeName"
	// workers are the groups that are looked at at one time.
	workers = 32
	// firstRetry is the pause after the first error; it doubles up to lastRetry.
	firstRetry, lastRetry = 50 * time.Millisecond, 30 * time.Second
)

// PinCache returns the cache of pin Pods, which the manager starts. Theirs is a cache of its own, as caches select
// by one label, and pin Pods must not have that of a ModelServing's Pods.
func PinCache(ctx context.Context, mgr ctrl.Manager) (cache.Cache, error) {
	pin, err := labels.NewRequirement(v1alpha1.LabelPin, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("label of pin Pods: %w", err)
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: labels.NewSelector().Add(*pin)}},
	})
	if err != nil {
		return nil, fmt.Errorf("cache of pin Pods: %w", err)
	}
	if err := c.IndexField(ctx, &corev1.Pod{}, IndexOwner, OwnerUID); err != nil {
		return nil, fmt.Errorf("index of pin Pods: %w", err)
	}
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("cache of pin Pods: %w", err)
	}
	return c, nil
}

// Setup has the manager call Reconcile for whatever may matter to a group; pins is the cache of pin Pods.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, pins cache.Cache) error {
	for _, obj := range []client.Object{&corev1.Pod{}, &corev1.Service{}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, obj, IndexOwner, OwnerUID); err != nil {
			return fmt.Errorf("index of owners: %w", err)
		}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, indexNode, nodeName); err != nil {
		return fmt.Errorf("index of nodes: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("servinggroup").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			// The default's pauses grow to a quarter of an hour.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
		}).
		For(&v1alpha1.ServingGroup{}).
		Owns(&corev1.Pod{}).
		Owns(&corev1.Service{}).
		WatchesRawSource(kind.Kind(pins, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(groupOfPin))).
		Watches(&v1alpha1.InPlaceUpdate{}, handler.EnqueueRequestsFromMapFunc(groupOfOrder)).
		Watches(&v1alpha1.ModelServing{}, handler.EnqueueRequestsFromMapFunc(r.groupsOfServing), builder.WithPredicates(settingsChanged())).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(r.groupsOnNode), builder.WithPredicates(livenessChanged())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("servinggroup controller: %w", err)
	}
	return nil
}

// OwnerUID returns the UID of an object's controller, for the index IndexOwner.
func OwnerUID(obj client.Object) []string {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

func nodeName(obj client.Object) []string {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

func groupOfOrder(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[v1alpha1.LabelServingGroup]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

func groupOfPin(_ context.Context, pod *corev1.Pod) []reconcile.Request {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "ServingGroup" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}}}
}

func (r *Reconciler) groupsOfServing(ctx context.Context, obj client.Object) []reconcile.Request {
	var groups v1alpha1.ServingGroupList
	if err := r.cfg.Client.List(ctx, &groups, client.InNamespace(obj.GetNamespace())); err != nil {
		r.logger(ctx).Error(err, "list groups", "modelserving", obj.GetName())
		return nil
	}
	var out []reconcile.Request
	for n := range groups.Items {
		if metav1.IsControlledBy(&groups.Items[n], obj) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&groups.Items[n])})
		}
	}
	return out
}

// groupsOnNode are the groups with Pods on the node whose agent came or went.
func (r *Reconciler) groupsOnNode(ctx context.Context, obj client.Object) []reconcile.Request {
	node, ok := strings.CutPrefix(obj.GetName(), v1alpha1.AgentLeaseName(""))
	if !ok || obj.GetNamespace() != r.cfg.Namespace {
		return nil
	}
	var list corev1.PodList
	if err := r.cfg.Client.List(ctx, &list, client.MatchingFields{indexNode: node}); err != nil {
		r.logger(ctx).Error(err, "list pods", "node", node)
		return nil
	}
	var out []reconcile.Request
	seen := make(map[types.NamespacedName]bool)
	for n := range list.Items {
		ref := metav1.GetControllerOf(&list.Items[n])
		if ref == nil || ref.Kind != "ServingGroup" {
			continue
		}
		key := types.NamespacedName{Namespace: list.Items[n].Namespace, Name: ref.Name}
		if !seen[key] {
			seen[key] = true
			out = append(out, reconcile.Request{NamespacedName: key})
		}
	}
	return out
}

// settingsChanged passes the changes of a ModelServing that groups act upon by themselves.
func settingsChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // its groups are looked at anyway
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, ok := e.ObjectOld.(*v1alpha1.ModelServing)
			now, is := e.ObjectNew.(*v1alpha1.ModelServing)
			return ok && is && (!equality.Semantic.DeepEqual(settingsOf(old), settingsOf(now)) ||
				!equality.Semantic.DeepEqual(old.Spec.RolloutStrategy.Drain, now.Spec.RolloutStrategy.Drain))
		},
	}
}

// livenessChanged passes only the renewals of a Lease that had expired, or of another agent's version. That one expires is seen by
// the clock of whoever waits for the agent.
func livenessChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, ok := e.ObjectOld.(*coordinationv1.Lease)
			now, is := e.ObjectNew.(*coordinationv1.Lease)
			return ok && is && now.Spec.RenewTime != nil && (aliveUntil(old).Before(now.Spec.RenewTime.Time) ||
				v1alpha1.AgentUnderstands(old.Annotations) != v1alpha1.AgentUnderstands(now.Annotations))
		},
	}
}
