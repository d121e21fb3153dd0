package timeline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/timeline"
)

func at(seconds float64) time.Time {
	return time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func state(attempt int64, stage v1alpha1.Stage, reason v1alpha1.Reason, message string, since float64) *v1alpha1.InPlaceUpdate {
	return &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "engine-0"},
		Spec: v1alpha1.InPlaceUpdateSpec{
			NodeName: "node-a", Attempt: attempt,
			Containers: []v1alpha1.ContainerImage{{Name: "engine", Image: "r/engine:v2"}},
		},
		Status: v1alpha1.InPlaceUpdateStatus{
			Attempt: attempt, Stage: stage, Reason: reason, Message: message, StageSince: &metav1.MicroTime{Time: at(since)},
		},
	}
}

func notTakenUp(attempt int64) *v1alpha1.InPlaceUpdate {
	u := state(attempt, v1alpha1.StageInService, "", "", 0)
	u.Status.Attempt = attempt - 1
	return u
}

// An event is a state that comes at a second of the viewer's clock; without a state the live
// line of that second is asked for.
type event struct {
	at    float64
	state *v1alpha1.InPlaceUpdate
}

func TestTimeline(t *testing.T) {
	const skew = 500 // the agent's clock is far off the viewer's
	for name, tt := range map[string]struct {
		events []event
		want   string
	}{
		"from the order to service, with the clocks apart": {
			[]event{
				{10, notTakenUp(1)},
				{11, nil},
				{11.3, state(1, v1alpha1.StagePrepared, "", "", 11.2+skew)},
				{14.7, state(1, v1alpha1.StageDrained, "", "", 14.6+skew)},
				{16, nil},
				{16.1, state(1, v1alpha1.StageVerified, "", "", 16.05+skew)},
				{16.4, state(1, v1alpha1.StageInService, "", "", 16.3+skew)},
			},
			`
pod ns/engine-0, attempt 1: engine=r/engine:v2
    1.0s  ...           +1.0s  the agent has not taken up the order yet
    1.3s  Prepared      +1.3s
    4.7s  Drained       +3.4s
    6.0s  ...           +1.3s
    6.1s  Verified      +1.4s
    6.4s  InService     +0.2s
`,
		},
		"joined in the middle of a long drain, whose message changes": {
			[]event{
				{100, state(1, v1alpha1.StageDraining, v1alpha1.WaitingDrain, "running 3", 40)},
				{101, nil},
				{102, state(1, v1alpha1.StageDraining, v1alpha1.WaitingDrain, "running 1", 40)},
				{103, nil},
				{161, nil},
				{162, state(1, v1alpha1.StageDrained, "", "", 161.5)},
			},
			`
pod ns/engine-0, attempt 1: engine=r/engine:v2
    0.0s  Draining      +0.0s  Draining: running 3
    1m1s  ...           +1m1s  Draining: running 3
    1m3s  ...           +1m3s  Draining: running 1
    2m1s  ...           +2m1s  Draining: running 1
    2m2s  Drained       +2m2s
`,
		},
		"a new reason within a stage is a line": {
			[]event{
				{0, notTakenUp(2)},
				{6, state(2, v1alpha1.StagePreparing, v1alpha1.WaitingPull, "1 of 9 MiB", 0.5)},
				{9, state(2, v1alpha1.StagePreparing, v1alpha1.WaitingRegistry, "connection refused", 0.5)},
				{20, state(2, v1alpha1.StagePrepared, "", "", 14.5)},
			},
			`
pod ns/engine-0, attempt 2: engine=r/engine:v2
    6.0s  Preparing     +6.0s  PullingImage: 1 of 9 MiB
    9.0s  Preparing     +3.0s  RegistryUnreachable: connection refused
   20.0s  Prepared     +11.0s
`,
		},
		"a new attempt starts anew": {
			[]event{
				{0, state(1, v1alpha1.StageInService, "", "", 0)},
				{50, notTakenUp(2)},
				{51, state(2, v1alpha1.StageRefused, v1alpha1.RefusedNotFound, "r/engine:v2: not found", 50.7)},
			},
			`
pod ns/engine-0, attempt 1: engine=r/engine:v2
    0.0s  InService     +0.0s
pod ns/engine-0, attempt 2: engine=r/engine:v2
    1.0s  Refused       +1.0s  ImageNotFound: r/engine:v2: not found
`,
		},
		"what was written into a message does not reach the terminal": {
			[]event{{0, state(1, v1alpha1.StagePending, "", "\x1b[31mred", 0)}},
			`
pod ns/engine-0, attempt 1: engine=r/engine:v2
    0.0s  Pending       +0.0s  ^[[31mred
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var line timeline.Timeline
			var got []string
			for _, e := range tt.events {
				if e.state == nil {
					got = append(got, line.Live(at(e.at)))
					continue
				}
				got = append(got, line.Observe(e.state, at(e.at))...)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), strings.Join(got, "\n")+"\n"); diff != "" {
				t.Errorf("timeline (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	u := state(1, v1alpha1.StageInService, "", "", 0)
	u.Status.Containers = []v1alpha1.ContainerReport{
		{Name: "engine", Before: &v1alpha1.ContainerState{Image: "r/engine:v1", ContainerID: "a"}, After: &v1alpha1.ContainerState{Image: "r/engine:v2", ContainerID: "b"}, Planned: 1, Crashes: 2},
		{Name: "proxy", Before: &v1alpha1.ContainerState{Image: "r/proxy:v1", ContainerID: "c"}, After: &v1alpha1.ContainerState{Image: "r/proxy:v1", ContainerID: "c"}},
		{Name: "logs", Before: &v1alpha1.ContainerState{Image: "r/logs:v1", ContainerID: "d"}, Peer: 1},
		{Name: "late", After: &v1alpha1.ContainerState{Image: "r/late:v1", ContainerID: "e"}},
		{Name: "lost"},
	}
	u.Status.GPUs = []v1alpha1.GPUReport{{UUID: "GPU-1", Before: ptr.To[int64](70000), Verdict: "Reloaded"}}
	u.Status.RequestsCut = ptr.To[int64](3)
	u.Status.Timings = &v1alpha1.Timings{Prepare: ptr.To[int64](1300), Stop: ptr.To[int64](90), OutOfService: ptr.To[int64](4210)}
	want := `container engine: r/engine:v1 -> r/engine:v2; restarts: 1 planned, 2 crashed
container proxy: r/proxy:v1 (same container)
container logs: r/logs:v1 (same container); restarts: 1 by itself
container late: r/late:v1
container lost: not recorded
gpu GPU-1: 70000 MiB before, unknown after (Reloaded)
requests cut at the drain timeout: 3
prepare 1.3s, stop 90ms, out of service 4.21s
`
	if diff := cmp.Diff(want, timeline.Summary(u)); diff != "" {
		t.Errorf("Summary() (-want +got):\n%s", diff)
	}
	u.Spec.Attempt = 2
	if got := timeline.Summary(u); got != "" {
		t.Errorf("Summary() of an attempt that the report is not about: %q", got)
	}
}

func TestWriteTable(t *testing.T) {
	done := state(3, v1alpha1.StageInService, "", "", 10)
	done.Status.Timings = &v1alpha1.Timings{OutOfService: ptr.To[int64](4210)}
	open := state(1, v1alpha1.StageDraining, v1alpha1.WaitingDrain, "running 3", 40)
	open.Name = "engine-1"
	bare := notTakenUp(2)
	bare.Name, bare.Spec.Containers = "engine-2", nil
	want := `NAMESPACE   POD        STAGE       FOR   REASON     ATTEMPT   IMAGES               OUT OF SERVICE   NODE
ns          engine-0   InService   90s   -          3         engine=r/engine:v2   4.21s            node-a
ns          engine-1   Draining    60s   Draining   1         engine=r/engine:v2   -                node-a
ns          engine-2   -           -     -          2         -                    -                node-a
`
	var b strings.Builder
	if err := timeline.WriteTable(&b, []*v1alpha1.InPlaceUpdate{done, open, bare}, at(100)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("WriteTable() (-want +got):\n%s", diff)
	}
}
