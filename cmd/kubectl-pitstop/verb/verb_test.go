package verb_test

import (
	"bytes"
	"context"
	"encoding/json"
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

func TestUpdateOrders(t *testing.T) {
	b := newBench(t)
	code := b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2", "--drain", "Delay", "--drain-timeout", "5s", "--stop-timeout", "2s")
	b.want(t, code, 0)
	u := b.stored(t)
	if u.Spec.Attempt != 1 || u.Spec.PodUID != "pod-uid" || u.Spec.Drain.Mode != v1alpha1.DrainDelay || *u.Spec.Drain.TimeoutSeconds != 5 || *u.Spec.StopTimeoutSeconds != 2 || *u.Spec.PropagationSeconds != 3 {
		t.Errorf("ordered %+v", u.Spec)
	}
	if diff := cmp.Diff("attempt 1 ordered; follow it with `kubectl pitstop status engine-0 -n ns --watch`\n", b.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestUpdateRaisesTheAttempt(t *testing.T) {
	b := newBench(t, ordered(1, v1alpha1.StageInService))
	b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v3", "-o", "json"), 0)
	var printed v1alpha1.InPlaceUpdate
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || printed.Spec.Attempt != 2 || printed.Spec.Containers[0].Image != "r/engine:v3" {
		t.Errorf("printed %+v, %v", printed.Spec, err)
	}
}

func TestUpdateWaitsForTheEnd(t *testing.T) {
	b := newBench(t)
	done := ordered(1, v1alpha1.StageInService)
	done.Status.Containers = []v1alpha1.ContainerReport{{Name: "engine", Planned: 1, Before: &v1alpha1.ContainerState{Image: "r/engine:v1", ContainerID: "a"}, After: &v1alpha1.ContainerState{Image: "r/engine:v2", ContainerID: "b"}}}
	done.Status.Timings = &v1alpha1.Timings{OutOfService: new(int64(4210))}
	b.report(t, ordered(1, v1alpha1.StagePrepared), ordered(1, v1alpha1.StageDrained), because(ordered(1, v1alpha1.StageSwapping), v1alpha1.WaitingKubelet, ""), done)
	b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2", "--wait"), 0)
	want := `pod ns/engine-0, attempt 1: engine=r/engine:v2
    0.0s  Prepared      +0.0s
    1.0s  Drained       +1.0s
    2.0s  Swapping      +1.0s  KubeletRestarting
    4.0s  InService     +2.0s
container engine: r/engine:v1 -> r/engine:v2; restarts: 1 planned
out of service 4.21s
`
	if diff := cmp.Diff(want, b.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestUpdateWaitsAndPrintsJSON(t *testing.T) {
	b := newBench(t)
	b.report(t, ordered(1, v1alpha1.StagePrepared), ordered(1, v1alpha1.StageInService))
	b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2", "--wait", "-o", "json"), 0, "Prepared")
	var printed v1alpha1.InPlaceUpdate
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || printed.Status.Stage != v1alpha1.StageInService {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestUpdateWaitEndsBadly(t *testing.T) {
	for name, tt := range map[string]struct {
		state *v1alpha1.InPlaceUpdate
		code  int
		want  []string
	}{
		"refused": {
			because(ordered(1, v1alpha1.StageRefused), v1alpha1.RefusedNotFound, "r/engine:v2: not found"),
			1,
			[]string{"ended as Refused (ImageNotFound): r/engine:v2: not found", "correct the tag"},
		},
		"failed": {
			because(ordered(1, v1alpha1.StageFailed), v1alpha1.FailedCrashLooping, "3 crashes"),
			1,
			[]string{"ended as Failed (CrashLooping)", "--previous"},
		},
		"cancelled by another": {
			because(ordered(1, v1alpha1.StageCancelled), v1alpha1.EndedPodGone, ""),
			1,
			[]string{"PodGone"},
		},
		"superseded": {ordered(2, v1alpha1.StagePrepared), 3, []string{"superseded by attempt 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.report(t, ordered(1, v1alpha1.StagePrepared), tt.state)
			b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2", "--wait"), tt.code, tt.want...)
		})
	}
}

func TestUpdateWaitEndsWithTheOrder(t *testing.T) {
	b := newBench(t)
	b.dynamic.PrependWatchReactor("inplaceupdates", func(clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFakeWithChanSize(1, false)
		w.Delete(object(t, ordered(1, v1alpha1.StageDrained)))
		return true, w, nil
	})
	b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2", "--wait"), 1, "was deleted")
}

func TestUpdateWaitGivesUpAndSaysWhyItWaits(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2", "--wait", "--timeout", "50ms"), 1,
		"not been taken up", "not ended when --timeout was over")
}

func TestUpdateWarnsOfADeadAgent(t *testing.T) {
	b := newBench(t)
	if err := b.core.Tracker().Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), "pitstop-system", "pitstop-agent-node-a"); err != nil {
		t.Fatal(err)
	}
	b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2"), 0, "warning: node node-a has no live agent")
}

func TestUpdateDoesNotNeedToSeeLeases(t *testing.T) {
	b := newBench(t)
	b.core.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "pitstop-agent-node-a", nil)
	})
	b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2"), 0)
	if b.err.Len() > 0 {
		t.Errorf("errors: %s", b.err)
	}
}

func TestRefusedAndConflicting(t *testing.T) {
	for name, tt := range map[string]struct {
		updates []*v1alpha1.InPlaceUpdate
		args    []string
		code    int
		want    []string
	}{
		"update of no Pod":          {nil, []string{"update", "nobody", "a=b"}, 1, []string{"pod ns/nobody does not exist"}},
		"update of no container":    {nil, []string{"update", "engine-0", "nothing=b"}, 1, []string{`no container "nothing"`, "it has: engine"}},
		"update over a former Pod":  {[]*v1alpha1.InPlaceUpdate{former()}, []string{"update", "engine-0", "engine=b"}, 3, []string{"former Pod"}},
		"cancel of nothing":         {nil, []string{"cancel", "engine-0"}, 1, []string{"no in-place update"}},
		"cancel after the patch":    {[]*v1alpha1.InPlaceUpdate{ordered(1, v1alpha1.StageSwapping)}, []string{"cancel", "engine-0"}, 1, []string{"patched", "kubectl pitstop update engine-0"}},
		"status of no update":       {nil, []string{"status", "engine-0"}, 1, []string{"no in-place update"}},
		"watch of no update":        {nil, []string{"status", "engine-0", "--watch"}, 1, []string{"no in-place update"}},
		"explain of no Pod":         {nil, []string{"explain", "nobody"}, 1, []string{"does not exist"}},
		"hold as the agent":         {nil, []string{"hold", "engine-0", "--reason", "x", "--holder", "inplace"}, 1, []string{"agent's"}},
		"release of what is free":   {nil, []string{"release", "engine-0"}, 1, []string{"nobody holds it"}},
		"no verb of ours":           {nil, []string{"upgrade"}, 2, []string{`unknown command "upgrade"`}},
		"no such flag":              {nil, []string{"status", "--colour"}, 2, []string{"unknown flag"}},
		"no such format":            {nil, []string{"status", "-o", "yaml"}, 2, []string{"there is: json"}},
		"no Pod":                    {nil, []string{"explain"}, 2, []string{"accepts 1 arg"}},
		"no image":                  {nil, []string{"update", "engine-0"}, 2, []string{"at least 2 arg"}},
		"half an image":             {nil, []string{"update", "engine-0", "engine"}, 2, []string{"CONTAINER=IMAGE"}},
		"a container twice":         {nil, []string{"update", "engine-0", "a=b", "a=c"}, 2, []string{"named twice"}},
		"a drain that is none":      {nil, []string{"update", "engine-0", "a=b", "--drain", "Hope"}, 2, []string{"EngineMetrics, Router and Delay"}},
		"half a second":             {nil, []string{"update", "engine-0", "a=b", "--propagation", "500ms"}, 2, []string{"--propagation", "whole seconds"}},
		"too long":                  {nil, []string{"update", "engine-0", "a=b", "--stop-timeout", "25h"}, 2, []string{"--stop-timeout"}},
		"hold without a reason":     {nil, []string{"hold", "engine-0"}, 2, []string{"--reason"}},
		"a name and all namespaces": {nil, []string{"status", "engine-0", "-A"}, 2, []string{"exclude each other"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.updates...)
			b.want(t, b.run(t.Context(), tt.args...), tt.code, tt.want...)
			for _, a := range append(b.core.Actions(), b.dynamic.Actions()...) {
				if a.GetVerb() != "get" && a.GetVerb() != "list" {
					t.Errorf("wrote: %v", a)
				}
			}
		})
	}
}

func former() *v1alpha1.InPlaceUpdate {
	u := ordered(1, v1alpha1.StageInService)
	u.Spec.PodUID = "former"
	return u
}

func TestSomeoneElseWroteAtTheSameTime(t *testing.T) {
	resource := v1alpha1.InPlaceUpdates.GroupResource()
	for name, tt := range map[string]struct {
		verb    string
		updates []*v1alpha1.InPlaceUpdate
		err     error
	}{
		"created": {"create", nil, apierrors.NewAlreadyExists(resource, "engine-0")},
		"changed": {"update", []*v1alpha1.InPlaceUpdate{ordered(1, v1alpha1.StageInService)}, apierrors.NewConflict(resource, "engine-0", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.updates...)
			var sent string
			b.dynamic.PrependReactor(tt.verb, "inplaceupdates", func(a clienttesting.Action) (bool, runtime.Object, error) {
				sent = a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).GetResourceVersion()
				return true, nil, tt.err
			})
			b.want(t, b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2"), 3, "someone else")
			if tt.verb == "update" && sent != "7" {
				t.Errorf("sent resourceVersion %q, want the one that was read", sent)
			}
		})
	}
}

func TestNotInstalled(t *testing.T) {
	b := newBench(t)
	unknownPath := apierrors.NewGenericServerResponse(404, "get", v1alpha1.InPlaceUpdates.GroupResource(), "engine-0", "404 page not found", 0, true)
	b.dynamic.PrependReactor("*", "inplaceupdates", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, unknownPath })
	for _, args := range [][]string{{"update", "engine-0", "engine=b"}, {"status"}, {"status", "--watch"}, {"explain", "engine-0"}, {"cancel", "engine-0"}} {
		b.want(t, b.run(t.Context(), args...), 1, "Pitstop is not installed", "kubectl apply --server-side -k")
	}
}

func TestCancel(t *testing.T) {
	b := newBench(t, ordered(1, v1alpha1.StagePrepared))
	ended := because(ordered(2, v1alpha1.StageCancelled), v1alpha1.EndedCancelled, "")
	ended.Spec.Containers = nil
	b.report(t, ended)
	b.want(t, b.run(t.Context(), "cancel", "engine-0", "--wait"), 0)
	if u := b.stored(t); u.Spec.Attempt != 2 || len(u.Spec.Containers) != 0 {
		t.Errorf("ordered %+v", u.Spec)
	}
	if !strings.Contains(b.out.String(), "Cancelled") {
		t.Errorf("output: %s", b.out)
	}
}

func TestCancelThatCameTooLate(t *testing.T) {
	b := newBench(t, ordered(1, v1alpha1.StageDrained))
	late := because(ordered(2, v1alpha1.StageInService), v1alpha1.EndedCancelTooLate, "")
	late.Spec.Containers = nil
	b.report(t, late)
	b.want(t, b.run(t.Context(), "cancel", "engine-0", "--wait"), 1, "CancelTooLate", "update to the old image")
}

func TestHoldAndRelease(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "hold", "engine-0", "--reason", "slow answers", "--holder", "alice"), 0)
	read := func() map[string]string {
		p, err := b.core.CoreV1().Pods("ns").Get(t.Context(), "engine-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Annotations
	}
	if diff := cmp.Diff(map[string]string{"pitstop.dev/hold.alice": "slow answers"}, read()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	b.want(t, b.run(t.Context(), "hold", "engine-0", "--reason", "other", "--holder", "alice"), 3, "slow answers")
	b.want(t, b.run(t.Context(), "release", "engine-0"), 1, "held by: alice")
	b.want(t, b.run(t.Context(), "hold", "engine-0", "--reason", "mine", "-o", "json"), 0)
	want := `{
  "namespace": "ns",
  "pod": "engine-0",
  "holds": [
    {
      "holder": "alice",
      "value": "slow answers"
    },
    {
      "holder": "operator",
      "value": "mine"
    }
  ]
}
`
	if diff := cmp.Diff(want, b.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	b.want(t, b.run(t.Context(), "release", "engine-0", "--holder", "alice"), 0)
	if got := b.out.String(); got != "pod ns/engine-0 released; still held by operator: mine\n" {
		t.Errorf("output %q", got)
	}
	b.want(t, b.run(t.Context(), "release", "engine-0"), 0)
	if got := b.out.String(); got != "pod ns/engine-0 released; nobody holds it now\n" || len(read()) != 0 {
		t.Errorf("output %q, annotations %v", got, read())
	}
}

func TestStatus(t *testing.T) {
	u := because(ordered(2, v1alpha1.StageDrained), v1alpha1.WaitingKubelet, "kubelet has not yet acted")
	b := newBench(t, u)
	header := "NAMESPACE   POD        STAGE     FOR   REASON              ATTEMPT   IMAGES               OUT OF SERVICE   NODE\n"
	row := "ns          engine-0   Drained   0s    KubeletRestarting   2         engine=r/engine:v2   -                node-a\n"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "engine-0"}, header + row + "kubelet has not yet acted\n"},
		{[]string{"status"}, header + row},
		{[]string{"status", "-A"}, header + row},
	} {
		b.want(t, b.run(t.Context(), tt.args...), 0)
		if diff := cmp.Diff(tt.want, b.out.String()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.args, diff)
		}
	}
	b.want(t, b.run(t.Context(), "status", "-o", "json"), 0)
	var list v1alpha1.InPlaceUpdateList
	if err := json.Unmarshal(b.out.Bytes(), &list); err != nil || list.Kind != "InPlaceUpdateList" || len(list.Items) != 1 || list.Items[0].Spec.Attempt != 2 {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestStatusOfNothing(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "status"), 0, "no in-place updates found")
	b.want(t, b.run(t.Context(), "status", "-o", "json"), 0)
	if !strings.Contains(b.out.String(), `"items": []`) {
		t.Errorf("printed %s", b.out)
	}
}

// The watch ends when it is interrupted, which here the last state does.
func TestStatusWatch(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"the stages of one": {[]string{"status", "engine-0", "--watch"}, `pod ns/engine-0, attempt 1: engine=r/engine:v2
    0.0s  Prepared      +0.0s
    4.0s  InService     +4.0s
`},
		"a row for every change": {[]string{"status", "-w"}, `NAMESPACE	POD	STAGE	FOR	REASON	ATTEMPT	IMAGES	OUT OF SERVICE	NODE
ns	engine-0	Prepared	0s	-	1	engine=r/engine:v2	-	node-a
ns	engine-0	InService	0s	-	1	engine=r/engine:v2	-	node-a
`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			b := newBench(t, ordered(1, v1alpha1.StagePrepared))
			b.report(t, ordered(1, v1alpha1.StageInService))
			stop := &stopper{after: "InService", stop: interrupt}
			code := verb.Execute(ctx, append(tt.args, "--namespace", "ns"), verb.Env{
				Streams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: stop, ErrOut: &stop.Buffer},
				Clock:   clocktesting.NewFakeClock(now),
				Connect: func(genericclioptions.RESTClientGetter) (verb.Clients, error) {
					return verb.Clients{Core: b.core, Dynamic: b.dynamic}, nil
				},
			})
			if diff := cmp.Diff(tt.want, stop.String()); code != 0 || diff != "" {
				t.Errorf("exit code %d, output (-want +got):\n%s", code, diff)
			}
		})
	}
}

// A stopper calls stop once it was written a word.
type stopper struct {
	bytes.Buffer
	after string
	stop  func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.after) {
		defer s.stop()
	}
	return s.Buffer.Write(p)
}

func TestExplain(t *testing.T) {
	b := newBench(t, because(ordered(1, v1alpha1.StageRefused), v1alpha1.RefusedNotFound, "r/engine:v2: not found"))
	b.want(t, b.run(t.Context(), "explain", "engine-0"), 0)
	for _, word := range []string{"ImageNotFound", "r/engine:v2: not found", "alive, seen 5s ago"} {
		if !strings.Contains(b.out.String(), word) {
			t.Errorf("output lacks %q:\n%s", word, b.out)
		}
	}
	b.want(t, b.run(t.Context(), "explain", "engine-0", "-o", "json"), 0)
	var printed struct{ Reason, Stage, Gate string }
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || printed.Reason != "ImageNotFound" || printed.Stage != "Refused" || printed.Gate != "open" {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestVersion(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "--version"), 0)
	if got := b.out.String(); got != "kubectl pitstop v1.2.3\n" {
		t.Errorf("output %q", got)
	}
}

func TestHelp(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{}, {"--help"}, {"update", "--help"}} {
		b.want(t, b.run(t.Context(), args...), 0)
		if !strings.Contains(b.out.String(), "kubectl pitstop") {
			t.Errorf("help of %v: %s", args, b.out)
		}
	}
}
