package verb_test

import (
	"encoding/json"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"pitstop.dev/api/v1alpha1"
)

func TestUpdateOrders(t *testing.T) {
	b := newBench(t)
	code := b.run(t.Context(), "update", "engine-0", "engine=r/engine:v2", "--drain", "Delay", "--drain-timeout", "5s", "--stop-timeout", "2s")
	b.want(t, code, 0)
	u := b.stored(t)
	if u.Spec.Attempt != 1 || u.Spec.PodUID != "pod-uid" || u.Spec.Drain.Mode != v1alpha1.DrainDelay || *u.Spec.Drain.TimeoutSeconds != 5 || *u.Spec.StopTimeoutSeconds != 2 || *u.Spec.PropagationSeconds != 3 {
		t.Errorf("ordered %+v", u.Spec)
	}
	b.printed(t, "attempt 1 ordered; follow it with `kubectl pitstop status engine-0 -n ns --watch`\n")
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
	b.printed(t, want)
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
