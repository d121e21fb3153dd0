package health

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a node with GPUs, its Pods and the API server.
type world struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	node     *corev1.Node
	pods     []*corev1.Pod
	reading  gpu.Reading
	events   []gpu.Event
	assigned map[types.UID][]string
	releases []time.Time
	called   func(what string) // before each call of the monitor; nil: nobody looks

	broken  bool // the API server refuses all
	hangs   bool // the API server answers nothing
	unknown bool // the Pods were not listed yet
	reads   int  // of the Node
	writes  []string
	told    []string
	monitor *Monitor
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)),
		node:     &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0", Annotations: map[string]string{}}},
		pods:     []*corev1.Pod{pod("engine"), pod("other")},
		assigned: map[types.UID][]string{"engine": {"GPU-0", "GPU-1"}, "other": {"MIG-2"}},
		reading:  gpu.Reading{State: gpu.Up, Driver: "570", Devices: []gpu.Device{device(0), device(1), device(2)}},
	}
	w.reading.Devices[2].MIG = []gpu.MIG{{UUID: "MIG-2"}}
	w.start(Config{Reader: w, Assigner: w, Releaser: w})
	return w
}

// start is a new process of the agent.
func (w *world) start(cfg Config) { w.monitor = NewMonitor(cfg, w, w.clock) }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: v1alpha1.InService, Status: corev1.ConditionTrue},
		}},
	}
}

func device(i int) gpu.Device {
	return gpu.Device{
		Index: i, UUID: "GPU-" + string(rune('0'+i)), Name: "H200", Memory: &gpu.Memory{Version: 2, Total: 143771, Used: 90},
		Health: gpu.Health{Recovery: new(gpu.RecoveryNone), UncorrectedECC: new(uint64(0)), ClockEvents: new(uint64(0)), RemapFailed: new(false)},
	}
}

// rounds lets so many rounds go by.
func (w *world) rounds(n int) {
	for range n {
		w.monitor.Round(w.t.Context())
		w.clock.Step(5 * time.Second)
	}
}

// judged lets GPUs become healthy, and forgets what was written.
func (w *world) judged() {
	w.rounds(3)
	w.writes, w.told = nil, nil
}

func (w *world) call(what string) {
	if w.called != nil {
		w.called(what)
	}
}

func (w *world) Read(context.Context) gpu.Reading {
	w.call("read")
	r := w.reading
	r.At = w.clock.Now()
	r.Devices = slices.Clone(r.Devices)
	return r
}

func (w *world) Events(after uint64) []gpu.Event {
	w.call("events")
	return slices.DeleteFunc(slices.Clone(w.events), func(e gpu.Event) bool { return e.Seq <= after })
}

func (w *world) xid(uuid string, n uint64) {
	w.events = append(w.events, gpu.Event{Seq: uint64(len(w.events) + 1), At: w.clock.Now(), UUID: uuid, XID: n, Kind: gpu.EventXID})
}

func (w *world) Assigned(_ context.Context, _ []*corev1.Pod, _ gpu.Reading) map[types.UID][]string {
	return w.assigned
}

func (w *world) Release(until time.Time) {
	w.call("release")
	w.releases = append(w.releases, until)
	w.call("released")
}

func (w *world) Pods() (pods []*corev1.Pod, known bool) {
	if w.unknown {
		return nil, false
	}
	return slices.Clone(w.pods), true
}

var errDown = errors.New("the API server is down")

// answers is the API server's answer to a request, before it is looked at.
func (w *world) answers(ctx context.Context) error {
	if w.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if w.broken {
		return errDown
	}
	return nil
}

func (w *world) Node(ctx context.Context) (*corev1.Node, error) {
	w.call("ask")
	w.reads++
	if err := w.answers(ctx); err != nil {
		return nil, err
	}
	return w.node.DeepCopy(), nil
}

func (w *world) PatchNodeStatus(ctx context.Context, data []byte) (*corev1.Node, error) {
	if err := w.answers(ctx); err != nil {
		return nil, err
	}
	w.call("patch node")
	w.writes = append(w.writes, "node")
	w.node = patched(w.t, w.node, data)
	w.call("patched node")
	return w.node.DeepCopy(), nil
}

func (w *world) PatchPodStatus(ctx context.Context, pod *corev1.Pod, data []byte) error {
	if err := w.answers(ctx); err != nil {
		return err
	}
	w.call("patch pod")
	w.writes = append(w.writes, pod.Name)
	for i, p := range w.pods {
		if p.UID == pod.UID {
			w.pods[i] = patched(w.t, p, data)
		}
	}
	w.call("patched pod")
	return nil
}

func (w *world) Event(about *corev1.ObjectReference, kind, reason, message string) {
	w.told = append(w.told, about.Kind+" "+about.Name+": "+kind+" "+reason+": "+message)
}

// patched applies a strategic-merge patch as the API server does.
func patched[T any](t *testing.T, object *T, patch []byte) *T {
	t.Helper()
	original, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, *object)
	if err != nil {
		t.Fatalf("patch %s: %v", patch, err)
	}
	out := new(T)
	if err := json.Unmarshal(merged, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A told is a condition without its times.
type told struct{ Status, Reason, Message string }

func (w *world) ofNode() told {
	for _, c := range w.node.Status.Conditions {
		if c.Type == v1alpha1.GPUHealthy {
			return told{string(c.Status), c.Reason, c.Message}
		}
	}
	return told{}
}

func (w *world) ofPod(i int) told {
	if c := podCondition(w.pods[i]); c != nil {
		return told{string(c.Status), c.Reason, c.Message}
	}
	return told{}
}

func (w *world) held(i int) bool {
	_, held := w.pods[i].Annotations[v1alpha1.HoldDevice]
	return held
}

func (w *world) offersGPUs() {
	w.node.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
}
