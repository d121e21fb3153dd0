package order

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// eligible says whether anything in pod can be updated in place by hand.
func eligible(pod *corev1.Pod, last *v1alpha1.InPlaceUpdate) error {
	if err := notTheCoordinators(pod, last); err != nil {
		return err
	}
	name := podName(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return &RefusalError{name, "is being deleted", "wait for its successor and update that one"}
	case pod.Spec.NodeName == "":
		return &RefusalError{name, "is not scheduled to a node yet", "see `kubectl describe pod " + pod.Name + "` for what the scheduler waits for; a Pod that never ran may as well be recreated with the new image"}
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return &RefusalError{name, fmt.Sprintf("has ended (phase %s): kubelet starts nothing in it any more", pod.Status.Phase), "recreate it with the new image"}
	case !readiness.HasGate(pod):
		return &RefusalError{name, fmt.Sprintf("has no readiness gate %s, so it cannot be taken out of traffic", v1alpha1.InService), fmt.Sprintf("gates cannot be added to a live Pod: add `readinessGates: [{conditionType: %s}]` to its template and recreate it once", v1alpha1.InService)}
	case pod.Spec.RestartPolicy != "" && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways:
		return &RefusalError{name, fmt.Sprintf("has restartPolicy %s, so kubelet would not start the new container", pod.Spec.RestartPolicy), "only Pods with restartPolicy Always can be updated in place"}
	}
	return nil
}

// updatable says whether the image of pod's container of this name can change in place.
func updatable(pod *corev1.Pod, name string) error {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return noSuch(pod, name)
	}
	c := pod.Spec.Containers[i]
	object := fmt.Sprintf("container %q of %s", name, podName(pod))
	if c.ImagePullPolicy == corev1.PullAlways {
		return &RefusalError{object, "has imagePullPolicy Always: kubelet would kill the old container and only then ask the registry", "set IfNotPresent in the template and recreate the Pod once (the policy of a live Pod cannot change)"}
	}
	if c.RestartPolicy != nil && *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		return &RefusalError{object, fmt.Sprintf("has restartPolicy %s, so kubelet would not start it anew", *c.RestartPolicy), "only containers that always restart can be updated in place"}
	}
	return nil
}

func noSuch(pod *corev1.Pod, name string) error {
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	way := "it has: " + strings.Join(names, ", ")
	for _, c := range pod.Spec.InitContainers {
		if c.Name == name {
			return &RefusalError{fmt.Sprintf("container %q of %s", name, podName(pod)), "is an init container or sidecar, which cannot be updated in place", "those that can: " + strings.Join(names, ", ")}
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == name {
			return &RefusalError{fmt.Sprintf("container %q of %s", name, podName(pod)), "is an ephemeral container, which cannot be updated in place", "those that can: " + strings.Join(names, ", ")}
		}
	}
	return &RefusalError{podName(pod), fmt.Sprintf("has no container %q", name), way}
}

func notTheCoordinators(pod *corev1.Pod, last *v1alpha1.InPlaceUpdate) error {
	unit := Unit(pod, last)
	if unit == "" {
		return nil
	}
	return &RefusalError{
		podName(pod),
		fmt.Sprintf("belongs to %s, whose Pods the coordinator updates together", unit),
		"change the images in the template of its ModelServing; a single Pod of it is kept out of traffic with `kubectl pitstop hold`",
	}
}
