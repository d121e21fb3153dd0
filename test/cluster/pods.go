package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/gpu/plugin"
	"pitstop.dev/test/gpu/rig"
)

// A PodSpec is the Pod of a scenario. Images are by container; the first container is "engine".
type PodSpec struct {
	Name   string
	Node   string // empty: the scheduler chooses
	Labels map[string]string
	// Annotations are those of the Pod.
	Annotations map[string]string
	Image       string
	// Sidecar is the image of a second container; empty: none.
	Sidecar string
	// GPUs is how many the engine asks for.
	GPUs int64
	// SidecarGPUMiB is what the sidecar takes of all GPUs of the node, as a weight server beside the engine; 0: nothing.
	SidecarGPUMiB int
	// Grace is the termination grace period in seconds; 0: the default.
	Grace int64
	// Ungated leaves the readiness gate out.
	Ungated bool
	// PullPolicy defaults to IfNotPresent.
	PullPolicy corev1.PullPolicy
	Env        map[string]string
}

// Pod returns the manifest.
func (s PodSpec) Pod() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: Namespace, Labels: s.Labels, Annotations: s.Annotations},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{}, RestartPolicy: corev1.RestartPolicyAlways,
			DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}},
			EnableServiceLinks: new(false), AutomountServiceAccountToken: new(false),
			Volumes:    []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{s.container("engine", s.Image, 8000)},
		},
	}
	if s.GPUs > 0 {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{plugin.Resource: *resource.NewQuantity(s.GPUs, resource.DecimalSI)}
	}
	if s.Node != "" {
		pod.Spec.NodeSelector["kubernetes.io/hostname"] = s.Node
	}
	if s.Grace > 0 {
		pod.Spec.TerminationGracePeriodSeconds = &s.Grace
	}
	if s.Sidecar != "" {
		pod.Spec.Containers = append(pod.Spec.Containers, s.container("sidecar", s.Sidecar, 8001))
		if s.SidecarGPUMiB > 0 {
			s.share(&pod.Spec)
		}
	}
	if !s.Ungated {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}}
	}
	return pod
}

func (s PodSpec) container(name, image string, port int32) corev1.Container {
	c := corev1.Container{
		Name: name, Image: image, ImagePullPolicy: s.PullPolicy,
		Env:          []corev1.EnvVar{{Name: "PITSTOP_ENGINE_ADDRESS", Value: fmt.Sprintf(":%d", port)}},
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		ReadinessProbe: &corev1.Probe{
			PeriodSeconds: 1, FailureThreshold: 1,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(port)}},
		},
	}
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = corev1.PullIfNotPresent
	}
	if name == "engine" {
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: port}}
	}
	for k, v := range s.Env {
		c.Env = append(c.Env, corev1.EnvVar{Name: k, Value: v})
	}
	return c
}

// share gives the sidecar the GPUs of the node without kubelet's knowledge, as those do that share them with an engine.
func (s PodSpec) share(spec *corev1.PodSpec) {
	c := &spec.Containers[1]
	c.Env = append(c.Env,
		corev1.EnvVar{Name: plugin.VisibleDevices, Value: rig.All},
		corev1.EnvVar{Name: "PITSTOP_GPU_CLAIMS", Value: rig.Socket},
		corev1.EnvVar{Name: "PITSTOP_ENGINE_GPU_MIB", Value: strconv.Itoa(s.SidecarGPUMiB)})
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "gpus", MountPath: rig.Inside})
	spec.Volumes = append(spec.Volumes, corev1.Volume{
		Name: "gpus", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: rig.OnNode}},
	})
}

// Create makes the Pod.
func (c *Cluster) Create(ctx context.Context, s PodSpec) (*corev1.Pod, error) {
	pod, err := c.Core.CoreV1().Pods(Namespace).Create(ctx, s.Pod(), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod %s: %w", s.Name, err)
	}
	return pod, nil
}

// Run makes the Pod and waits until it is Ready.
func (c *Cluster) Run(ctx context.Context, s PodSpec) (*corev1.Pod, error) {
	if _, err := c.Create(ctx, s); err != nil {
		return nil, err
	}
	return c.WaitPod(ctx, s.Name, readiness.Ready)
}

// Pod reads a Pod.
func (c *Cluster) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := c.Core.CoreV1().Pods(Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	return pod, nil
}

// WaitPod waits until the Pod is as wanted.
func (c *Cluster) WaitPod(ctx context.Context, name string, ok func(*corev1.Pod) bool) (*corev1.Pod, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	var pod *corev1.Pod
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		p, err := c.Core.CoreV1().Pods(Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			pod = p
		}
		return err == nil && ok(pod), nil
	})
	if err != nil && pod != nil {
		return pod, fmt.Errorf("pod %s did not get there: conditions %+v: %w", name, pod.Status.Conditions, err)
	}
	return pod, err
}

// Remove deletes the Pods and waits until they are gone.
func (c *Cluster) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := c.Core.CoreV1().Pods(Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete pod %s: %w", name, err)
		}
	}
	ctx, cancel := within(ctx)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := c.Core.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // tried again
		}
		return !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return slices.Contains(names, p.Name) }), nil
	})
}

// Replace deletes the Pod, with its own grace period, and makes it anew, as a controller does
// that recreates.
func (c *Cluster) Replace(ctx context.Context, s PodSpec) error {
	pods := c.Core.CoreV1().Pods(Namespace)
	old, err := c.Pod(ctx, s.Name)
	if err != nil {
		return err
	}
	if err := pods.Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.UID))}); err != nil {
		return fmt.Errorf("delete pod %s: %w", s.Name, err)
	}
	ctx, cancel := within(ctx)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := pods.Create(ctx, s.Pod(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		return err == nil, err
	})
}
