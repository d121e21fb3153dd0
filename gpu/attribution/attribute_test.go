package attribution_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
)

// containers is a runtime.
type containers map[string]attribution.Container

var errDown = errors.New("runtime down")

func (c containers) Container(_ context.Context, id string) (attribution.Container, error) {
	if _, down := c["down"]; down {
		return attribution.Container{}, errDown
	}
	is, ok := c[id]
	if !ok {
		return attribution.Container{}, fmt.Errorf("container %s: %w", id, attribution.ErrUnknownContainer)
	}
	return is, nil
}

func in(pod, container string) string {
	return "0::/kubepods/burstable/pod" + pod + "/" + container + "\n"
}

func TestAttribute(t *testing.T) {
	processes := map[int32]proc{
		10: {command: "engine", cgroup: in(podUID, id("a"))},
		11: {command: "worker", cgroup: in(podUID, id("a"))},
		20: {command: "daemon", cgroup: "0::/system.slice/nvidia-persistenced.service\n"},
		30: {command: "engine", cgroup: in(outerUID, id("b"))},
		40: {command: "runsc-sandbox", cgroup: "0::/kubepods/pod" + podUID + "\n"},
		50: {command: "odd", cgroup: "0::/kubepods/burstable\n"},
		60: {command: "nested", cgroup: "0::/kubepods/pod" + outerUID + "/" + id("d") + "/kubepods/pod" + podUID + "/" + id("a")},
		70: {command: "gone", state: "Z", threads: 1, cgroup: in(podUID, id("a"))},
		71: {command: "stuck", state: "Z", threads: 2, cgroup: in(podUID, id("a"))},
		72: {command: "gone", state: "Z", threads: 1, cgroup: "0::/\n"},
		80: {command: "peer", cgroup: "0::/../" + id("a")},
	}
	engine := containers{id("a"): {PodUID: podUID, Name: "engine", PID: 10}}
	attributed := func(pid int32, command string) attribution.Holder {
		return attribution.Holder{
			Identity: attribution.Identity{PID: pid, Boot: boot}, Command: command, Outcome: attribution.Attributed,
			PodUID: podUID, ContainerID: id("a"), Container: "engine",
		}
	}
	other := func(h attribution.Holder, o attribution.Outcome, r attribution.Reason) attribution.Holder {
		h.Outcome, h.Reason, h.Container = o, r, ""
		return h
	}
	nowhere := func(pid int32, command string) attribution.Holder {
		return attribution.Holder{Identity: attribution.Identity{PID: pid, Boot: boot}, Command: command}
	}
	for name, tt := range map[string]struct {
		pid     int32
		runtime containers
		want    attribution.Holder
	}{
		"the first process of a container":  {10, engine, attributed(10, "engine")},
		"another one":                       {11, engine, attributed(11, "worker")},
		"one whose container has ended":     {11, containers{id("a"): {PodUID: podUID, Name: "engine"}}, attributed(11, "worker")},
		"one whose first process has gone":  {11, containers{id("a"): {PodUID: podUID, Name: "engine", PID: 99}}, attributed(11, "worker")},
		"one whose first process is dead":   {11, containers{id("a"): {PodUID: podUID, Name: "engine", PID: 72}}, attributed(11, "worker")},
		"a runtime that tells no Pod":       {10, containers{id("a"): {Name: "engine", PID: 10}}, attributed(10, "engine")},
		"a Pod that only the runtime tells": {80, engine, attributed(80, "peer")},
		"in a kubelet in a Pod of another":  {60, engine, attributed(60, "nested")},
		"a zombie whose threads still run":  {71, engine, attributed(71, "stuck")},
		"a zombie":                          {70, engine, func() attribution.Holder { h := attributed(70, "gone"); h.Ended = true; return h }()},
		"no PID":                            {0, engine, attribution.Holder{Outcome: attribution.Unattributed, Reason: attribution.Untold}},
		"a PID that is not there":           {5, engine, attribution.Holder{Identity: attribution.Identity{PID: 5}, Outcome: attribution.Unattributed, Reason: attribution.NotInProcfs}},
		"a process of the node":             {20, engine, other(nowhere(20, "daemon"), attribution.Unattributed, attribution.OnHost)},
		"a container of another node": {30, engine, other(func() attribution.Holder {
			h := nowhere(30, "engine")
			h.PodUID, h.ContainerID = outerUID, id("b")
			return h
		}(), attribution.Unattributed, attribution.UnknownContainer)},
		"in a Pod, in no container":       {40, engine, other(func() attribution.Holder { h := nowhere(40, "runsc-sandbox"); h.PodUID = podUID; return h }(), attribution.Unattributed, attribution.InPod)},
		"unclear control groups":          {50, engine, other(nowhere(50, "odd"), attribution.Undecided, attribution.Disagreement)},
		"a zombie without control groups": {72, engine, other(func() attribution.Holder { h := nowhere(72, "gone"); h.Ended = true; return h }(), attribution.Undecided, attribution.Unreadable)},
		"the runtime says another Pod":    {10, containers{id("a"): {PodUID: outerUID, Name: "engine", PID: 10}}, other(attributed(10, "engine"), attribution.Undecided, attribution.Disagreement)},
		"the runtime's process is elsewhere": {11, containers{id("a"): {PodUID: podUID, Name: "engine", PID: 30}}, func() attribution.Holder {
			h := attributed(11, "worker")
			h.Outcome, h.Reason = attribution.Undecided, attribution.Disagreement
			return h
		}()},
		"the runtime knows both": {60, containers{id("a"): {}, id("d"): {}}, other(attributed(60, "nested"), attribution.Undecided, attribution.Disagreement)},
		"the runtime is down":    {10, containers{"down": {}}, other(attributed(10, "engine"), attribution.Undecided, attribution.Unreadable)},
	} {
		t.Run(name, func(t *testing.T) {
			reading := gpu.Reading{State: gpu.Up, Devices: []gpu.Device{{UUID: gpuA, Processes: gpu.Processes{
				Known: true, List: []gpu.Process{{PID: tt.pid, UsedMiB: 7, GI: none, CI: none}},
			}}}}
			got, known := attribution.Attributor{Procfs: procfs(t, processes), Runtime: tt.runtime}.Attribute(t.Context(), reading)
			tt.want.MiB = 7
			want := []attribution.Holders{{UUID: gpuA, Known: true, List: []attribution.Holder{tt.want}}}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(attribution.Holder{}, "Message")); diff != "" || !known {
				t.Errorf("known %t (-want +got):\n%s", known, diff)
			}
			if h := got[0].List[0]; (h.Message == "") != (h.Outcome == attribution.Attributed) || (h.Reason == "") != (h.Outcome == attribution.Attributed) {
				t.Errorf("%s, %q %q", h.Outcome, h.Reason, h.Message)
			}
		})
	}
}

func TestAttributeWithoutProcfs(t *testing.T) {
	a := attribution.Attributor{Procfs: attribution.Procfs{Root: t.TempDir()}, Runtime: containers{}}
	got, known := a.Attribute(t.Context(), gpu.Reading{State: gpu.Up, Devices: []gpu.Device{{Processes: gpu.Processes{Known: true, List: []gpu.Process{{PID: 1}}}}}})
	if h := got[0].List[0]; !known || h.Outcome != attribution.Undecided || h.Reason != attribution.Unreadable {
		t.Errorf("%+v", h)
	}
}

func TestAttributeSaysWhichListsItHad(t *testing.T) {
	known := gpu.Processes{Known: true}
	for name, tt := range map[string]struct {
		state  gpu.State
		device gpu.Device
		known  bool
		fault  string
	}{
		"all lists":             {gpu.Up, gpu.Device{Processes: known}, true, ""},
		"a list failed":         {gpu.Up, gpu.Device{Processes: gpu.Processes{Fault: "MPS: no"}}, false, "MPS: no"},
		"a list was not read":   {gpu.Up, gpu.Device{}, false, "processes unknown"},
		"a lost device":         {gpu.Up, gpu.Device{Lost: true, Processes: known}, false, "the device is lost"},
		"a device with a fault": {gpu.Up, gpu.Device{Fault: "code 999", Processes: known}, false, "code 999"},
		"a MIG device":          {gpu.Up, gpu.Device{Processes: known, MIG: []gpu.MIG{{UUID: migA, Processes: gpu.Processes{Fault: "no"}}}}, false, migA + ": no"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := attribution.Attributor{Procfs: procfs(t, nil), Runtime: containers{}}.Attribute(t.Context(), gpu.Reading{State: tt.state, Devices: []gpu.Device{tt.device}})
			if got[0].Known != tt.known || got[0].Fault != tt.fault {
				t.Errorf("%+v", got[0])
			}
		})
	}
	for state, want := range map[gpu.State]bool{gpu.Absent: true, gpu.Unknown: false, gpu.Released: false, "": false} {
		if got, known := (attribution.Attributor{}).Attribute(t.Context(), gpu.Reading{State: state}); got != nil || known != want {
			t.Errorf("%q: %v, known %t", state, got, known)
		}
	}
}

func TestUnion(t *testing.T) {
	d := gpu.Device{
		Processes: gpu.Processes{List: []gpu.Process{
			{PID: 1, UsedMiB: -1, GI: 3, CI: 0}, {PID: 2, UsedMiB: 5, GI: none, CI: none}, {PID: 0, UsedMiB: 1, GI: none, CI: none}, {PID: 0, UsedMiB: 1, GI: none, CI: none},
		}},
		MIG: []gpu.MIG{
			{UUID: migA, GI: 3, Processes: gpu.Processes{List: []gpu.Process{{PID: 1, UsedMiB: 9, GI: none, CI: none}}}},
			{UUID: migB, GI: 5, Processes: gpu.Processes{List: []gpu.Process{{PID: 1, UsedMiB: 4, GI: 5, CI: 0}}}},
		},
	}
	if diff := cmp.Diff([]gpu.Process{
		{PID: 0, UsedMiB: 1, GI: none, CI: none},
		{PID: 0, UsedMiB: 1, GI: none, CI: none},
		{PID: 1, UsedMiB: 9, GI: 3, CI: 0},
		{PID: 1, UsedMiB: 4, GI: 5, CI: 0},
		{PID: 2, UsedMiB: 5, GI: none, CI: none},
	}, attribution.Union(d)); diff != "" {
		t.Errorf("Union() (-want +got):\n%s", diff)
	}
	got, _ := attribution.Attributor{Procfs: procfs(t, nil), Runtime: containers{}}.Attribute(t.Context(), gpu.Reading{State: gpu.Up, Devices: []gpu.Device{d}})
	var on []string
	for _, h := range got[0].List {
		on = append(on, h.MIG)
	}
	if diff := cmp.Diff([]string{"", "", migA, migB, ""}, on); diff != "" {
		t.Errorf("MIG devices (-want +got):\n%s", diff)
	}
}

// Whatever the sources say, each process that the driver lists is a holder, and one is attributed only to a
// container that the runtime knows and that its control groups name.
func TestNoHolderIsLostOrInvented(t *testing.T) {
	ids := []string{id("a"), id("b"), id("c")}
	rapid.Check(t, func(rt *rapid.T) {
		processes := map[int32]proc{}
		for pid := int32(1); pid < 5; pid++ {
			if rapid.Bool().Draw(rt, "there") {
				processes[pid] = proc{command: "x", cgroup: rapid.OneOf(
					rapid.SampledFrom([]string{"", "0::/", "0::/kubepods", in(podUID, id("a")), in(podUID, id("b")), in(outerUID, id("c"))}),
				).Draw(rt, "cgroup")}
			}
		}
		runtime := containers{}
		for _, c := range ids {
			if rapid.Bool().Draw(rt, "known") {
				runtime[c] = attribution.Container{
					PodUID: rapid.SampledFrom([]string{podUID, outerUID, ""}).Draw(rt, "uid"), Name: "n", PID: rapid.Int32Range(0, 5).Draw(rt, "first"),
				}
			}
		}
		var d gpu.Device
		d.Processes.Known = true
		for _, pid := range rapid.SliceOfN(rapid.Int32Range(0, 5), 0, 6).Draw(rt, "listed") {
			d.Processes.List = append(d.Processes.List, gpu.Process{PID: pid, UsedMiB: 1, GI: none, CI: none})
		}
		got, _ := attribution.Attributor{Procfs: procfs(t, processes), Runtime: runtime}.Attribute(t.Context(), gpu.Reading{State: gpu.Up, Devices: []gpu.Device{d}})
		held := map[int32]bool{}
		for _, h := range got[0].List {
			held[h.PID] = true
			if h.Outcome != attribution.Attributed {
				continue
			}
			c, ok := runtime[h.ContainerID]
			if is := processes[h.PID]; !ok || is.cgroup != in(h.PodUID, h.ContainerID) || c.PodUID != "" && c.PodUID != h.PodUID {
				rt.Fatalf("%+v: runtime %+v, process %+v", h, c, is)
			}
		}
		for _, p := range d.Processes.List {
			if !held[p.PID] {
				rt.Fatalf("process %d is lost: %+v", p.PID, got)
			}
		}
	})
}
