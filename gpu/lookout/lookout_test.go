package lookout

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// of gives the devices to a resource of another name.
func of(resource string, a attribution.Assignments) attribution.Assignments {
	for i := range a.List[0].Devices {
		a.List[0].Devices[i].Resource = resource
	}
	return a
}

func unsure(a attribution.Assignments) attribution.Assignments {
	a.Confidence, a.Reason, a.Message = attribution.Unknown, attribution.Unconfirmed, "new"
	return a
}

// asking is a Pod whose container engine asks for two GPUs, and which has an init container that has ended.
func asking() *corev1.Pod {
	limits := func(n string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n), "cpu": resource.MustParse("8")}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "engine-0"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "fetch", Resources: limits("1")}},
			Containers:     []corev1.Container{{Name: "engine", Resources: limits("2")}},
		},
	}
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
			node{up(device(one)), of("example.com/rdma", given("mlx5_0")), nil}, residency.Sample{State: gpu.Up},
		},
		"a GPU whose id is not understood is one that is not known": {
			node{up(device(one)), given("0", one), []attribution.Holders{held(one)}},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{
				{Name: "0", Fault: "it is not known which device 0 of nvidia.com/gpu is"}, {UUID: one, Memory: memory},
			}},
		},
		"two of them are two": {
			node{up(device(one)), of("nvidia.com/mig-1g.18gb", given("0:0", "0:1")), nil},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{
				{Name: "0:0", Fault: "it is not known which device 0:0 of nvidia.com/mig-1g.18gb is"}, {Name: "0:1", Fault: "it is not known which device 0:1 of nvidia.com/mig-1g.18gb is"},
			}},
		},
		"a GPU by a number that the driver does not have now": {
			node{up(device(one)), given("nvidia7"), nil},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{Name: "nvidia7", Fault: "it is not known which device nvidia7 is: the driver has none of that name now"}}},
		},
		"a MIG device by a number, of a GPU that does not tell its parts now": {
			node{up(device(one)), given("MIG-" + one + "/3/0"), nil},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{Name: "MIG-" + one + "/3/0", Fault: "it is not known which device MIG-" + one + "/3/0 is: the driver has none of that name now"}}},
		},
		"a MIG device that the driver does not have": {
			node{up(device(one)), given(mig + "::0"), nil},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: mig, Shared: true, Fault: "the driver has no device " + mig + "::0"}}},
		},
		"a Pod that kubelet is sure to have given none": {
			node{up(device(one)), attribution.Assignments{Confidence: attribution.Known}, nil}, residency.Sample{State: gpu.Up},
		},
		"one of which it is not sure": {
			node{up(device(one)), attribution.Assignments{Confidence: attribution.Unknown, Reason: attribution.KubeletStarting, Message: "just now"}, nil},
			residency.Sample{State: gpu.Up, Fault: "it is not known which GPUs the Pod has: KubeletStarting: just now"},
		},
		"what is listed counts while it is not sure, and may not be all": {
			node{up(device(one)), unsure(given(one)), []attribution.Holders{held(one)}},
			residency.Sample{State: gpu.Up, Partial: true, Devices: []residency.Device{{UUID: one, Memory: memory}}},
		},
		"it is all if there are as many as the containers ask for": {
			node{up(device(one), device(two)), unsure(given(one, two)), []attribution.Holders{held(one), held(two)}},
			residency.Sample{State: gpu.Up, Devices: []residency.Device{{UUID: one, Memory: memory}, {UUID: two, Memory: memory}}},
		},
		"a Pod of whose devices only another kind is listed has not been told its GPUs": {
			node{up(device(one)), unsure(of("example.com/rdma", given("mlx5_0"))), nil},
			residency.Sample{State: gpu.Up, Fault: "it is not known which GPUs the Pod has: Unconfirmed: new"},
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
		"a probe that does not answer, of devices that are no GPUs": {
			node{gpu.Reading{At: time.Unix(100, 0), State: gpu.Unknown, Message: "no"}, of("example.com/rdma", given("mlx5_0")), nil}, residency.Sample{State: gpu.Up},
		},
		"a driver that is released": {
			node{gpu.Reading{At: time.Unix(100, 0), State: gpu.Released, Message: "until noon"}, given(one), nil},
			residency.Sample{State: gpu.Released, Fault: "the GPU driver is released until noon"},
		},
		"a driver that is released, of devices that are no GPUs": {
			node{gpu.Reading{At: time.Unix(100, 0), State: gpu.Released}, of("example.com/rdma", given("mlx5_0")), nil}, residency.Sample{State: gpu.Up},
		},
		"a node without GPUs": {
			node{reading: gpu.Reading{At: time.Unix(100, 0), State: gpu.Absent}}, residency.Sample{State: gpu.Absent},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.At, tt.want.BootID = time.Unix(100, 0), "boot"
			l := Lookout{Reader: tt.node, Assigned: assigned{tt.node.assigned}, Attributor: tt.node, BootID: "boot"}
			got, err := l.Look(t.Context(), asking())
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("Look() = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
