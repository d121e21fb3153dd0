package lookout

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
	"pitstop.dev/gpu/residency"
)

const (
	one = "GPU-00000000-0000-0000-0000-000000000001"
	two = "GPU-00000000-0000-0000-0000-000000000002"
	mig = "MIG-00000000-0000-0000-0000-000000000003"
)

// A node is what the parts of a Lookout say.
type node struct {
	reading  gpu.Reading
	assigned attribution.Assignments
	holders  []attribution.Holders
}

func (n node) Read(context.Context) gpu.Reading { return n.reading }

func (n node) Events(uint64) []gpu.Event { return nil }

func (n node) Attribute(context.Context, gpu.Reading) ([]attribution.Holders, bool) {
	return n.holders, true
}

type assigned struct{ attribution.Assignments }

func (a assigned) Read(context.Context) attribution.Assignments { return a.Assignments }

func given(ids ...string) attribution.Assignments {
	a := attribution.Assignments{Confidence: attribution.Known}
	one := attribution.Assignment{Pod: attribution.PodName{Namespace: "ns", Name: "engine-0"}, Container: "engine"}
	for _, id := range ids {
		d := attribution.Assigned{Resource: "nvidia.com/gpu", ID: id}
		if r, ok := attribution.ParseDeviceID(id); ok {
			d.Ref = &r
		}
		one.Devices = append(one.Devices, d)
	}
	a.List = append(a.List, one)
	return a
}

func up(devices ...gpu.Device) gpu.Reading {
	return gpu.Reading{At: time.Unix(100, 0), State: gpu.Up, Devices: devices}
}

func device(uuid string) gpu.Device {
	return gpu.Device{UUID: uuid, Minor: -1, Memory: &gpu.Memory{Version: 2, Total: 100, Used: 50}}
}

func held(uuid string, list ...attribution.Holder) attribution.Holders {
	return attribution.Holders{UUID: uuid, Known: true, List: list}
}

func process(pid int32, outcome attribution.Outcome, why attribution.Reason) attribution.Holder {
	return attribution.Holder{Identity: attribution.Identity{PID: pid, Start: 7}, MiB: 5, Outcome: outcome, Reason: why}
}

func TestLook(t *testing.T) {
	memory := &gpu.Memory{Version: 2, Total: 100, Used: 50}
	ours := process(1, attribution.Attributed, "")
	ours.PodUID, ours.ContainerID, ours.Command = "pod", "c", "python"
	parted := device(one)
	parted.MIG = []gpu.MIG{{UUID: mig, GI: 3, Memory: &gpu.Memory{Version: 2, Used: 9}}}
	on := func(h attribution.Holder, mig string) attribution.Holder { h.MIG = mig; return h }
	for name, tt := range map[string]struct {
		node node
		want residency.Sample
	}{
		"the Pod's GPUs alone": {
			node{up(device(one), device(two)), given(two), []attribution.Holders{held(one, process(9, attribution.Attributed, "")), held(two, ours)}},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: two, Memory: memory, Holders: []residency.Holder{
				{PID: 1, Started: 7, Command: "python", MiB: 5, Ownership: residency.Contained, PodUID: "pod", ContainerID: "c"},
			}}}},
		},
		"whose a process is": {
			node{up(device(one)), given(one), []attribution.Holders{held(one,
				process(2, attribution.Unattributed, attribution.OnHost), process(3, attribution.Unattributed, attribution.UnknownContainer),
				process(4, attribution.Unattributed, attribution.NotInProcfs), process(5, attribution.Unattributed, attribution.InPod),
				process(0, attribution.Unattributed, attribution.Untold), process(6, attribution.Undecided, attribution.Disagreement),
			)}},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: one, Memory: memory, Holders: []residency.Holder{
				{PID: 2, Started: 7, MiB: 5, Ownership: residency.Outside},
				{PID: 3, Started: 7, MiB: 5, Ownership: residency.Contained},
				{PID: 4, Started: 7, MiB: 5, Ownership: residency.Ghost},
				{PID: 5, Started: 7, MiB: 5, Ownership: residency.Undecided},
				{PID: 0, Started: 7, MiB: 5, Ownership: residency.Undecided},
				{PID: 6, Started: 7, MiB: 5, Ownership: residency.Undecided},
			}}}},
		},
		"two slices of one GPU are one, which is shared": {
			node{up(device(one)), given(one+"::0", one+"::1"), []attribution.Holders{held(one)}},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: one, Shared: true, Memory: memory}}},
		},
		"a MIG device with its own memory and processes": {
			node{up(parted), given(mig), []attribution.Holders{held(one, on(ours, mig), on(process(8, attribution.Attributed, ""), "MIG-other"), process(9, attribution.Attributed, ""))}},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: mig, Memory: &gpu.Memory{Version: 2, Used: 9}, Holders: []residency.Holder{
				{PID: 1, Started: 7, Command: "python", MiB: 5, Ownership: residency.Contained, PodUID: "pod", ContainerID: "c"},
				{PID: 9, Started: 7, MiB: 5, Ownership: residency.Undecided},
			}}}},
		},
		"devices of another kind are none": {
			node{up(device(one)), given("mlx5_0"), nil}, residency.Sample{State: gpu.Up},
		},
		"a Pod that kubelet is sure to have given none": {
			node{up(device(one)), attribution.Assignments{Confidence: attribution.Known}, nil}, residency.Sample{State: gpu.Up},
		},
		"one of which it is not sure": {
			node{up(device(one)), attribution.Assignments{Confidence: attribution.Unknown, Reason: attribution.KubeletStarting, Message: "just now"}, nil},
			residency.Sample{State: gpu.Up, Fault: "it is not known which GPUs the Pod has: KubeletStarting: just now"},
		},
		"what is listed counts while it is not sure": {
			node{up(device(one)), attribution.Assignments{Confidence: attribution.Unknown, List: given(one).List}, []attribution.Holders{held(one)}},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: one, Memory: memory}}},
		},
		"a GPU that the driver does not have": {
			node{up(device(one)), given(two), nil},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: two, Fault: "the driver has no device " + two}}},
		},
		"a GPU that is lost": {
			node{up(gpu.Device{UUID: one, Lost: true}), given(one), nil},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: one, Fault: one + " is lost: it does not answer any more"}}},
		},
		"processes that could not be read": {
			node{up(device(one)), given(one), []attribution.Holders{{UUID: one, Fault: "code 999"}}},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: one, Memory: memory, Fault: one + ": code 999"}}},
		},
		"a probe that does not answer": {
			node{reading: gpu.Reading{At: time.Unix(100, 0), State: gpu.Unknown, Message: "the probe does not answer"}},
			residency.Sample{State: gpu.Unknown, Fault: "the probe does not answer"},
		},
		"a node without GPUs": {
			node{reading: gpu.Reading{At: time.Unix(100, 0), State: gpu.Absent}}, residency.Sample{State: gpu.Absent},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.At, tt.want.BootID = time.Unix(100, 0), "boot"
			l := Lookout{Reader: tt.node, Assigned: assigned{tt.node.assigned}, Attributor: tt.node, BootID: "boot"}
			got, err := l.Look(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "engine-0"}})
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("Look() = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
