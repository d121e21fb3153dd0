package residency

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/gpu"
)

func TestTake(t *testing.T) {
	s := sample(0, holds(first, process(1, "e-old", 40000), process(3, "s-old", 30000), foreign(100)), holds(second, process(2, "e-old", -1)))
	got, ok := Take(s, "pod")
	want := Baseline{
		BootID: "boot",
		GPUs:   []Usage{{UUID: first, Memory: s.Devices[0].Memory, OwnMiB: 70000}, {UUID: second, Memory: s.Devices[1].Memory, OwnMiB: -1}},
		Processes: []Process{
			{PID: 1, Started: 10, ContainerID: "e-old", GPU: first, MiB: 40000},
			{PID: 3, Started: 30, ContainerID: "s-old", GPU: first, MiB: 30000},
			{PID: 2, Started: 20, ContainerID: "e-old", GPU: second, MiB: -1},
		},
	}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("Take() = %t (-want +got):\n%s", ok, diff)
	}
	for name, s := range map[string]Sample{
		"a look that failed":         failed(0),
		"a GPU that cannot be read":  sample(0, holds(first), Device{UUID: second, Fault: "code 15"}),
		"a Pod without GPUs":         sample(0),
		"a GPU that cannot be told":  sample(0, holds(first), Device{Fault: "it is not known which device nvidia0 is"}),
		"a list that may lack some":  {State: gpu.Up, BootID: "boot", Partial: true, Devices: []Device{holds(first)}},
		"a node without the library": {State: gpu.Absent},
	} {
		if b, ok := Take(s, "pod"); ok {
			t.Errorf("%s makes a baseline: %+v", name, b)
		}
	}
}
