package verb_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	restclient "k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

// newNodeBench has a node with two GPUs, a Pod that was given one, and the agent.
func newNodeBench(t *testing.T) *bench {
	t.Helper()
	u := ordered(1, v1alpha1.StageInService)
	u.Status.Containers = []v1alpha1.ContainerReport{{Name: "engine", Planned: 1}}
	b := newBench(t, u)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-uid"}}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.GPUHealthy, Status: corev1.ConditionTrue, Reason: "Healthy", Message: "2 GPUs"}}
	engine := pod()
	engine.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	agent := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pitstop-system", Name: "agent-x", Labels: map[string]string{
			"app.kubernetes.io/name": "pitstop", "app.kubernetes.io/component": "agent",
		}},
		Spec:   corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	cpu := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cpu-only"}}
	for _, o := range []interface {
		metav1.Object
		runtime.Object
	}{n, cpu, agent} {
		if err := b.core.Tracker().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.core.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), engine, "ns"); err != nil {
		t.Fatal(err)
	}
	return b
}

// answer is what the agent says.
type answer struct {
	data []byte
	err  error
}

func (a answer) DoRaw(context.Context) ([]byte, error) { return a.data, a.err }

func (a answer) Stream(context.Context) (io.ReadCloser, error) {
	return nil, errors.New("not asked for")
}

func (b *bench) agentSays(t *testing.T, a answer) {
	t.Helper()
	b.core.AddProxyReactor("pods", func(action clienttesting.Action) (bool, restclient.ResponseWrapper, error) {
		get, ok := action.(clienttesting.ProxyGetAction)
		if !ok || get.GetName() != "agent-x" || get.GetPort() != "9464" || get.GetPath() != "/v1/states" || action.GetNamespace() != "pitstop-system" {
			t.Errorf("asked %+v", action)
		}
		return true, a, nil
	})
}

func TestNode(t *testing.T) {
	b := newNodeBench(t)
	device := states.Device{
		Memory: &gpu.Memory{Total: 100, Used: 70}, Pods: []string{"ns/engine-0"},
		Residents: []states.Resident{{PID: 42, Name: "python3", Pod: "ns/engine-0", Container: "engine", UsedMiB: 69}},
		Verdict:   health.Verdict{UUID: "GPU-a", Status: corev1.ConditionTrue, Reason: v1alpha1.GPUTrueHealthy},
	}
	data, err := json.Marshal(states.States{GPUs: states.GPUs{Driver: "570", PodsKnown: true, ResidentsKnown: true, Devices: []states.Device{device}}})
	if err != nil {
		t.Fatal(err)
	}
	b.agentSays(t, answer{data: data})
	b.want(t, b.run(t.Context(), "node", "node-a"), 0)
	b.printed(t, `Node node-a  GPUHealthy=True (Healthy)  offers 2 nvidia.com/gpu  driver 570
  1 GPUs

  GPU  UUID   MEMORY      HEALTHY  POD          HOLDS MEMORY
  0    GPU-a  70/100 MiB  True     ns/engine-0  ns/engine-0 engine: python3 (42) 69 MiB

  POD          ASKS FOR          READY  GPUS HEALTHY  STAGE      PLANNED  CRASHED  PEER  RESTARTS  HELD BY
  ns/engine-0  1 nvidia.com/gpu  yes    True          InService  1        0        0     0         -
`)
	b.want(t, b.run(t.Context(), "node", "node-a", "-o", "json"), 0)
	var view struct {
		Node string
		GPUs struct {
			Devices []struct{ Residents []struct{ PID int } }
		}
	}
	if err := json.Unmarshal(b.out.Bytes(), &view); err != nil || view.Node != "node-a" || view.GPUs.Devices[0].Residents[0].PID != 42 {
		t.Errorf("printed %s, %v", b.out, err)
	}
	b.wroteNothing(t)
}

func TestNodeWithoutItsAgent(t *testing.T) {
	b := newNodeBench(t)
	b.agentSays(t, answer{err: errors.New("connection refused")})
	b.want(t, b.run(t.Context(), "node", "node-a"), 0)
	for _, want := range []string{"! the agent could not be asked", "ask pod pitstop-system/agent-x: connection refused", "ns/engine-0  1 nvidia.com/gpu"} {
		if !strings.Contains(b.out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, b.out)
		}
	}
	if err := b.core.CoreV1().Pods("pitstop-system").Delete(t.Context(), "agent-x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.want(t, b.run(t.Context(), "node", "node-a"), 0)
	if !strings.Contains(b.out.String(), "no Pod of the agent runs there") {
		t.Errorf("output %s", b.out)
	}
}

func TestNodes(t *testing.T) {
	b := newNodeBench(t)
	b.want(t, b.run(t.Context(), "node"), 0)
	b.printed(t, `  NODE    OFFERS            GPUS HEALTHY  REASON   FOR  PODS  MESSAGE
  node-a  2 nvidia.com/gpu  True          Healthy  -    1     2 GPUs
`)
	b.want(t, b.run(t.Context(), "node", "-o", "json"), 0)
	if !strings.Contains(b.out.String(), `"items"`) {
		t.Errorf("printed %s", b.out)
	}
	b = newBench(t)
	b.want(t, b.run(t.Context(), "node"), 0, "no node is known to have GPUs")
}

func TestNodeIsRefused(t *testing.T) {
	b := newNodeBench(t)
	b.want(t, b.run(t.Context(), "node", "nowhere"), 1, "node nowhere does not exist")
	b.want(t, b.run(t.Context(), "gpu", "release", "nowhere", "--for", "1m"), 1, "node nowhere does not exist")
	for _, args := range [][]string{{}, {"--for", "1m", "--end"}, {"--for", "61m"}, {"--for", "-1m"}, {"--for", "1ms"}} {
		b.want(t, b.run(t.Context(), append([]string{"gpu", "release", "node-a"}, args...)...), 2)
	}
	for name, one := range map[string]struct {
		args []string
		says string
	}{
		"no node":                     {nil, "NODE is missing: kubectl pitstop gpu release NODE --for DURATION"},
		"two nodes":                   {[]string{"a", "b"}, "2 arguments where one NODE is wanted"},
		"a length of nothing":         {[]string{"node-a", "--for", "0"}, "from 1m to 1h is possible"},
		"too long, as it was written": {[]string{"node-a", "--for", "2h"}, `"2h" for "--for" flag: from 1m to 1h`},
		"no unit":                     {[]string{"node-a", "--for", "10"}, `"10" is no duration; write 10m`},
		"over before it is seen":      {[]string{"node-a", "--for", "59s"}, `"59s" for "--for" flag: from 1m to 1h is possible: a shorter one may be over before the agent, which looks every 20 s, has let go`},
		"neither":                     {[]string{"node-a"}, "say either --for DURATION or --end"},
	} {
		t.Run(name, func(t *testing.T) {
			b.want(t, b.run(t.Context(), append([]string{"gpu", "release"}, one.args...)...), 2, one.says)
		})
	}
	b.want(t, b.run(t.Context(), "gpu"), 0)
	b.forbid("get", "nodes")
	b.want(t, b.run(t.Context(), "node", "node-a"), 1, "you may not get nodes", "the whole cluster")
	b.wroteNothing(t)
}

func TestGPURelease(t *testing.T) {
	b := newNodeBench(t)
	value := func() (string, bool) {
		n, err := b.core.CoreV1().Nodes().Get(t.Context(), "node-a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v, ok := n.Annotations[v1alpha1.AnnotationGPURelease]
		return v, ok
	}
	b.want(t, b.run(t.Context(), "gpu", "release", "node-a", "--for", "10m"), 0)
	b.printed(t, "node node-a: the agent lets go of the GPU driver within half a minute, until 2026-01-02T15:10:00Z; `kubectl pitstop node node-a` says when it has\n")
	if v, _ := value(); v != "2026-01-02T15:10:00Z" {
		t.Errorf("the annotation says %q", v)
	}
	b.want(t, b.run(t.Context(), "gpu", "release", "node-a", "--for", "1h", "-o", "json"), 0)
	for _, want := range []string{`"until": "2026-01-02T16:00:00Z"`, "this is longer than what was asked for before, which was until 2026-01-02T15:10:00Z"} {
		if !strings.Contains(b.out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, b.out)
		}
	}
	b.want(t, b.run(t.Context(), "gpu", "release", "node-a", "--end"), 0)
	b.printed(t, "node node-a: the agent takes the GPU driver again, within half a minute\n")
	b.want(t, b.run(t.Context(), "gpu", "release", "node-a", "--end"), 0)
	b.printed(t, "node node-a: no release of the GPU driver is asked for, so there is none to end\n")
	if v, there := value(); there {
		t.Errorf("the annotation is still there: %q", v)
	}
	b.forbid("patch", "nodes")
	b.want(t, b.run(t.Context(), "gpu", "release", "node-a", "--for", "1m"), 1, "may not patch nodes")
}

func TestGPUReleaseWhereNoAgentIs(t *testing.T) {
	b := newNodeBench(t)
	b.want(t, b.run(t.Context(), "gpu", "release", "cpu-only", "--for", "10m"), 1, "node cpu-only has no live agent", "nothing was written")
	b.wroteNothing(t)
	b.forbid("get", "leases")
	b.forbid("list", "inplaceupdates")
	b.want(t, b.run(t.Context(), "gpu", "release", "node-a", "--for", "10m"), 0)
	for _, want := range []string{"warning: whether an agent is alive there is not known", "warning: whether updates are under way there is not known"} {
		if !strings.Contains(b.out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, b.out)
		}
	}
}
