package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/api/v1alpha1"
)

// Order returns an order of the operator's kind for the Pod: it drains by metrics.
func Order(pod *corev1.Pod, images map[string]string) *v1alpha1.InPlaceUpdate {
	u := &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: v1alpha1.InPlaceUpdateSpec{
			PodUID: pod.UID, NodeName: pod.Spec.NodeName, Attempt: 1,
			OpenAt: v1alpha1.OpenAtProved, Permit: v1alpha1.PermitServe,
			Drain: &v1alpha1.Drain{Mode: v1alpha1.DrainEngineMetrics, TimeoutSeconds: new(int32(60))},
		},
	}
	for name, image := range images {
		u.Spec.Containers = append(u.Spec.Containers, v1alpha1.ContainerImage{Name: name, Image: image})
	}
	return u
}

// Give creates the order, or gives it to the one that is there as its next attempt.
func (c *Cluster) Give(ctx context.Context, u *v1alpha1.InPlaceUpdate) (*v1alpha1.InPlaceUpdate, error) {
	var out v1alpha1.InPlaceUpdate
	have, err := c.Update(ctx, u.Name)
	if err != nil {
		err = c.Updates.Post().Namespace(u.Namespace).Resource("inplaceupdates").Body(u).Do(ctx).Into(&out)
	} else {
		next := have.DeepCopy()
		next.Spec = u.Spec
		next.Spec.Attempt = have.Spec.Attempt + 1
		err = c.Updates.Put().Namespace(u.Namespace).Resource("inplaceupdates").Name(u.Name).Body(next).Do(ctx).Into(&out)
	}
	if err != nil {
		return nil, fmt.Errorf("order for pod %s: %w", u.Name, err)
	}
	return &out, nil
}

// Update reads an order.
func (c *Cluster) Update(ctx context.Context, name string) (*v1alpha1.InPlaceUpdate, error) {
	var out v1alpha1.InPlaceUpdate
	if err := c.Updates.Get().Namespace(Namespace).Resource("inplaceupdates").Name(name).Do(ctx).Into(&out); err != nil {
		return nil, fmt.Errorf("read order %s: %w", name, err)
	}
	return &out, nil
}

// Withdraw deletes an order.
func (c *Cluster) Withdraw(ctx context.Context, name string) error {
	if err := c.Updates.Delete().Namespace(Namespace).Resource("inplaceupdates").Name(name).Do(ctx).Error(); err != nil {
		return fmt.Errorf("delete order %s: %w", name, err)
	}
	return nil
}

// WaitStage waits until the order's present attempt is at one of the stages.
func (c *Cluster) WaitStage(ctx context.Context, name string, stages ...v1alpha1.Stage) (*v1alpha1.InPlaceUpdate, error) {
	return c.WaitUpdate(ctx, name, func(u *v1alpha1.InPlaceUpdate) bool {
		return u.Status.Attempt == u.Spec.Attempt && slices.Contains(stages, u.Status.Stage)
	})
}

// WaitUpdate waits until the order is as wanted.
func (c *Cluster) WaitUpdate(ctx context.Context, name string, ok func(*v1alpha1.InPlaceUpdate) bool) (*v1alpha1.InPlaceUpdate, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	var last *v1alpha1.InPlaceUpdate
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		u, err := c.Update(ctx, name)
		if err == nil {
			last = u
		}
		return err == nil && ok(u), nil
	})
	if err != nil && last != nil {
		return last, fmt.Errorf("update %s stands at attempt %d %s %s %q: %w",
			name, last.Status.Attempt, last.Status.Stage, last.Status.Reason, last.Status.Message, err)
	}
	return last, err
}
