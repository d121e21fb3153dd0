package servinggroup

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
	"pitstop.dev/coordinator/revision"
)

// yes is the value of labels that are there or not.
const yes = "true"

// newPod returns the Pod that the revision's data makes of what is to be made. What the template says
// is kept; where it names the same as Pitstop does, Pitstop wins.
func newPod(sg *v1alpha1.ServingGroup, data revision.Data, a pods.Action) (*corev1.Pod, error) {
	role, ok := data.Role(a.Pod.Role)
	template := role.EntryTemplate
	if a.Pod.Index > 0 {
		template = role.WorkerTemplate
	}
	if !ok || template == nil {
		return nil, fmt.Errorf("revision %s has no template for pod %s", a.Pod.Revision, a.Name)
	}
	template = template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sg.Namespace, Name: a.Name,
			Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{controllerRef(sg)},
		},
		Spec: template.Spec,
	}
	label(pod, sg, a.Pod)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.RoleDigest, a.Pod.Digest)
	if a.Pod.Held {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.HoldUnit, sg.Name)
	}
	if a.Pod.HeldGPU {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.HoldGPUHealth, yes)
	}
	network(pod, sg, a.Pod)
	gate(&pod.Spec)
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = data.SchedulerName
	}
	return pod, nil
}

func label(pod *corev1.Pod, sg *v1alpha1.ServingGroup, made pods.NewPod) {
	for key, value := range placeLabels(sg, made.Role, made.Instance, made.Index) {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.LabelRevision, made.Revision)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.LabelStable, yes)
	delete(pod.Labels, v1alpha1.LabelLeader)
	if made.Leader {
		pod.Labels[v1alpha1.LabelLeader] = yes
	}
}

// placeLabels say where a Pod belongs. They follow from its name and its owner.
func placeLabels(sg *v1alpha1.ServingGroup, role string, instance, index int32) map[string]string {
	out := make(map[string]string, 5)
	for _, l := range labelsOf(sg, role, instance, index) {
		out[l.key] = l.value
	}
	return out
}

type placeLabel struct{ key, value string }

// labelsOf are placeLabels without a map, for every Pod is compared with them in every pass.
func labelsOf(sg *v1alpha1.ServingGroup, role string, instance, index int32) [5]placeLabel {
	return [5]placeLabel{
		{v1alpha1.LabelModelServing, modelServingName(sg)},
		{v1alpha1.LabelServingGroup, sg.Name},
		{v1alpha1.LabelRole, role},
		{v1alpha1.LabelInstance, strconv.Itoa(int(instance))},
		{v1alpha1.LabelIndex, strconv.Itoa(int(index))},
	}
}

// network lets the Pods of an instance find each other, before they are ready too.
func network(pod *corev1.Pod, sg *v1alpha1.ServingGroup, made pods.NewPod) {
	entry := v1alpha1.EntryPodName(sg.Name, made.Role, made.Instance)
	pod.Spec.Hostname = pod.Name
	// A Pod without workers needs no Service: its own name leads to itself.
	address := entry
	if made.Size > 1 {
		pod.Spec.Subdomain = entry
		address = entry + "." + entry + "." + sg.Namespace
	}
	ours := []corev1.EnvVar{
		{Name: v1alpha1.EnvGroupSize, Value: strconv.Itoa(int(made.Size))},
		{Name: v1alpha1.EnvEntryAddress, Value: address},
		{Name: v1alpha1.EnvWorkerIndex, Value: strconv.Itoa(int(made.Index))},
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for n := range containers {
			containers[n].Env = withEnv(ours, containers[n].Env)
		}
	}
}

// withEnv puts our variables first, where the template's may refer to them.
func withEnv(ours, theirs []corev1.EnvVar) []corev1.EnvVar {
	theirs = slices.DeleteFunc(theirs, func(e corev1.EnvVar) bool {
		return slices.ContainsFunc(ours, func(o corev1.EnvVar) bool { return o.Name == e.Name })
	})
	return slices.Concat(ours, theirs)
}

func gate(spec *corev1.PodSpec) {
	ours := corev1.PodReadinessGate{ConditionType: v1alpha1.InService}
	if !slices.Contains(spec.ReadinessGates, ours) {
		spec.ReadinessGates = append(spec.ReadinessGates, ours)
	}
}

// newService returns the headless Service of a role instance. Pods that are held or loading are in
// its DNS records too: they start together.
func newService(sg *v1alpha1.ServingGroup, a pods.Action) *corev1.Service {
	labels := placeLabels(sg, a.Pod.Role, a.Pod.Instance, 0)
	delete(labels, v1alpha1.LabelIndex)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sg.Namespace, Name: a.Name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{controllerRef(sg)},
		},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: labels, PublishNotReadyAddresses: true},
	}
}

// newOrder returns the InPlaceUpdate of a Pod.
func newOrder(sg *v1alpha1.ServingGroup, ms *v1alpha1.ModelServing, a pods.Action) *v1alpha1.InPlaceUpdate {
	order := &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: sg.Namespace, Name: a.Name,
			Labels: map[string]string{
				v1alpha1.LabelModelServing: modelServingName(sg), v1alpha1.LabelServingGroup: sg.Name,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: a.Name, UID: a.Order.PodUID}},
		},
	}
	fillOrder(order, sg, ms, a.Order)
	return order
}

// fillOrder writes what is asked for. The settings of an attempt are those that it began with.
func fillOrder(order *v1alpha1.InPlaceUpdate, sg *v1alpha1.ServingGroup, ms *v1alpha1.ModelServing, o pods.NewOrder) {
	if order.Spec.Attempt == o.Attempt {
		order.Spec.Permit = o.Permit
		return
	}
	metav1.SetMetaDataAnnotation(&order.ObjectMeta, v1alpha1.UnitAttempt, o.Key)
	settings := &ms.Spec.RolloutStrategy.InPlace
	order.Spec = v1alpha1.InPlaceUpdateSpec{
		PodUID: o.PodUID, NodeName: o.Node, ServingGroupUID: sg.UID, Attempt: o.Attempt,
		Containers: o.Containers, Revision: o.Revision, RoleDigest: o.Digest,
		OpenAt: v1alpha1.OpenAtVerified, Permit: o.Permit,
		Drain:                   ms.Spec.RolloutStrategy.Drain.DeepCopy(),
		PropagationSeconds:      new(ptr.Deref(settings.PropagationSeconds, 3)),
		StopTimeoutSeconds:      new(ptr.Deref(settings.StopTimeoutSeconds, 30)),
		ProgressDeadlineSeconds: new(int32(deadlineOf(ms).Seconds())),
	}
	if o.Alone {
		order.Spec.OpenAt = v1alpha1.OpenAtProved
	}
	order.Spec.Drain.Mode = drainMode(order.Spec.Drain.Mode)
}

func drainMode(m v1alpha1.DrainMode) v1alpha1.DrainMode {
	if m == "" {
		return v1alpha1.DrainEngineMetrics
	}
	return m
}

func controllerRef(sg *v1alpha1.ServingGroup) metav1.OwnerReference {
	return *metav1.NewControllerRef(sg, v1alpha1.GroupVersion.WithKind("ServingGroup"))
}

func modelServingName(sg *v1alpha1.ServingGroup) string {
	if ref := metav1.GetControllerOfNoCopy(sg); ref != nil {
		return ref.Name
	}
	return sg.Labels[v1alpha1.LabelModelServing]
}
