//go:build lab

package readiness

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/lab"
)

// TestPatchesOnARealAPIServer takes one Pod through an update. The API server has no kubelet:
// the test writes the conditions that kubelet would.
func TestPatchesOnARealAPIServer(t *testing.T) {
	s := newAPIServer(t)

	t.Run("a new Pod is opened, but not from an old reading", func(t *testing.T) {
		pod := s.create(t, "opening")
		data, needed := Sync(pod, t0())
		if !needed {
			t.Fatal("a new Pod needs nothing")
		}
		s.kubelet(t, pod, corev1.ConditionFalse) // the Pod has moved on
		if _, err := s.patchStatus(t, pod, data); !apierrors.IsConflict(err) {
			t.Errorf("from an old reading: %v, want a conflict", err)
		}
		pod = s.get(t, pod)
		data, _ = Sync(pod, t0())
		pod = s.mustPatchStatus(t, pod, data)
		equal(t, "gate", Gate{Present: true, Open: true}, GateOf(pod))
		s.othersAreKept(t, pod)
	})

	t.Run("lowering is one write", func(t *testing.T) {
		pod := s.serving(t, "lowering")
		seen := s.changes(t, pod, func() {
			s.mustPatchStatus(t, pod, must(t)(Lower(pod, testToken, t0())))
		})
		if len(seen) != 1 {
			t.Fatalf("%d changes of the Pod", len(seen))
		}
		equal(t, "gate", Gate{Present: true, Token: testToken, LoweredAt: t0()}, GateOf(seen[0]))
		equal(t, "hold", testToken, seen[0].Annotations[v1alpha1.HoldInPlace])
		equal(t, "spec", pod.Spec, seen[0].Spec)
		equal(t, "generation", pod.Generation, seen[0].Generation)
		s.othersAreKept(t, seen[0])
	})

	t.Run("an update, end to end", func(t *testing.T) {
		pod := s.serving(t, "update")
		pod = s.mustPatchStatus(t, pod, must(t)(Lower(pod, testToken, t0())))
		if Acknowledged(pod) {
			t.Fatal("acknowledged before kubelet answered")
		}
		pod = s.kubelet(t, pod, corev1.ConditionFalse)
		if !Acknowledged(pod) {
			t.Fatal("kubelet's answer is not seen")
		}
		at := t0().Add(23 * time.Millisecond)
		pod = s.mustPatchStatus(t, pod, must(t)(Acknowledge(pod, testToken, at)))
		want := Gate{Present: true, Token: testToken, LoweredAt: t0(), AcknowledgedAt: at}
		equal(t, "gate", want, GateOf(s.get(t, pod)))

		version := pod.ResourceVersion
		pod = s.mustPatchStatus(t, pod, must(t)(Lower(pod, testToken, t0().Add(time.Minute))))
		equal(t, "resourceVersion after a repeated Lower", version, pod.ResourceVersion)

		opening := Opening{
			Labels: map[string]string{v1alpha1.LabelRevision: "b", "pitstop.dev/canary": ""},
			Remove: []string{"pitstop.dev/drained"},
		}
		seen := s.changes(t, pod, func() {
			s.mustPatchStatus(t, pod, must(t)(Raise(pod, opening, t0())))
		})
		if len(seen) != 1 {
			t.Fatalf("%d changes of the Pod", len(seen))
		}
		equal(t, "labels", map[string]string{"app": "engine", v1alpha1.LabelRevision: "b"}, seen[0].Labels)
		equal(t, "annotations", map[string]string{"example.com/mine": "x"}, seen[0].Annotations)
		equal(t, "gate", Gate{Present: true, Open: true}, GateOf(seen[0]))
		equal(t, "message", "", condition(seen[0], v1alpha1.InService).Message)
		s.othersAreKept(t, seen[0])

		pod = s.get(t, pod)
		version = pod.ResourceVersion
		pod = s.mustPatchStatus(t, pod, must(t)(Raise(pod, opening, t0().Add(time.Minute))))
		equal(t, "resourceVersion after a repeated Raise", version, pod.ResourceVersion)
	})

	t.Run("a Pod of the same name and another UID is not touched", func(t *testing.T) {
		pod := s.serving(t, "foreign")
		old := pod.DeepCopy()
		old.UID = testUID
		sync := old.DeepCopy()
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.HoldPrefix+"alice", "x")
		held := old.DeepCopy()
		withHold("inplace", testToken)(held)
		condition(held, v1alpha1.InService).Status = corev1.ConditionFalse
		condition(held, v1alpha1.InService).Message = "held by inplace (token " + testToken + ")"
		synced, _ := Sync(sync, t0())
		for name, data := range map[string][]byte{
			"lower":       must(t)(Lower(old, testToken, t0())),
			"acknowledge": must(t)(Acknowledge(held, testToken, t0())),
			"raise":       must(t)(Raise(held, Opening{Labels: map[string]string{"pitstop.dev/revision": "b"}}, t0())),
			"sync":        synced,
		} {
			if _, err := s.patchStatus(t, pod, data); !rejected(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := s.pods.Patch(t.Context(), pod.Name, types.MergePatchType, must(t)(Put(old, "alice", "x")), metav1.PatchOptions{}); !rejected(err) {
			t.Errorf("put: %v", err)
		}
		equal(t, "Pod", pod, s.get(t, pod))
	})

	t.Run("an operator's hold closes the gate and stays at the opening", func(t *testing.T) {
		pod := s.serving(t, "operator")
		merge := func(data []byte) {
			t.Helper()
			var err error
			if pod, err = s.pods.Patch(t.Context(), pod.Name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		sync := func() {
			t.Helper()
			data, needed := Sync(pod, t0())
			if !needed {
				t.Fatal("the gate needs nothing")
			}
			pod = s.mustPatchStatus(t, pod, data)
		}
		merge(must(t)(Put(pod, "alice", "reads logs")))
		sync()
		equal(t, "gate", Gate{Present: true}, GateOf(pod))
		pod = s.mustPatchStatus(t, pod, must(t)(Lower(pod, testToken, t0())))
		pod = s.mustPatchStatus(t, pod, must(t)(Raise(pod, Opening{}, t0())))
		equal(t, "gate", Gate{Present: true}, GateOf(pod))
		equal(t, "message", "held by alice", condition(pod, v1alpha1.InService).Message)
		merge(must(t)(Release(pod, "alice")))
		sync()
		equal(t, "gate", Gate{Present: true, Open: true}, GateOf(pod))
	})
}

// rejected reports whether the API server refused a patch for its UID: as a conflict or as a
// change of what may not change, whichever it finds first.
func rejected(err error) bool { return apierrors.IsConflict(err) || apierrors.IsInvalid(err) }

// apiServer is a namespace on a real API server.
type apiServer struct{ pods typedcorev1.PodInterface }

func newAPIServer(t *testing.T) apiServer {
	t.Helper()
	plane, err := lab.StartControlPlane(t.Context(), lab.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := plane.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	transport, err := rest.HTTPClientFor(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(plane.RESTConfig(), transport)
	if err != nil {
		t.Fatal(err)
	}
	space, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "readiness-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return apiServer{pods: client.CoreV1().Pods(space.Name)}
}

// create makes a Pod that is bound to a node that nobody runs.
func (s apiServer) create(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := newPod()
	pod.ObjectMeta = metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"app": "engine", v1alpha1.LabelRevision: "a", "pitstop.dev/canary": "true"},
		Annotations: map[string]string{"example.com/mine": "x", "pitstop.dev/drained": testToken},
	}
	pod.Spec.NodeName = "nowhere"
	pod.Spec.Containers[0].Image = "engine:v1"
	pod, err := s.pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// serving makes a Pod whose gate is open and which kubelet calls Ready.
func (s apiServer) serving(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := s.create(t, name)
	data, _ := Sync(pod, t0().Add(-time.Hour))
	return s.kubelet(t, s.mustPatchStatus(t, pod, data), corev1.ConditionTrue)
}

// kubelet writes the Pod's conditions as kubelet does: a strategic merge of its own.
func (s apiServer) kubelet(t *testing.T, pod *corev1.Pod, ready corev1.ConditionStatus) *corev1.Pod {
	t.Helper()
	reason, message := "", ""
	if ready != corev1.ConditionTrue {
		reason, message = reasonGatesNotReady, ourGateFalse
	}
	p, err := patchOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	p.Status = &patchStatus{Conditions: []patchCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: ready, Reason: reason, Message: message},
	}}
	return s.mustPatchStatus(t, pod, must(t)(p.encode()))
}

func (s apiServer) othersAreKept(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for _, c := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		if condition(pod, c) == nil {
			t.Errorf("condition %s is gone", c)
		}
	}
}

func (s apiServer) get(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pod, err := s.pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (s apiServer) patchStatus(t *testing.T, pod *corev1.Pod, data []byte) (*corev1.Pod, error) {
	t.Helper()
	return s.pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
}

func (s apiServer) mustPatchStatus(t *testing.T, pod *corev1.Pod, data []byte) *corev1.Pod {
	t.Helper()
	pod, err := s.patchStatus(t, pod, data)
	if err != nil {
		t.Fatalf("patch %s: %v", data, err)
	}
	return pod
}

// changes returns the states of the Pod that a watch shows while act runs. A last write of the
// test's own, a label, says that nothing more comes.
func (s apiServer) changes(t *testing.T, pod *corev1.Pod, act func()) []*corev1.Pod {
	t.Helper()
	const mark = "example.com/end"
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w, err := s.pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name, ResourceVersion: pod.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	act()
	label := func(value string) {
		if _, err := s.pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+mark+`":`+value+`}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`"x"`)
	defer label("null")
	var seen []*corev1.Pod
	for event := range w.ResultChan() {
		got, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type != watch.Modified {
			t.Fatalf("watch: %s %v", event.Type, event.Object)
		}
		if _, end := got.Labels[mark]; end {
			return seen
		}
		seen = append(seen, got)
	}
	t.Fatal("the watch ended early")
	return nil
}
