package servinggroup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

const pinImage = "pitstop-agent:v1"

// A pinReader reads as the cache of pin Pods does.
type pinReader struct{ client.Reader }

func (r pinReader) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return r.Reader.List(ctx, l, append(opts, client.HasLabels{v1alpha1.LabelPin})...)
}

// private is a world in which the group, whose Pods have pull secrets, is to get an image in place that its agents may
// not pull.
func private(t *testing.T) *world {
	t.Helper()
	return unauthorized(t, corev1.LocalObjectReference{Name: "registry"})
}

// unauthorized is as private, with other pull secrets, or none.
func unauthorized(t *testing.T, secrets ...corev1.LocalObjectReference) *world {
	t.Helper()
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.live()
	w.lend(secrets...)
	for _, p := range w.workload() {
		p.Spec.ServiceAccountName = "engines"
		p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
		w.must(w.api.Update(t.Context(), &p))
	}
	w.order(func(s *v1alpha1.ServingGroupSpec) {
		s.LastAttempt = 1
		s.Updates = []v1alpha1.UnitUpdate{{Attempt: 1, Method: v1alpha1.UnitInPlace, Target: "r2", Previous: "r1", Permit: v1alpha1.PermitPrepare}}
	})
	w.reconcile()
	w.report(v1alpha1.StagePreparing, v1alpha1.WaitingUnauthorized)
	return w
}

// lend gives the Pods of the group pull secrets.
func (w *world) lend(secrets ...corev1.LocalObjectReference) {
	w.t.Helper()
	for _, p := range w.workload() {
		p.Spec.ImagePullSecrets = secrets
		w.must(w.api.Update(w.t.Context(), &p))
	}
}

// report has the agents report that on all orders.
func (w *world) report(stage v1alpha1.Stage, reason v1alpha1.Reason) {
	w.t.Helper()
	for _, o := range w.orders() {
		o.Status.Attempt, o.Status.Stage, o.Status.Reason = o.Spec.Attempt, stage, reason
		w.must(w.api.Status().Update(w.t.Context(), &o))
	}
}

func (w *world) workload() []corev1.Pod {
	return slices.DeleteFunc(w.pods(), func(p corev1.Pod) bool { return p.Labels[v1alpha1.LabelModelServing] == "" })
}

// pins are the Pods that are no workload.
func (w *world) pins() []corev1.Pod {
	return slices.DeleteFunc(w.pods(), func(p corev1.Pod) bool { return p.Labels[v1alpha1.LabelModelServing] != "" })
}

func (w *world) pin() corev1.Pod {
	w.t.Helper()
	all := w.pins()
	if len(all) != 1 {
		w.t.Fatalf("pin Pods: %v", names(all))
	}
	return all[0]
}

// pull is what kubelet says of the pull of the pin Pod's image.
func (w *world) pull(message string) {
	w.t.Helper()
	p := w.pin()
	p.Status.Phase = corev1.PodPending
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "pause", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: message},
	}}}
	w.must(w.api.Status().Update(w.t.Context(), &p))
}

// says is what is reported of the update of the whole group.
func (w *world) says() v1alpha1.UnitUpdateStatus {
	w.t.Helper()
	all := w.group().Status.Updates
	if len(all) != 1 {
		w.t.Fatalf("reports: %+v", all)
	}
	return all[0]
}

// back has the group go back in service without an update.
func (w *world) back() {
	w.t.Helper()
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Updates = nil })
	w.reconcile()
}

func TestMakesAPinPod(t *testing.T) {
	w := private(t)
	w.reconcile()
	pin := w.pin()
	spec := corev1.PodSpec{
		NodeName: node, RestartPolicy: corev1.RestartPolicyAlways, ServiceAccountName: "engines", PriorityClassName: "",
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		Tolerations:      []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
		Volumes: []corev1.Volume{{Name: "image", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: "engine:2", PullPolicy: corev1.PullIfNotPresent},
		}}},
	}
	got := corev1.PodSpec{
		NodeName: pin.Spec.NodeName, RestartPolicy: pin.Spec.RestartPolicy, ServiceAccountName: pin.Spec.ServiceAccountName,
		ImagePullSecrets: pin.Spec.ImagePullSecrets, Tolerations: pin.Spec.Tolerations, Volumes: pin.Spec.Volumes,
	}
	if diff := cmp.Diff(spec, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	for key := range pin.Labels {
		if strings.HasPrefix(key, "pitstop.dev/") && key != v1alpha1.LabelPin || key == "app" {
			t.Errorf("it has the workload's label %s", key)
		}
	}
	c := pin.Spec.Containers[0]
	if c.Image != pinImage || len(c.VolumeMounts) != 1 || *pin.Spec.AutomountServiceAccountToken ||
		!*pin.Spec.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("it may do too much: %+v", pin.Spec)
	}
	sg := w.group()
	if sg.Status.LivePods != 3 || sg.Status.Pods != 3 {
		t.Errorf("it is counted: %+v", sg.Status)
	}
	if diff := cmp.Diff([]string{pin.Name}, sg.Status.PinPods); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	w.back()
	if left := w.gone(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// gone are the pin Pods that nobody has deleted.
func (w *world) gone() []string {
	return names(slices.DeleteFunc(w.pins(), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }))
}

func TestSaysWhatKeepsAPinPodFromPulling(t *testing.T) {
	const pulling = `Back-off pulling image "engine:2": ErrImagePull: rpc error: code = `
	for name, r := range map[string]struct {
		kubelet string
		stage   v1alpha1.UnitStage
		reason  v1alpha1.UnitReason
		says    string
	}{
		"wrong credentials": {
			pulling + `Unknown desc = failed to pull and unpack image "engine:2": failed to resolve image: unexpected status from HEAD request to http://registry/v2/engine/manifests/2: 401 Unauthorized`,
			v1alpha1.UnitPreparing, v1alpha1.UnitPinFails, "correct the Secrets",
		},
		"no such tag": {
			pulling + `NotFound desc = failed to pull and unpack image "engine:2": failed to resolve image: engine:2: not found`,
			v1alpha1.UnitRefused, v1alpha1.UnitReason(v1alpha1.RefusedNotFound), "does not find it",
		},
		"the image of the container is missing": {
			`Back-off pulling image "pause": ErrImagePull: rpc error: code = NotFound desc = failed to resolve image: pause: not found`,
			v1alpha1.UnitPreparing, v1alpha1.UnitPinFails, "see `kubectl describe pod`",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := private(t)
			w.reconcile()
			w.pull(r.kubelet)
			w.reconcile()
			if u := w.says(); u.Stage != r.stage || u.Reason != r.reason || !strings.Contains(u.Message, r.says) {
				t.Errorf("%s %s: %s", u.Stage, u.Reason, u.Message)
			}
		})
	}
}

func TestSaysThatAPinPodIsRefused(t *testing.T) {
	pod := schema.GroupResource{Resource: "pods"}
	for name, r := range map[string]struct {
		answer error
		says   string
	}{
		"a quota": {apierrors.NewForbidden(pod, "pin", errors.New("exceeded quota")), "exceeded quota"},
		"an API server without image volumes": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pin", field.ErrorList{field.Required(field.NewPath("spec", "volumes").Index(0), "must specify a volume type")}),
			"1.36 or later",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := unauthorized(t)
			w.refuse = func(verb string, o client.Object) error {
				if verb == "create" && o.GetLabels()[v1alpha1.LabelPin] != "" {
					return r.answer
				}
				return nil
			}
			if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.group())}); err == nil {
				t.Error("it is not tried again")
			}
			if u := w.says(); u.Reason != v1alpha1.UnitPinFails || !strings.Contains(u.Message, r.says) {
				t.Errorf("%s: %s", u.Reason, u.Message)
			}
			w.refuse = nil
			w.reconcile()
			w.pin()
		})
	}
}

func TestPullSecretsAreTakenOnTrustWithoutImageVolumes(t *testing.T) {
	w := unauthorized(t)
	w.report(v1alpha1.StagePrepared, "")
	w.lend(corev1.LocalObjectReference{Name: "registry"})
	w.refuse = func(verb string, o client.Object) error {
		if verb == "create" && o.GetLabels()[v1alpha1.LabelPin] != "" {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pin", field.ErrorList{field.Required(field.NewPath("spec", "volumes").Index(0), "must specify a volume type")})
		}
		return nil
	}
	key := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.group())}
	if _, err := w.r.Reconcile(t.Context(), key); err == nil {
		t.Error("the refusal is not told")
	}
	w.reconcile()
	if u := w.says(); u.Stage != v1alpha1.UnitPrepared {
		t.Errorf("%s %s: %s", u.Stage, u.Reason, u.Message)
	}
}

func TestSaysThatItDoesNotKnowWhatPinPodsRun(t *testing.T) {
	w := unauthorized(t)
	w.pinImage = ""
	w.restart()
	if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.group())}); err == nil {
		t.Error("it is not tried again")
	}
	if u := w.says(); u.Reason != v1alpha1.UnitPinFails || !strings.Contains(u.Message, "--pin-image") {
		t.Errorf("%s: %s", u.Reason, u.Message)
	}
}

func TestFindsAPinPodAgain(t *testing.T) {
	for name, spoil := range map[string]func(w *world, pin corev1.Pod){
		"that has lost its labels": func(w *world, pin corev1.Pod) {
			pin.Labels = nil
			w.must(w.api.Update(w.t.Context(), &pin))
		},
		"that was made by a coordinator that died": func(w *world, _ corev1.Pod) {
			sg := w.group()
			sg.Status.PinPods, sg.Status.Updates = nil, nil
			w.must(w.api.Status().Update(w.t.Context(), sg))
			w.restart()
		},
	} {
		t.Run(name+", and is wanted", func(t *testing.T) {
			w := private(t)
			w.reconcile()
			spoil(w, w.pin())
			w.settlePins()
			if pin := w.pin(); pin.Labels[v1alpha1.LabelPin] != "llm-0" {
				t.Errorf("labels: %v", pin.Labels)
			}
		})
		t.Run(name+", and is not wanted any more", func(t *testing.T) {
			w := private(t)
			w.reconcile()
			spoil(w, w.pin())
			w.back()
			w.settlePins()
			if left := names(w.pins()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// settlePins has kubelet end the pin Pods that were deleted, and the controller follow.
func (w *world) settlePins() {
	w.t.Helper()
	for range 3 {
		for _, p := range w.pins() {
			if p.DeletionTimestamp != nil {
				p.Finalizers = nil
				w.must(w.api.Update(w.t.Context(), &p))
			}
		}
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		w.lease()
		w.reconcile()
	}
}

func TestALabelMakesNoPinPod(t *testing.T) {
	w := private(t)
	p := w.pod("llm-0-decode-0-0")
	p.Labels[v1alpha1.LabelPin] = "llm-0"
	w.must(w.api.Update(t.Context(), &p))
	w.back()
	if p = w.pod("llm-0-decode-0-0"); p.DeletionTimestamp != nil {
		t.Error("a Pod of the group was deleted for a label")
	}
}

func TestAStrangersPodIsNotTaken(t *testing.T) {
	w := unauthorized(t)
	w.reconcile()
	pin := w.pin()
	w.back()
	w.settlePins()
	stranger := &corev1.Pod{}
	stranger.Namespace, stranger.Name = space, pin.Name
	w.must(w.api.Create(t.Context(), stranger))
	w.order(func(s *v1alpha1.ServingGroupSpec) {
		s.LastAttempt = 2
		s.Updates = []v1alpha1.UnitUpdate{{Attempt: 2, Method: v1alpha1.UnitInPlace, Target: "r2", Previous: "r1", Permit: v1alpha1.PermitPrepare}}
	})
	w.reconcile()
	w.report(v1alpha1.StagePreparing, v1alpha1.WaitingUnauthorized)
	_, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.group())})
	if u := w.says(); err == nil || u.Reason != v1alpha1.UnitPinFails || !strings.Contains(u.Message, "of another owner") {
		t.Errorf("%v; %s: %s", err, u.Reason, u.Message)
	}
	if p := w.pod(pin.Name); p.DeletionTimestamp != nil {
		t.Error("a stranger's Pod was deleted")
	}
}
