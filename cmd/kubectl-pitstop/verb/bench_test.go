package verb_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/verb"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var now = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// A bench is one API server and what a command printed.
type bench struct {
	core     *fake.Clientset
	dynamic  *dynamicfake.FakeDynamicClient
	out, err *bytes.Buffer
}

// newBench has a Pod in service, a live agent on its node, and what else the test wants.
func newBench(t *testing.T, updates ...*v1alpha1.InPlaceUpdate) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for _, u := range updates {
		objects = append(objects, u)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "pitstop-system", Name: "pitstop-agent-node-a"}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-5 * time.Second)}
	return &bench{core: fake.NewClientset(pod(), lease), dynamic: dynamicfake.NewSimpleDynamicClient(scheme, objects...)}
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "engine-0", UID: "pod-uid", ResourceVersion: "5"},
		Spec: corev1.PodSpec{
			NodeName:       "node-a",
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}},
			Containers:     []corev1.Container{{Name: "engine", Image: "r/engine:v1", ImagePullPolicy: corev1.PullIfNotPresent}},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: v1alpha1.InService, Status: corev1.ConditionTrue},
		}},
	}
}

// ordered is an order for the Pod, reported at a stage that was reached a second after the last.
func ordered(attempt int64, stage v1alpha1.Stage) *v1alpha1.InPlaceUpdate {
	u := &v1alpha1.InPlaceUpdate{
		TypeMeta:   metav1.TypeMeta{APIVersion: "pitstop.dev/v1alpha1", Kind: "InPlaceUpdate"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "engine-0", UID: "ipu-uid", ResourceVersion: "7"},
		Spec: v1alpha1.InPlaceUpdateSpec{
			PodUID: "pod-uid", NodeName: "node-a", Attempt: attempt,
			Containers: []v1alpha1.ContainerImage{{Name: "engine", Image: "r/engine:v2"}},
		},
	}
	if stage == "" {
		return u
	}
	order := []v1alpha1.Stage{v1alpha1.StagePrepared, v1alpha1.StageDrained, v1alpha1.StageSwapping, v1alpha1.StageVerified, v1alpha1.StageInService}
	since := now
	for i, s := range order {
		if s == stage {
			since = now.Add(time.Duration(i) * time.Second)
		}
	}
	u.Status = v1alpha1.InPlaceUpdateStatus{Attempt: attempt, Stage: stage, StageSince: &metav1.MicroTime{Time: since}}
	return u
}

func because(u *v1alpha1.InPlaceUpdate, reason v1alpha1.Reason, message string) *v1alpha1.InPlaceUpdate {
	u.Status.Reason, u.Status.Message = reason, message
	return u
}

// report has every watch deliver these states, one after the other.
func (b *bench) report(t *testing.T, states ...*v1alpha1.InPlaceUpdate) {
	t.Helper()
	b.dynamic.PrependWatchReactor("inplaceupdates", func(clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFakeWithChanSize(len(states), false)
		for _, u := range states {
			w.Modify(object(t, u))
		}
		return true, w, nil
	})
}

func object(t *testing.T, u *v1alpha1.InPlaceUpdate) *unstructured.Unstructured {
	t.Helper()
	return unstructuredOf(t, u)
}

func unstructuredOf(t *testing.T, u any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(u)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func (b *bench) run(ctx context.Context, args ...string) int {
	b.out, b.err = &bytes.Buffer{}, &bytes.Buffer{}
	return verb.Execute(ctx, append(args, "--namespace", "ns"), verb.Env{
		Streams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: b.out, ErrOut: b.err},
		Clock:   clocktesting.NewFakeClock(now),
		NewID:   func() string { return "request-1" },
		Version: "v1.2.3",
		Connect: func(genericclioptions.RESTClientGetter) (verb.Clients, error) {
			return verb.Clients{Core: b.core, Dynamic: b.dynamic}, nil
		},
	})
}

// stored is the order as the API server has it.
func (b *bench) stored(t *testing.T) *v1alpha1.InPlaceUpdate {
	t.Helper()
	got, err := b.dynamic.Resource(v1alpha1.InPlaceUpdates).Namespace("ns").Get(t.Context(), "engine-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var u v1alpha1.InPlaceUpdate
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, &u); err != nil {
		t.Fatal(err)
	}
	return &u
}

// want fails the test unless the command ended with this code and its errors hold these words.
func (b *bench) want(t *testing.T, got, code int, words ...string) {
	t.Helper()
	if got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	for _, word := range words {
		if !strings.Contains(b.err.String(), word) {
			t.Errorf("errors lack %q", word)
		}
	}
	if t.Failed() {
		t.Logf("out:\n%s\nerr:\n%s", b.out, b.err)
	}
}

func (b *bench) printed(t *testing.T, want string) {
	t.Helper()
	if diff := cmp.Diff(want, b.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// wroteNothing fails the test if a command did more than read.
func (b *bench) wroteNothing(t *testing.T) {
	t.Helper()
	for _, a := range append(b.core.Actions(), b.dynamic.Actions()...) {
		if a.GetVerb() != "get" && a.GetVerb() != "list" {
			t.Errorf("wrote: %v", a)
		}
	}
}

func (b *bench) forbid(verb, resource string) {
	refuse := func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "llm", fmt.Errorf("User %q cannot %s", "joe", verb))
	}
	b.core.PrependReactor(verb, resource, refuse)
	b.dynamic.PrependReactor(verb, resource, refuse)
}
