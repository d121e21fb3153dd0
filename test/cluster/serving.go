package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// A ServingSpec is the ModelServing of a scenario: groups of two roles, prefill with Workers worker
// Pods and decode with none.
type ServingSpec struct {
	Name     string
	Replicas int32
	Workers  int32
	Prefill  string // image of role prefill
	Decode   string // image of role decode
	Strategy v1alpha1.RolloutStrategy
	Env      map[string]string // the knobs of all engines
	GPUs     int64             // of each Pod
	// Back has decode drained after prefill.
	Back bool
	// PullSecret is the name of the Secret that kubelet pulls with; empty: none.
	PullSecret string
}

// Serving returns the manifest.
func (s ServingSpec) Serving() *v1alpha1.ModelServing {
	ms := &v1alpha1.ModelServing{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: Namespace}}
	ms.Spec.Replicas = &s.Replicas
	ms.Spec.RolloutStrategy = s.Strategy
	if ms.Spec.RolloutStrategy.Drain.Mode == "" {
		ms.Spec.RolloutStrategy.Drain = v1alpha1.Drain{Mode: v1alpha1.DrainDelay, TimeoutSeconds: new(int32(0))}
	}
	prefill := s.template(s.Prefill)
	ms.Spec.Template.Roles = []v1alpha1.Role{
		{Name: "prefill", WorkerReplicas: s.Workers, EntryTemplate: prefill, WorkerTemplate: prefill.DeepCopy()},
		{Name: "decode", EntryTemplate: s.template(s.Decode), Front: new(!s.Back)},
	}
	return ms
}

func (s ServingSpec) template(image string) corev1.PodTemplateSpec {
	pod := PodSpec{Image: image, Grace: 5, Ungated: true, Env: s.Env, GPUs: s.GPUs}.Pod()
	if s.PullSecret != "" {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: s.PullSecret}}
	}
	return corev1.PodTemplateSpec{Spec: pod.Spec}
}

// Declare makes the ModelServing.
func (c *Cluster) Declare(ctx context.Context, s ServingSpec) (*v1alpha1.ModelServing, error) {
	ms := s.Serving()
	return ms, c.Admit(ctx, func() error { return c.Objects.Create(ctx, ms) })
}

// Admit makes a write to a ModelServing, again while the webhook cannot be called: right after a
// coordinator is ready, or gone, kube-proxy may not know it yet.
func (c *Cluster) Admit(ctx context.Context, write func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = write()
		return !apierrors.IsInternalError(last), nil
	})
	if last != nil {
		return last
	}
	return err
}

// Edit changes the spec of a ModelServing, again where somebody else was faster.
func (c *Cluster) Edit(ctx context.Context, name string, change func(*v1alpha1.ModelServingSpec)) error {
	for {
		err := c.Admit(ctx, func() error {
			ms, err := c.Serving(ctx, name)
			if err != nil {
				return err
			}
			change(&ms.Spec)
			return c.Objects.Update(ctx, ms)
		})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// Serving reads a ModelServing.
func (c *Cluster) Serving(ctx context.Context, name string) (*v1alpha1.ModelServing, error) {
	ms := &v1alpha1.ModelServing{}
	if err := c.Objects.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, ms); err != nil {
		return nil, fmt.Errorf("read modelserving %s: %w", name, err)
	}
	return ms, nil
}

// WaitServing waits until the ModelServing is as wanted, and says at the deadline how it is.
func (c *Cluster) WaitServing(ctx context.Context, name string, wanted func(*v1alpha1.ModelServing) bool) (*v1alpha1.ModelServing, error) {
	var ms *v1alpha1.ModelServing
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		ms, err = c.Serving(ctx, name)
		return err == nil && wanted(ms), err
	})
	if err != nil && ms != nil {
		return ms, fmt.Errorf("modelserving %s is at %+v: %w", name, ms.Status, err)
	}
	return ms, err
}

// Complete reports whether all is as declared: every group at the target and available.
func Complete(ms *v1alpha1.ModelServing) bool {
	s := ms.Status
	return s.ObservedGeneration == ms.Generation && s.Replicas == *ms.Spec.Replicas && s.UpdatedReplicas == s.Replicas &&
		s.AvailableReplicas == s.Replicas && s.CurrentRevision == s.UpdateRevision && len(s.Updating) == 0
}

// RemoveServing deletes a ModelServing and waits until nothing of it is left.
func (c *Cluster) RemoveServing(ctx context.Context, name string) error {
	ms := &v1alpha1.ModelServing{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace}}
	if err := c.Objects.Delete(ctx, ms); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete modelserving %s: %w", name, err)
	}
	left := 0
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		left = 0
		for _, list := range []client.ObjectList{&corev1.PodList{}, &v1alpha1.ServingGroupList{}, &corev1.ServiceList{}} {
			if err := c.Objects.List(ctx, list, client.InNamespace(Namespace), client.MatchingLabels{v1alpha1.LabelModelServing: name}); err != nil {
				return false, err
			}
			left += meta.LenList(list)
		}
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%d objects of modelserving %s do not go: %w", left, name, err)
	}
	return nil
}

// ServingPods returns the Pods of a ModelServing.
func (c *Cluster) ServingPods(ctx context.Context, name string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.Objects.List(ctx, &pods, client.InNamespace(Namespace), client.MatchingLabels{v1alpha1.LabelModelServing: name}); err != nil {
		return nil, fmt.Errorf("pods of modelserving %s: %w", name, err)
	}
	return pods.Items, nil
}

// Coordinators scales the coordinator and waits until that many run.
func (c *Cluster) Coordinators(ctx context.Context, n int32) error {
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)
	d := c.Core.AppsV1().Deployments(System)
	if _, err := d.Patch(ctx, Coordinator, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("scale the coordinator to %d: %w", n, err)
	}
	return c.WaitCoordinator(ctx)
}
