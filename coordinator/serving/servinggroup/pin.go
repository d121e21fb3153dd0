package servinggroup

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
	"pitstop.dev/cri"
)

const (
	// DefaultPinPriority is the PriorityClass of pin Pods that deploy/base brings: below all workload, and never
	// preempting any.
	DefaultPinPriority = "pitstop-pin"
	// pinVolume is the volume that a pin Pod is made for.
	pinVolume = "image"
	// noRoom begins the reason with which kubelet turns a Pod away that its node has no room for, as OutOfpods.
	noRoom = "OutOf"
	// nobody is the user of pin Pods.
	nobody = 65532
	// noVolumesFor is how long an API server that does not know image volumes is not asked again for the sake of pull
	// secrets alone.
	noVolumesFor = 10 * time.Minute
)

// A PinConfig says what pin Pods are like.
type PinConfig struct {
	// Image is that of the agents: it is on every node that has one, and `pitstop-agent pause` does nothing.
	Image string
	// Priority is the name of their PriorityClass. Empty: they have none.
	Priority string
}

// errNoPinImage says that no pin Pod can be made.
var errNoPinImage = errors.New("the coordinator does not know what a pin Pod is to run: set its flag --pin-image to the image of pitstop-agent")

// lookForPins reads the pin Pods of the group. What a live look misses is asked for by name: somebody may have
// taken its label.
func (r *Reconciler) lookForPins(ctx context.Context, s *sight, from source) error {
	var list corev1.PodList
	err := r.cfg.Pins.List(ctx, &list, client.InNamespace(s.sg.Namespace), client.MatchingFields{IndexOwner: string(s.sg.UID)})
	if err != nil {
		return fmt.Errorf("list pin pods of %s: %w", s.sg.Name, err)
	}
	s.snap.NoImageVolumes = r.cfg.Clock.Now().Before(r.noVolumesUntil())
	if from == live && (len(list.Items) > 0 || len(s.sg.Status.PinPods) > 0 || s.needsPins()) {
		if list.Items, err = r.livePins(ctx, s); err != nil {
			return err
		}
	}
	for n := range list.Items {
		if pod := &list.Items[n]; isPin(s.sg, pod) {
			s.snap.Pins = append(s.snap.Pins, pinOf(s.sg, pod))
		}
	}
	slices.SortFunc(s.snap.Pins, func(a, b pods.Pin) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// needsPins reports whether there may be a pin Pod that is seen nowhere yet: an agent may not pull an image, or a Pod in
// update has pull secrets.
func (s *sight) needsPins() bool {
	return slices.ContainsFunc(s.snap.Pods, func(p pods.Pod) bool { return p.PullSecrets }) || slices.ContainsFunc(s.snap.Orders, func(o pods.Order) bool { return o.Reason == v1alpha1.WaitingUnauthorized })
}

func (r *Reconciler) livePins(ctx context.Context, s *sight) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := r.cfg.Live.List(ctx, &list, client.InNamespace(s.sg.Namespace), client.MatchingLabels{v1alpha1.LabelPin: s.sg.Name})
	if err != nil {
		return nil, fmt.Errorf("list pin pods of %s: %w", s.sg.Name, err)
	}
	for _, name := range s.sg.Status.PinPods {
		if slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.Name == name }) {
			continue
		}
		var pod corev1.Pod
		err := r.cfg.Live.Get(ctx, types.NamespacedName{Namespace: s.sg.Namespace, Name: name}, &pod)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read pin pod %s: %w", name, err)
		}
		if err == nil {
			list.Items = append(list.Items, pod)
		}
	}
	return list.Items, nil
}

// isPin reports whether the Pod is a pin Pod of the group: by its owner and its name. A Pod of a role stays one,
// whatever labels somebody gives it.
func isPin(sg *v1alpha1.ServingGroup, pod *corev1.Pod) bool {
	_, _, _, placed := place(sg.Name, pod.Name)
	return metav1.IsControlledBy(pod, sg) && strings.HasPrefix(pod.Name, pods.PinPrefix(sg.Name)) && !placed
}

func pinOf(sg *v1alpha1.ServingGroup, pod *corev1.Pod) pods.Pin {
	p := pods.Pin{
		Name: pod.Name, UID: pod.UID, Created: pod.CreationTimestamp.Time, Deleting: pod.DeletionTimestamp != nil,
		Ended:   pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
		Running: slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }),
		Stray:   pod.Labels[v1alpha1.LabelPin] != sg.Name,
	}
	image := volumeImage(pod)
	p.Message = pullTrouble(pod)
	switch {
	case image == "":
		p.Fault, p.Message = pods.PinNoVolume, "the API server has taken its image volume away"
	case p.Ended && strings.HasPrefix(pod.Status.Reason, noRoom):
		p.Fault, p.Message = pods.PinUnable, words(string(pod.Status.Phase), pod.Status.Reason, pod.Status.Message)
	case p.Ended:
		p.Fault, p.Message = pods.PinOther, words(string(pod.Status.Phase), pod.Status.Reason, pod.Status.Message)
	case p.Message != "":
		p.Fault = faultOf(image, p.Message)
	}
	return p
}

// volumeImage is the image that the Pod was made for; empty if it has none.
func volumeImage(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.Name == pinVolume && v.Image != nil {
			return v.Image.Reference
		}
	}
	return ""
}

// backOff is what kubelet puts before the words of a pull that has failed and is not tried again yet. Without it
// they are the same as before: each change is a write.
var backOff = regexp.MustCompile(`^Back-off pulling image "[^"]*": (ErrImagePull: )?`)

// pullTrouble is what kubelet says that keeps the Pod's container from being started; empty if it says nothing.
func pullTrouble(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		w := c.State.Waiting
		if w == nil || w.Reason == "" || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" {
			continue
		}
		if text := backOff.ReplaceAllString(w.Message, ""); text != "" {
			return text
		}
		return w.Reason
	}
	return ""
}

func faultOf(image, message string) pods.PinFault {
	err := cri.PullFailure(image, message)
	switch {
	case !strings.Contains(message, image): // it is about what the container runs
		return pods.PinUnable
	case errors.Is(err, cri.ErrImageNotFound):
		return pods.PinNotFound
	case errors.Is(err, cri.ErrUnauthorized):
		return pods.PinDenied
	}
	return pods.PinOther
}

// credentials tell apart what kubelet pulls the Pod's images with.
func credentials(pod *corev1.Pod) string {
	names := []string{pod.Spec.ServiceAccountName}
	for _, s := range pod.Spec.ImagePullSecrets {
		names = append(names, s.Name)
	}
	return strings.Join(names, "/")
}

// createPin makes a pin Pod. One of its name that is the group's is fine: the caches were late.
func (r *Reconciler) createPin(ctx context.Context, s *sight, a pods.Action) error {
	like, err := s.pod(pods.Action{Name: a.Pin.Like, UID: types.UID(a.Pin.LikeUID)})
	if err != nil {
		return err
	}
	if r.cfg.Pin.Image == "" {
		return errNoPinImage
	}
	pin := newPin(s.sg, like, a, r.cfg.Pin)
	err = r.cfg.Client.Create(ctx, pin)
	if !apierrors.IsAlreadyExists(err) {
		if lacksVolumes(err) {
			r.noVolumes.Store(r.cfg.Clock.Now().Add(noVolumesFor).UnixNano())
		}
		return wrap(err, "create", pin)
	}
	var have corev1.Pod
	switch err := r.cfg.Live.Get(ctx, client.ObjectKeyFromObject(pin), &have); {
	case err != nil:
		return wrap(err, "read", pin)
	case !metav1.IsControlledBy(&have, s.sg):
		return fmt.Errorf("%s %w", describe(pin), errTaken)
	case have.Labels[v1alpha1.LabelPin] != s.sg.Name: // no cache shows it: it is made anew
		return errors.Join(r.delete(ctx, s, pods.Action{Name: have.Name, UID: have.UID}, &have), errLate)
	}
	return errLate
}

// newPin returns the pin Pod that brings an image to the node of a Pod as kubelet would for that Pod. It is bound
// to the node, so that no scheduler makes room for it; it asks for next to nothing, and may do nothing.
func newPin(sg *v1alpha1.ServingGroup, like *corev1.Pod, a pods.Action, cfg PinConfig) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sg.Namespace, Name: a.Name,
			Labels: map[string]string{
				v1alpha1.LabelPin: sg.Name, "app.kubernetes.io/managed-by": "pitstop", "sidecar.istio.io/inject": "false",
			},
			Annotations:     map[string]string{"linkerd.io/inject": "disabled"},
			OwnerReferences: []metav1.OwnerReference{controllerRef(sg)},
		},
		Spec: corev1.PodSpec{
			NodeName: like.Spec.NodeName, ServiceAccountName: like.Spec.ServiceAccountName,
			ImagePullSecrets: like.Spec.ImagePullSecrets, Tolerations: like.Spec.Tolerations,
			PriorityClassName: cfg.Priority, RestartPolicy: corev1.RestartPolicyAlways,
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(1)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(nobody)), RunAsGroup: new(int64(nobody)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{{Name: pinVolume, VolumeSource: corev1.VolumeSource{
				Image: &corev1.ImageVolumeSource{Reference: a.Pin.Image, PullPolicy: corev1.PullIfNotPresent},
			}}},
			Containers: []corev1.Container{pause(cfg.Image)},
		},
	}
	return pod.DeepCopy()
}

// pause is the container of a pin Pod. Only what is mounted counts as used.
func pause(image string) corev1.Container {
	return corev1.Container{
		Name: "pause", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/pitstop-agent", "pause"},
		VolumeMounts: []corev1.VolumeMount{{Name: pinVolume, MountPath: "/image", ReadOnly: true}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Privileged: new(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// say has the units that wait for the pin Pod say that the API server refuses it.
func (p refusedPin) say(st *v1alpha1.ServingGroupStatus) {
	for n := range st.Updates {
		if u := &st.Updates[n]; slices.Contains(p.action.Pin.Units, u.Unit) && u.Reason == v1alpha1.UnitWaitingPin {
			u.Reason, u.Message = v1alpha1.UnitPinFails, pods.Cut(pinRefusal(p.action, p.cause))
		}
	}
}

func pinRefusal(a pods.Action, cause error) string {
	return fmt.Sprintf("image %s is not brought to the node of Pod %s: %s%v", a.Pin.Image, a.Pin.Like, noVolumes(cause), cause)
}

// noVolumes is what to do where the API server does not know image volumes.
func noVolumes(cause error) string {
	if !lacksVolumes(cause) {
		return ""
	}
	return "image volumes need Kubernetes 1.36 or later; on this cluster preload the image on the node: "
}

// lacksVolumes reports whether a pin Pod was refused by an API server that does not know image volumes.
func lacksVolumes(cause error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(cause) || !errors.As(cause, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return strings.HasPrefix(c.Field, "spec.volumes") })
}

// noVolumesUntil is how long the API server's word holds that it does not know image volumes: it may be upgraded.
func (r *Reconciler) noVolumesUntil() time.Time { return time.Unix(0, r.noVolumes.Load()) }
