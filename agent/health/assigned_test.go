package health

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
)

type listed attribution.Assignments

func (l *listed) Read(context.Context) attribution.Assignments { return attribution.Assignments(*l) }

func ref(id string) *attribution.Ref {
	if r, ok := attribution.ParseDeviceID(id); ok {
		return &r
	}
	return nil
}

func TestTheGPUsOfPodsAreKubelets(t *testing.T) {
	const (
		a = "GPU-11111111-1111-1111-1111-111111111111"
		b = "GPU-22222222-2222-2222-2222-222222222222"
		m = "MIG-33333333-3333-3333-3333-333333333333"
	)
	reading := gpu.Reading{State: gpu.Up, Devices: []gpu.Device{{UUID: a, Minor: 0}, {UUID: b, Minor: 1, MIG: []gpu.MIG{{UUID: m}}}}}
	assigned := func(container, resource string, ids ...string) attribution.Assignment {
		out := attribution.Assignment{Pod: attribution.PodName{Namespace: "ns", Name: "engine"}, Container: container}
		for _, id := range ids {
			out.Devices = append(out.Devices, attribution.Assigned{Resource: resource, ID: id, Ref: ref(id)})
		}
		return out
	}
	for name, tt := range map[string]struct {
		confidence attribution.Confidence
		list       []attribution.Assignment
		want       []string
		known      bool
	}{
		"none":                             {attribution.Known, nil, nil, true},
		"kubelet does not answer":          {attribution.Unknown, nil, nil, false},
		"what is listed by a doubtful one": {attribution.Unknown, []attribution.Assignment{assigned("engine", "nvidia.com/gpu", a)}, nil, false},
		"two GPUs in two containers":       {attribution.Known, []attribution.Assignment{assigned("engine", "nvidia.com/gpu", a), assigned("peer", "nvidia.com/gpu", b)}, []string{a, b}, true},
		"a time slice":                     {attribution.Known, []attribution.Assignment{assigned("engine", "nvidia.com/gpu", a+"::1", a+"::2")}, []string{a}, true},
		"a MIG device":                     {attribution.Known, []attribution.Assignment{assigned("engine", "nvidia.com/mig-1g.18gb", m)}, []string{m}, true},
		"a GPU by its number":              {attribution.Known, []attribution.Assignment{assigned("engine", "nvidia.com/gpu", "nvidia1")}, []string{b}, true},
		"a network card":                   {attribution.Known, []attribution.Assignment{assigned("engine", "example.com/rdma", "mlx5_0")}, nil, true},
		"a GPU that cannot be told":        {attribution.Known, []attribution.Assignment{assigned("engine", "nvidia.com/gpu", "odd")}, nil, false},
		"a GPU that the driver does not list": {attribution.Known, []attribution.Assignment{
			assigned("engine", "nvidia.com/gpu", "GPU-99999999-9999-9999-9999-999999999999"),
		}, []string{"GPU-99999999-9999-9999-9999-999999999999"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			engine := pod("engine")
			engine.Spec.Containers = []corev1.Container{{Name: "engine"}, {Name: "peer"}}
			l := &listed{Confidence: tt.confidence, List: tt.list}
			k := NewKubelet(l)
			want := map[types.UID][]string{}
			if tt.known {
				want["engine"] = tt.want
			}
			if diff := cmp.Diff(want, k.Assigned(t.Context(), []*corev1.Pod{engine}, reading)); diff != "" {
				t.Errorf("Assigned() (-want +got):\n%s", diff)
			}
			*l = listed{Confidence: attribution.Unknown}
			if diff := cmp.Diff(want, k.Assigned(t.Context(), []*corev1.Pod{engine}, gpu.Reading{State: gpu.Unknown})); diff != "" {
				t.Errorf("while kubelet is gone (-want +got):\n%s", diff)
			}
			other := pod("engine")
			other.UID = "another"
			if got := k.Assigned(t.Context(), []*corev1.Pod{other}, reading); len(got) > 0 {
				t.Errorf("another Pod of the name has %v", got)
			}
		})
	}
}

// procs answers for containers.
type procs map[string]attribution.Container

func (p procs) Container(_ context.Context, id string) (attribution.Container, error) {
	if c, ok := p[id]; ok {
		return c, nil
	}
	return attribution.Container{}, attribution.ErrUnknownContainer
}

func TestHoldersAreNamed(t *testing.T) {
	h := Holders{attribution.Attributor{Procfs: attribution.Procfs{Root: t.TempDir()}, Runtime: procs{}}}
	r := gpu.Reading{State: gpu.Up, Devices: []gpu.Device{
		{UUID: "GPU-0", Processes: gpu.Processes{Known: true, List: []gpu.Process{{PID: 42, UsedMiB: 70, GI: gpu.NoInstance, CI: gpu.NoInstance}}}},
	}}
	by, known := h.Residents(t.Context(), r)
	if len(by["GPU-0"]) != 1 || !strings.HasPrefix(by["GPU-0"][0].Doubt, "whose it is cannot be told: ") || !known {
		t.Fatalf("%+v, known %t", by, known)
	}
	by["GPU-0"][0].Doubt = ""
	if diff := cmp.Diff(map[string][]states.Resident{"GPU-0": {{PID: 42, UsedMiB: 70}}}, by); diff != "" {
		t.Errorf("residents (-want +got):\n%s", diff)
	}
	r.Devices[0].Processes.Known = false
	if _, known := h.Residents(t.Context(), r); known {
		t.Error("all are known, though a list could not be read")
	}
	if _, known := h.Residents(t.Context(), gpu.Reading{State: gpu.Unknown}); known {
		t.Error("all are known without a reading")
	}
}

func TestADoubtIsSaidInPlainWords(t *testing.T) {
	h := func(outcome attribution.Outcome, reason attribution.Reason, message string) attribution.Holder {
		return attribution.Holder{Outcome: outcome, Reason: reason, Message: message}
	}
	for name, tt := range map[string]struct {
		holder attribution.Holder
		want   string
	}{
		"none":                                {h(attribution.Attributed, "", ""), ""},
		"no PID":                              {h(attribution.Unattributed, attribution.Untold, "the driver gives no PID"), "the driver gives no PID"},
		"no process":                          {h(attribution.Unattributed, attribution.NotInProcfs, "process 42: no such process"), "it has ended, or is in another PID namespace"},
		"of the node":                         {h(attribution.Unattributed, attribution.OnHost, "in no Pod"), "in no Pod"},
		"of a container that was removed":     {h(attribution.Unattributed, attribution.UnknownContainer, "the runtime has no such container"), "the runtime has no such container"},
		"sources disagree":                    {h(attribution.Undecided, attribution.Disagreement, "control groups say Pod a"), "whose it is cannot be told: control groups say Pod a"},
		"a runtime that does not answer":      {h(attribution.Undecided, attribution.Unreadable, "no answer"), "whose it is cannot be told: no answer"},
		"a runtime that says nothing of this": {h(attribution.Undecided, attribution.Unreadable, ""), "whose it is cannot be told"},
		"nothing more is said":                {h(attribution.Unattributed, attribution.InPod, ""), "whose it is cannot be told"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := doubtOf(tt.holder); got != tt.want {
				t.Errorf("doubtOf() = %q, want %q", got, tt.want)
			}
		})
	}
}
