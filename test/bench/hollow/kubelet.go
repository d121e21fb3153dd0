package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"pitstop.dev/api/v1alpha1"
)

// workers is how many Pods are seen to at a time.
const workers = 16

type queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// run plays the kubelets until ctx ends.
func (n *Nodes) run(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(n.core, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = v1alpha1.LabelModelServing
	}))
	pods := factory.Core().V1().Pods()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
	enqueue := func(o any) {
		if p, ok := o.(*corev1.Pod); ok && isHollow(p.Spec.NodeName) {
			q.Add(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
	}
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, o any) { enqueue(o) },
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "hollow kubelets")
		return
	}
	factory.Start(ctx.Done())
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n.next(ctx, q, pods.Informer().GetIndexer()) {
			}
		})
	}
	n.beat(ctx)
	q.ShutDown()
	group.Wait()
	factory.Shutdown()
}

// beat renews the Leases until ctx ends.
func (n *Nodes) beat(ctx context.Context) {
	tick := n.config.Clock.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
		for i := range n.config.Count {
			if err := n.renew(ctx, fmt.Sprintf("%s%d", prefix, i)); err != nil && ctx.Err() == nil {
				logr.FromContextOrDiscard(ctx).Error(err, "heartbeat")
			}
		}
	}
}

// next sees to one Pod. It reports false once the queue is shut down.
func (n *Nodes) next(ctx context.Context, q queue, pods cache.KeyGetter) bool {
	key, end := q.Get()
	if end {
		return false
	}
	defer q.Done(key)
	o, ok, err := pods.GetByKey(key.String())
	if err != nil || !ok {
		return true
	}
	again, err := n.sync(ctx, o.(*corev1.Pod))
	switch {
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		q.AddRateLimited(key)
	case again > 0:
		q.AddAfter(key, again)
	default:
		q.Forget(key)
	}
	return true
}

// sync does what kubelet would do for the Pod now, and returns when to look again.
func (n *Nodes) sync(ctx context.Context, p *corev1.Pod) (again time.Duration, err error) {
	if p.DeletionTimestamp != nil {
		if g := p.DeletionGracePeriodSeconds; g != nil && *g == 0 {
			return 0, nil // the API server says what was asked for below before it does it
		}
		n.forget(p.UID)
		return 0, n.core.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.UID},
		})
	}
	if left := n.config.ReadyAfter - n.config.Clock.Since(n.firstSeen(p.UID)); left > 0 {
		return left, nil
	}
	running, ready := condition(p, corev1.ContainersReady) != nil, condition(p, corev1.PodReady)
	if running && (ready != nil && ready.Status == corev1.ConditionTrue) == gatesOpen(p) {
		return 0, nil
	}
	return 0, n.report(ctx, p)
}

// firstSeen is when the Pod was first seen on its node. The API server's times are of whole seconds,
// which would make one Pod up to a second faster than another.
func (n *Nodes) firstSeen(pod types.UID) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.seen[pod]
	if !ok {
		at = n.config.Clock.Now()
		n.seen[pod] = at
	}
	return at
}

func (n *Nodes) forget(pod types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.seen, pod)
}

// report writes the status of a Pod whose containers run.
func (n *Nodes) report(ctx context.Context, p *corev1.Pod) error {
	now := metav1.NewTime(n.config.Clock.Now())
	is := func(t corev1.PodConditionType, ok bool) corev1.PodCondition {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, LastTransitionTime: now}
		if ok {
			c.Status = corev1.ConditionTrue
		} else {
			c.Reason = "ReadinessGatesNotReady"
		}
		return c
	}
	status := map[string]any{
		"phase": corev1.PodRunning, "startTime": now,
		"conditions": []corev1.PodCondition{
			is(corev1.PodInitialized, true), is(corev1.ContainersReady, true), is(corev1.PodReady, gatesOpen(p)),
		},
	}
	var containers []map[string]any
	for _, c := range p.Spec.Containers {
		containers = append(containers, map[string]any{
			"name": c.Name, "image": c.Image, "imageID": c.Image, "containerID": "hollow://" + string(p.UID), "ready": true,
			"started": true, "restartCount": 0, "state": map[string]any{"running": map[string]any{"startedAt": now}},
		})
	}
	status["containerStatuses"] = containers
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("status of pod %s: %w", p.Name, err)
	}
	_, err = n.core.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func gatesOpen(p *corev1.Pod) bool {
	for _, g := range p.Spec.ReadinessGates {
		if c := condition(p, g.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return false
		}
	}
	return true
}

func condition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}
