package agent

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"pitstop.dev/api/v1alpha1"
)

// slim is the transform of the agent's caches: they keep only what is read.
func slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return slimPod(o), nil
	case *v1alpha1.InPlaceUpdate:
		return slimUpdate(o), nil
	case cache.DeletedFinalStateUnknown:
		return o, nil
	}
	return obj, nil
}

func slimUpdate(u *v1alpha1.InPlaceUpdate) *v1alpha1.InPlaceUpdate {
	u.ManagedFields = nil
	return u
}

func slimPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp,
			Labels:            ours(pod.Labels), Annotations: ours(pod.Annotations),
			OwnerReferences: pod.OwnerReferences,
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, RestartPolicy: pod.Spec.RestartPolicy, ReadinessGates: pod.Spec.ReadinessGates,
			Containers: slimContainers(pod.Spec.Containers), InitContainers: slimContainers(pod.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, PodIPs: pod.Status.PodIPs, Conditions: pod.Status.Conditions,
			ContainerStatuses: slimStatuses(pod.Status.ContainerStatuses),
		},
	}
	for _, c := range pod.Spec.EphemeralContainers {
		out.Spec.EphemeralContainers = append(out.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name},
		})
	}
	return out
}

func ours(m map[string]string) map[string]string {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k, _ string) bool { return !strings.HasPrefix(k, v1alpha1.GroupName+"/") })
	return out
}

func slimContainers(in []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, 0, len(in))
	for _, c := range in {
		out = append(out, corev1.Container{
			Name: c.Name, Image: c.Image, Ports: c.Ports, ImagePullPolicy: c.ImagePullPolicy,
			RestartPolicy: c.RestartPolicy, Resources: corev1.ResourceRequirements{Limits: devices(c.Resources.Limits)},
		})
	}
	return out
}

func slimStatuses(in []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, 0, len(in))
	for _, s := range in {
		one := corev1.ContainerStatus{
			Name: s.Name, State: s.State, Ready: s.Ready, RestartCount: s.RestartCount, ContainerID: s.ContainerID,
		}
		if end := s.LastTerminationState.Terminated; end != nil {
			one.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: end.ExitCode, StartedAt: end.StartedAt, FinishedAt: end.FinishedAt, ContainerID: end.ContainerID,
			}
		}
		out = append(out, one)
	}
	return out
}

// devices are the extended resources of a container, which device plugins serve.
func devices(limits corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(limits)
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return !strings.Contains(string(name), "/") || strings.HasPrefix(string(name), "kubernetes.io/") ||
			strings.HasPrefix(string(name), "hugepages-")
	})
	return out
}
