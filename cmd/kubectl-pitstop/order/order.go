// Package order makes the orders that a person gives by hand. It is pure: it judges the
// objects as they were read and returns the one to write, or says why not and what to do
// instead. The agent judges again; the checks here only spare the operator the wait.
package order

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pitstop.dev/api/v1alpha1"
)

// A RefusalError says that an order cannot be given as things are: which object, what about it,
// and the way out.
type RefusalError struct {
	Object string
	Why    string
	Way    string
}

func (r *RefusalError) Error() string { return sentence(r.Object, r.Why, r.Way) }

// A ConflictError says that the objects are not those that the order is about, or are no longer.
// Once they have been looked at again the order may be right.
type ConflictError struct {
	Object string
	Why    string
	Way    string
}

func (c *ConflictError) Error() string { return sentence(c.Object, c.Why, c.Way) }

func sentence(object, why, way string) string {
	if way == "" {
		return object + " " + why
	}
	return object + " " + why + "; " + way
}

// A Request is what the operator asked for. Absent numbers leave the default to the API.
type Request struct {
	Containers  []v1alpha1.ContainerImage
	Drain       v1alpha1.DrainMode
	DrainFor    time.Duration
	Propagation *time.Duration
	StopTimeout *time.Duration
	Deadline    *time.Duration
}

// Update returns the order that moves pod to the images of the request: a new object if last
// is nil, otherwise last at its next attempt. last is not changed. The error is a *RefusalError or
// a *ConflictError.
func Update(pod *corev1.Pod, last *v1alpha1.InPlaceUpdate, r Request) (*v1alpha1.InPlaceUpdate, error) {
	if err := eligible(pod, last); err != nil {
		return nil, err
	}
	for _, c := range r.Containers {
		if err := updatable(pod, c.Name); err != nil {
			return nil, err
		}
	}
	next, err := follow(pod, last)
	if err != nil {
		return nil, err
	}
	next.Spec.Containers = r.Containers
	next.Spec.Drain = &v1alpha1.Drain{Mode: r.Drain, TimeoutSeconds: seconds(&r.DrainFor)}
	next.Spec.PropagationSeconds = seconds(r.Propagation)
	next.Spec.StopTimeoutSeconds = seconds(r.StopTimeout)
	next.Spec.ProgressDeadlineSeconds = seconds(r.Deadline)
	return next, nil
}

// Cancel returns last at its next attempt without containers, which takes the attempt under
// way back. The error is a *RefusalError or a *ConflictError. Once the images are patched there is no
// way back but another update.
func Cancel(pod *corev1.Pod, last *v1alpha1.InPlaceUpdate) (*v1alpha1.InPlaceUpdate, error) {
	if unit := Unit(pod, last); unit != "" {
		group := cmp.Or(pod.Labels[v1alpha1.LabelServingGroup], "SERVINGGROUP")
		return nil, &RefusalError{
			podName(pod), fmt.Sprintf("belongs to %s, whose Pods the coordinator updates together", unit),
			"take back the update of its unit: `kubectl pitstop cancel " + group + "`, or SERVINGGROUP/ROLE-N with RoleRollingUpdate",
		}
	}
	if last == nil {
		return nil, &RefusalError{podName(pod), "has no in-place update that could be cancelled", ""}
	}
	reported := last.Status.Attempt == last.Spec.Attempt
	object := fmt.Sprintf("attempt %d for %s", last.Spec.Attempt, podName(pod))
	switch {
	case reported && last.Status.Stage.Ended():
		return nil, &RefusalError{object, fmt.Sprintf("has ended as %s; nothing is left to cancel", last.Status.Stage), ""}
	case len(last.Spec.Containers) == 0:
		return nil, &RefusalError{object, "changes no image: it is a cancel already", "follow it with `kubectl pitstop status " + pod.Name + " --watch`"}
	case Patched(pod, last):
		return nil, &RefusalError{object, "can no longer be cancelled: the Pod's images are patched", "go back by a new update: `" + back(pod, last) + "`"}
	}
	next, err := follow(pod, last)
	if err != nil {
		return nil, err
	}
	next.Spec.Containers = nil
	return next, nil
}

// Patched reports whether the attempt that u is at has patched the Pod's images.
func Patched(pod *corev1.Pod, u *v1alpha1.InPlaceUpdate) bool {
	if v1alpha1.PatchMarkOf(pod).Token == u.Token() {
		return true
	}
	late := []v1alpha1.Stage{v1alpha1.StageSwapping, v1alpha1.StageProved, v1alpha1.StageVerified, v1alpha1.StageFailed}
	return u.Status.Attempt == u.Spec.Attempt && slices.Contains(late, u.Status.Stage)
}

// Unit returns what of a ServingGroup pod belongs to, in words, or "" if it belongs to none.
func Unit(pod *corev1.Pod, u *v1alpha1.InPlaceUpdate) string {
	for _, o := range pod.OwnerReferences {
		if gv, err := schema.ParseGroupVersion(o.APIVersion); err == nil && gv.Group == v1alpha1.GroupName && o.Kind == "ServingGroup" {
			return fmt.Sprintf("ServingGroup %q", o.Name)
		}
	}
	if u != nil && !u.ByHand() {
		return fmt.Sprintf("the ServingGroup with UID %s", u.Spec.ServingGroupUID)
	}
	return ""
}

// follow returns a new order for pod, or last at its next attempt, with everything that is
// the same for all orders made by hand.
func follow(pod *corev1.Pod, last *v1alpha1.InPlaceUpdate) (*v1alpha1.InPlaceUpdate, error) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	if last == nil {
		return &v1alpha1.InPlaceUpdate{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "InPlaceUpdate"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace:       pod.Namespace,
				Name:            pod.Name,
				OwnerReferences: []metav1.OwnerReference{owner},
			},
			Spec: v1alpha1.InPlaceUpdateSpec{
				PodUID:   pod.UID,
				NodeName: pod.Spec.NodeName,
				Attempt:  1,
				OpenAt:   v1alpha1.OpenAtProved,
				Permit:   v1alpha1.PermitServe,
			},
		}, nil
	}
	object := fmt.Sprintf("inplaceupdate %s/%s", last.Namespace, last.Name)
	if last.Spec.PodUID == pod.UID && last.Spec.NodeName != pod.Spec.NodeName {
		return nil, &ConflictError{
			object,
			fmt.Sprintf("names node %s, and the Pod runs on %s", last.Spec.NodeName, pod.Spec.NodeName),
			fmt.Sprintf("nobody works on it: `kubectl -n %s delete inplaceupdate %s`, then order again", last.Namespace, last.Name),
		}
	}
	if last.Spec.PodUID != pod.UID {
		return nil, &ConflictError{
			object,
			fmt.Sprintf("is about a former Pod of this name (UID %s; the Pod there now has %s)", last.Spec.PodUID, pod.UID),
			fmt.Sprintf("Kubernetes removes it together with its Pod: try again in a moment, or `kubectl -n %s delete inplaceupdate %s`", last.Namespace, last.Name),
		}
	}
	if last.DeletionTimestamp != nil {
		return nil, &ConflictError{object, "is being deleted", "try again once it is gone"}
	}
	next := last.DeepCopy()
	next.Spec.Attempt = max(last.Spec.Attempt, last.Status.Attempt) + 1
	next.Spec.OpenAt = v1alpha1.OpenAtProved
	next.Spec.Permit = v1alpha1.PermitServe
	if !slices.ContainsFunc(next.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod.UID }) {
		next.OwnerReferences = append(next.OwnerReferences, owner)
	}
	return next, nil
}

// back is the command that returns the containers of u to the images they had before.
func back(pod *corev1.Pod, u *v1alpha1.InPlaceUpdate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kubectl pitstop update %s -n %s", pod.Name, pod.Namespace)
	for _, c := range u.Spec.Containers {
		image := "OLD-IMAGE"
		for _, report := range u.Status.Containers {
			if report.Name == c.Name && report.Before != nil && report.Before.Image != "" && u.Status.Attempt == u.Spec.Attempt {
				image = report.Before.Image
			}
		}
		fmt.Fprintf(&b, " %s=%s", c.Name, image)
	}
	return b.String()
}

func seconds(d *time.Duration) *int32 {
	if d == nil {
		return nil
	}
	s := int32(*d / time.Second)
	return &s
}

func podName(pod *corev1.Pod) string { return fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name) }
