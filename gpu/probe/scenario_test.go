package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pitstop.dev/gpu"
	"pitstop.dev/test/gpu/stub"
)

func TestALibraryThatIsMissingIsANodeWithoutGPUs(t *testing.T) {
	t.Parallel()
	n := idle(t, twoGPUs())
	n.start(t, Config{})
	n.until(t, "absent", func(r gpu.Reading) bool { return r.State == gpu.Absent && len(r.Devices) == 0 })
	// A container that was not given the library of a driver that is there.
	version := filepath.Join(n.dir, "driver", "nvidia", "version")
	if err := os.MkdirAll(filepath.Dir(version), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(version, []byte("NVRM version"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.until(t, "unknown beside a driver", unknown("the driver is loaded"))
	n.install(t)
	n.until(t, "sound", sound)
}

func TestASymbolThatIsMissingIsNotCalled(t *testing.T) {
	t.Parallel()
	lacks := []string{"nvmlDeviceGetFieldValues", "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMemoryInfo_v2", "nvmlErrorString"}
	n := runNode(t, Config{}, twoGPUs(), lacks...)
	r := n.until(t, "up", func(r gpu.Reading) bool { return r.State == gpu.Up })
	for _, name := range lacks[:3] {
		if !slices.Contains(r.Missing, name) {
			t.Errorf("missing are %q, without %s", r.Missing, name)
		}
	}
	d := r.Devices[0]
	if d.Health.Recovery != nil || d.Health.UncorrectedECC == nil || d.Processes.Known || d.Memory == nil || d.Memory.Version != 1 || d.Memory.Used != 615 {
		t.Errorf("device %+v", d)
	}
	// Another driver, with all of them, comes under the agent.
	n.install(t)
	n.set(t, func(s *stub.State) { s.Driver = "580.65.06" })
	r = n.until(t, "sound", sound)
	if len(r.Missing) > 0 || r.Devices[0].Memory.Version != 2 || r.Devices[0].Memory.Reserved != 615 {
		t.Errorf("reading %+v", r)
	}
}

func TestALibraryWithoutWhatIsNeededIsUnknown(t *testing.T) {
	t.Parallel()
	n := runNode(t, Config{}, twoGPUs(), "nvmlDeviceGetUUID")
	n.until(t, "unknown", unknown("lacks nvmlDeviceGetUUID"))
	n.install(t)
	n.until(t, "sound", sound)
}

// Each of these makes all readings Unknown, from the start or in between, and they recover.
func TestWhatTheDriverRefusesIsUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		fault   stub.Fault
		message string
	}{
		"the driver is not loaded at the start":       {stub.Fault{Call: "nvmlInit", Code: 9}, "the driver is not loaded (NVML code 9)"},
		"another version at the start":                {stub.Fault{Call: "nvmlInit", Code: 18}, "have different versions (NVML code 18); after an upgrade"},
		"an unknown error at the start":               {stub.Fault{Call: "nvmlInit", Code: 999}, "unknown error of the driver (NVML code 999)"},
		"the driver is unloaded":                      {stub.Fault{Call: "nvmlDeviceGetCount", Code: 9}, "count GPUs: the driver is not loaded"},
		"the driver is unloaded within a reading":     {stub.Fault{Call: "nvmlDeviceGetMemoryInfo_v2", Code: 9}, "memory: the driver is not loaded"},
		"another version, found by a process list":    {stub.Fault{Call: "nvmlDeviceGetComputeRunningProcesses", Code: 18}, "NVML code 18"},
		"an unknown error where the GPUs are counted": {stub.Fault{Call: "nvmlDeviceGetCount", Code: 999}, "NVML code 999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := runNode(t, Config{}, twoGPUs())
			if tt.fault.Call != "nvmlInit" {
				n.until(t, "sound", sound)
			}
			n.suffer(t, tt.fault)
			n.until(t, "unknown", unknown(tt.message))
			n.heal(t)
			n.until(t, "sound", sound)
		})
	}
}

func TestWhatHangsIsUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		call, message string
	}{
		"the start":      {"nvmlInit", "NVML did not start"},
		"a call":         {"nvmlDeviceGetMemoryInfo_v2", "no reading within"},
		"every call":     {"*", "hangs"},
		"the event wait": {"nvmlEventSetWait", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := runNode(t, quick(), twoGPUs())
			if tt.call != "nvmlInit" {
				n.until(t, "sound", sound)
			}
			n.suffer(t, stub.Fault{Call: tt.call, Hang: 1})
			if tt.message != "" {
				n.until(t, "unknown", unknown(tt.message))
			}
			if pids := n.probes(); len(pids) > 1 {
				t.Errorf("probes %v at a time", pids)
			}
			n.heal(t)
			n.until(t, "sound", sound)
		})
	}
}

func TestALostGPUIsLostAlone(t *testing.T) {
	t.Parallel()
	n := runNode(t, Config{}, twoGPUs())
	n.until(t, "sound", sound)
	for _, call := range []string{"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "*"} {
		n.suffer(t, stub.Fault{Call: call, GPU: "GPU-b", Code: 15})
		r := n.until(t, "lost", func(r gpu.Reading) bool { return r.State == gpu.Up && len(r.Devices) == 2 && r.Devices[1].Lost })
		if d := r.Devices[1]; d.UUID != "GPU-b" || d.Minor != 1 || d.Memory != nil || d.Processes.Known || d.Health.Recovery != nil {
			t.Errorf("%s: what is lost tells %+v", call, d)
		}
		if d := r.Devices[0]; d.Lost || d.Memory == nil || !d.Processes.Known {
			t.Errorf("%s: the other GPU is %+v", call, d)
		}
		n.heal(t)
		n.until(t, "sound", sound)
	}
}

func TestAnErrorOfOneCallIsAFaultOfOneGPU(t *testing.T) {
	t.Parallel()
	n := runNode(t, Config{}, twoGPUs())
	n.suffer(t, stub.Fault{Call: "nvmlDeviceGetMemoryInfo_v2", GPU: "GPU-a", Code: 999})
	n.suffer(t, stub.Fault{Call: "nvmlDeviceGetComputeRunningProcesses", GPU: "GPU-a", Code: 999})
	r := n.until(t, "a fault", func(r gpu.Reading) bool { return r.State == gpu.Up && r.Devices[0].Fault != "" })
	if d := r.Devices[0]; d.Memory != nil || d.Processes.Known || !strings.Contains(d.Processes.Fault, "NVML code 999") || d.Health.Recovery == nil {
		t.Errorf("device %+v", d)
	}
	if d := r.Devices[1]; d.Fault != "" || d.Memory == nil || !d.Processes.Known {
		t.Errorf("the other GPU is %+v", d)
	}
	n.heal(t)
	n.until(t, "sound", sound)
}

func TestADriverSaysAsWhichModuleItIsLoaded(t *testing.T) {
	t.Parallel()
	n := idle(t, twoGPUs())
	if err := os.MkdirAll(filepath.Join(n.dir, "module", "nvidia"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.install(t)
	n.start(t, Config{})
	n.until(t, "of a module", func(r gpu.Reading) bool { return sound(r) && r.Module != 0 })
	bare := runNode(t, Config{}, twoGPUs())
	bare.until(t, "of a module that is not known", func(r gpu.Reading) bool { return sound(r) && r.Module == 0 })
}

func TestAWrongStructIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := twoGPUs()
	for _, pid := range []int{os.Getpid(), os.Getppid()} {
		s.Processes = append(s.Processes, stub.Process{GPU: "GPU-a", PID: pid, MiB: 1000})
	}
	s.Faults = []stub.Fault{{Call: "nvmlDeviceGetComputeRunningProcesses", Stride: 1}}
	n := runNode(t, Config{}, s)
	r := n.until(t, "doubted", func(r gpu.Reading) bool { return r.State == gpu.Up && !r.Devices[0].Processes.Known })
	for _, p := range r.Devices[0].Processes.List {
		if p.PID != int32(os.Getpid()) && p.PID != int32(os.Getppid()) {
			t.Errorf("process %+v", p)
		}
	}
	n.heal(t)
	r = n.until(t, "sound", sound)
	if list := r.Devices[0].Processes.List; len(list) != 2 || list[0].UsedMiB != 1000 {
		t.Errorf("processes %+v", list)
	}
}

func TestAnEventWaitThatFailsAtOnceIsTriedOnceASecond(t *testing.T) {
	t.Parallel()
	n := runNode(t, Config{}, twoGPUs())
	n.until(t, "sound", sound)
	n.suffer(t, stub.Fault{Call: "nvmlEventSetWait", Code: 999})
	n.until(t, "unmonitored", func(r gpu.Reading) bool { return r.State == gpu.Up && r.Unmonitored })
	n.set(t, func(s *stub.State) { s.Calls = filepath.Join(n.dir, "calls") })
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		n.until(t, "unmonitored", func(r gpu.Reading) bool { return r.State == gpu.Up && r.Unmonitored })
		if len(n.calls(t, "nvmlEventSetWait")) >= 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the wait is not tried any more")
		}
	}
	at := n.calls(t, "nvmlEventSetWait")
	for i := range at[1:] {
		if pause := at[i+1] - at[i]; pause < 1000 {
			t.Errorf("tried again after %d ms", pause)
		}
	}
	n.heal(t)
	n.until(t, "sound", sound)
	e := n.event(t, 0, gap)
	if err := n.state.Raise(t.Context(), stub.Event{GPU: "GPU-b", XID: 79}); err != nil {
		t.Fatal(err)
	}
	n.event(t, e.Seq, func(e gpu.Event) bool {
		return e.Kind == gpu.EventXID && e.XID == 79 && e.UUID == "GPU-b" && e.GI == gpu.NoInstance
	})
}

func TestAGPUThatCannotBeListenedToIsTriedAgain(t *testing.T) {
	for _, call := range []string{"nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			s := twoGPUs()
			s.Faults = []stub.Fault{{Call: call, GPU: "GPU-b", Code: 999}}
			s.Events = []stub.Event{{ID: 1, GPU: "GPU-a", XID: 13}} // is of before
			n := idle(t, s)
			n.set(t, func(s *stub.State) { s.Calls = filepath.Join(n.dir, "calls") })
			n.install(t)
			n.start(t, Config{})
			deaf := func(r gpu.Reading) bool { return r.State == gpu.Up && len(r.Devices) == 2 && r.Unmonitored }
			n.until(t, "unmonitored", deaf)
			for deadline := time.Now().Add(patience); len(n.calls(t, call)) < 4; <-time.After(50 * time.Millisecond) {
				n.until(t, "unmonitored", deaf)
				if time.Now().After(deadline) {
					t.Fatal("the GPU is not tried again")
				}
			}
			at := n.calls(t, call)[2:] // without both GPUs at the start
			for i := range at[1:] {
				if pause := at[i+1] - at[i]; pause < 5000 {
					t.Errorf("tried again after %d ms", pause)
				}
			}
			raise := func(id string, xid int) {
				if err := n.state.Raise(t.Context(), stub.Event{GPU: id, XID: xid}); err != nil {
					t.Fatal(err)
				}
			}
			raise("GPU-b", 31)
			raise("GPU-a", 32) // the other one is heard meanwhile
			heard := n.event(t, 0, func(e gpu.Event) bool { return e.XID == 32 && e.UUID == "GPU-a" })
			n.heal(t)
			n.until(t, "sound", sound)
			g := n.event(t, heard.Seq, gap)
			raise("GPU-b", 79)
			n.event(t, g.Seq, func(e gpu.Event) bool { return e.Kind == gpu.EventXID && e.XID == 79 && e.UUID == "GPU-b" })
			for _, e := range n.Events(0) {
				if e.XID == 31 || e.XID == 13 {
					t.Errorf("heard %+v", e)
				}
			}
			if sets := n.calls(t, "nvmlEventSetCreate"); len(sets) != 1 {
				t.Errorf("%d event sets were made: what happens in between is lost for all", len(sets))
			}
		})
	}
}

func TestAKilledProbeIsReplaced(t *testing.T) {
	t.Parallel()
	n := runNode(t, Config{}, twoGPUs())
	n.until(t, "sound", sound)
	before := n.probes()
	if len(before) != 1 {
		t.Fatalf("probes %v", before)
	}
	if err := unix.Kill(before[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.event(t, 0, gap)
	n.until(t, "sound", sound)
	if after := n.probes(); len(after) != 1 || after[0] == before[0] {
		t.Errorf("probes %v after %v", after, before)
	}
}

func TestAReleaseEndsInOrderAndFindsWhatIsNew(t *testing.T) {
	t.Parallel()
	n := runNode(t, Config{}, twoGPUs())
	n.until(t, "sound", sound)
	n.set(t, func(s *stub.State) { s.Calls = filepath.Join(n.dir, "calls") })
	n.Release(time.Now().Add(time.Minute))
	n.until(t, "released", func(r gpu.Reading) bool { return r.State == gpu.Released })
	if pids := n.probes(); len(pids) > 0 {
		t.Errorf("probes %v hold the driver", pids)
	}
	if ends := n.calls(t, "nvmlShutdown"); len(ends) != 1 {
		t.Errorf("nvmlShutdown was called %d times", len(ends))
	}
	n.set(t, func(s *stub.State) {
		s.GPUs[1].InMIG = 1
		s.MIGs = []stub.MIG{{GPU: "GPU-b", UUID: "MIG-x", GI: 3, CI: 1, Total: 20000}, {GPU: "GPU-b", UUID: "MIG-y", GI: 4, Total: 20000}}
		s.Processes = []stub.Process{{GPU: "MIG-x", PID: os.Getpid(), MiB: -1}}
	})
	n.Release(time.Now().Add(20 * time.Millisecond))
	r := n.until(t, "sound", sound)
	d := r.Devices[1]
	if len(d.MIG) != 2 || d.MIG[1].UUID != "MIG-y" || d.MIG[0].Memory == nil || d.MIG[0].Memory.Total != 20000 {
		t.Fatalf("MIG devices %+v", d.MIG)
	}
	want := gpu.Process{PID: int32(os.Getpid()), UsedMiB: -1, GI: 3, CI: 1}
	if !slices.Equal(d.MIG[0].Processes.List, []gpu.Process{want}) || !slices.Equal(d.Processes.List, []gpu.Process{want}) {
		t.Errorf("processes %+v and %+v", d.MIG[0].Processes, d.Processes)
	}
	n.event(t, 0, gap)
}

func TestMemoryIsHeldForAWhileAfterTheProcessIsGone(t *testing.T) {
	t.Parallel()
	n := runNode(t, Config{}, twoGPUs())
	holder := exec.CommandContext(t.Context(), "sleep", "60")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	pid := holder.Process.Pid
	p, err := stub.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	p.GPU, p.MiB, p.Release = "GPU-a", 70000, 300
	if err := n.state.Add(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.List = "mps" // it is in two lists and counts once
	if err := n.state.Add(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	holds := func(r gpu.Reading) bool {
		d := r.Devices[0]
		return r.State == gpu.Up && len(d.Processes.List) == 1 && d.Processes.List[0].PID == int32(pid) && d.Processes.List[0].UsedMiB == 70000
	}
	n.until(t, "held", holds)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	n.until(t, "held after the end", holds)
	n.until(t, "free", func(r gpu.Reading) bool {
		d := r.Devices[0]
		return r.State == gpu.Up && d.Processes.Known && len(d.Processes.List) == 0 && d.Memory.Used == 0
	})
}

// The budget of the design is 40 MiB.
func TestTheProbeIsSmall(t *testing.T) {
	t.Parallel()
	s := stub.State{Driver: "570.86.15"}
	for id := range strings.SplitSeq("abcdefgh", "") {
		s.GPUs = append(s.GPUs, stub.GPU{UUID: "GPU-" + id, Total: 81559, Links: 18})
		for i := range 20 {
			s.Processes = append(s.Processes, stub.Process{GPU: "GPU-" + id, PID: 1000 + i, MiB: 10, Fixed: 1})
		}
	}
	n := runNode(t, Config{}, s)
	for range 100 {
		n.until(t, "up", func(r gpu.Reading) bool { return r.State == gpu.Up && len(r.Devices) == 8 })
	}
	pids := n.probes()
	if len(pids) != 1 {
		t.Fatalf("probes %v", pids)
	}
	mib := resident(t, pids[0])
	t.Logf("%d MiB resident with 8 GPUs", mib)
	if mib > 40 {
		t.Errorf("%d MiB resident", mib)
	}
}
