package residency

import (
	"strings"
	"testing"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// The Pod of the tables has the container engine on two GPUs of 80000 MiB, with 70000 MiB on each, and the container
// side. engine was replaced: e-old ended at second 0, e-new is made.

const (
	first  = "GPU-1"
	second = "GPU-2"
)

func at(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func process(pid int32, container string, mib int64) Holder {
	return Holder{PID: pid, Started: uint64(pid) * 10, Command: "python", MiB: mib, Ownership: Contained, PodUID: "pod", ContainerID: container, Pod: "default/engine-0"}
}

func foreign(mib int64) Holder {
	return Holder{PID: 900, Started: 9000, Command: "lmcache", MiB: mib, Ownership: Outside, PodUID: "other", ContainerID: "x", Pod: "default/cache-0"}
}

// holds is a GPU on which these processes and 100 MiB besides are used.
func holds(uuid string, holders ...Holder) Device {
	d := Device{UUID: uuid, Memory: &gpu.Memory{Version: 2, Total: 80000, Used: 100, Reserved: 600}, Holders: holders}
	for _, h := range holders {
		d.Memory.Used += max(0, h.MiB)
	}
	return d
}

func (d Device) with(change func(*Device)) Device {
	memory := *d.Memory
	d.Memory = &memory
	change(&d)
	return d
}

func sample(seconds float64, devices ...Device) Sample {
	return Sample{At: at(seconds), State: gpu.Up, BootID: "boot", Devices: devices}
}

func failed(seconds float64) Sample {
	return Sample{At: at(seconds), State: gpu.Unknown, Fault: "the probe did not answer"}
}

func before() Sample {
	return sample(-10, holds(first, process(1, "e-old", 70000)), holds(second, process(2, "e-old", 70000)))
}

// swapped are the circumstances after a swap before which there was this sample.
func swapped(s Sample) Circumstances {
	b, _ := Take(s, "pod")
	return Circumstances{
		PodUID: "pod", Baseline: &b, Since: at(0),
		Containers: []Container{
			{ID: "e-new", Name: "engine", Current: true},
			{ID: "e-old", Name: "engine", Before: true, Ended: at(0)},
			{ID: "s-old", Name: "side", Current: true, Before: true},
		},
	}
}

func (c Circumstances) with(change func(*Circumstances)) Circumstances {
	change(&c)
	return c
}

func look(c Circumstances, samples ...Sample) Watch {
	var w Watch
	for _, s := range samples {
		w = w.Next(s, c)
	}
	return w
}

func TestVerdicts(t *testing.T) {
	c := swapped(before())
	side := swapped(sample(-10, holds(first, process(1, "e-old", 40000), process(3, "s-old", 30000)), holds(second, process(2, "e-old", 70000))))
	declared := side.with(func(c *Circumstances) { c.Residents = map[string]int64{"side": 31000} })
	empty := []Device{holds(first), holds(second)}
	left := []Device{holds(first, process(1, "e-old", 70000)), holds(second)}
	loaded := []Device{holds(first, process(11, "e-new", 70000)), holds(second, process(12, "e-new", 70000))}
	imported := []Device{holds(first, foreign(70000)), holds(second)}
	nobody := []Device{holds(first).with(func(d *Device) { d.Memory.Used = 60000 }), holds(second)}
	undecided := func(h Holder) Holder { h.Ownership, h.PodUID, h.ContainerID = Undecided, "", ""; return h }
	ghost := func(pid int32) Holder { return Holder{PID: pid, MiB: 70000, Ownership: Ghost} }
	coherent := func(d *Device) { d.Coherent, d.Memory = true, nil }
	shared := func(d *Device) { d.Shared = true }
	untold := Device{Fault: "it is not known which device nvidia0 is"}
	partial := func(s Sample) Sample { s.Partial = true; return s }
	const pending = v1alpha1.Verdict("")
	for name, tt := range map[string]struct {
		c       Circumstances
		samples []Sample
		want    v1alpha1.Verdict
		why     string
	}{
		"released: nothing of the Pod holds memory, twice": {
			c, []Sample{sample(1, empty...), sample(1.5, empty...)}, v1alpha1.VerdictReleased, "",
		},
		"not by one sample": {
			c, []Sample{sample(1, empty...)}, pending, "",
		},
		"not by two that are less than half a second apart": {
			c, []Sample{sample(1, empty...), sample(1.4, empty...)}, pending, "",
		},
		"not by samples from before the end of the old container": {
			c, []Sample{sample(-1, empty...), sample(-0.1, empty...)}, pending, "",
		},
		"nothing is judged while an old container runs": {
			c.with(func(c *Circumstances) { c.Since = time.Time{} }), []Sample{sample(1, left...), sample(200, left...)}, pending, "",
		},
		"reloaded: the new container's processes may already be there": {
			c, []Sample{sample(1, loaded...), sample(2, loaded...)}, v1alpha1.VerdictReloaded, "",
		},
		"released becomes reloaded": {
			c, []Sample{sample(1, empty...), sample(2, empty...), sample(60, loaded...)}, v1alpha1.VerdictReloaded, "",
		},
		"the slowest GPU decides": {
			c, []Sample{sample(1, left...), sample(2, left...)}, pending, first + ": process 1 (python)",
		},
		"memory that goes late is released": {
			c, []Sample{sample(1, left...), sample(100, left...), sample(101, empty...), sample(102, empty...)}, v1alpha1.VerdictReleased, "",
		},
		"leaked: a process of the old container is there at the deadline": {
			c, []Sample{sample(1, left...), sample(119.9, left...), sample(120, left...)}, v1alpha1.VerdictLeaked, "process 1 (python) of Pod default/engine-0 with 70000 MiB",
		},
		"not before the deadline": {
			c, []Sample{sample(1, left...), sample(119.9, left...)}, pending, "process 1",
		},
		"not by one sample at the deadline, as after a restart": {
			c, []Sample{sample(300, left...)}, pending, "process 1",
		},
		"with a deadline of its own": {
			c.with(func(c *Circumstances) { c.Params.Release = 5 * time.Second }), []Sample{sample(4, left...), sample(5, left...)}, v1alpha1.VerdictLeaked, "",
		},
		"leaked, and seen to be released later": {
			c, []Sample{sample(1, left...), sample(120, left...), sample(200, loaded...), sample(201, loaded...)}, v1alpha1.VerdictReloaded, "",
		},
		"a look that fails does not undo a leak": {
			c, []Sample{sample(1, left...), sample(120, left...), failed(121), failed(300)}, v1alpha1.VerdictLeaked, "process 1",
		},
		"leaked: a process of a container that the runtime has forgotten": {
			c,
			[]Sample{sample(1, holds(first, process(5, "e-older", 9000)), holds(second)), sample(120, holds(first, process(5, "e-older", 9000)), holds(second))},
			v1alpha1.VerdictLeaked, "process 5",
		},
		"a new container that crashed has a release deadline of its own": {
			c.with(func(c *Circumstances) {
				c.Containers = []Container{{ID: "e-newer", Name: "engine", Current: true}, {ID: "e-new", Name: "engine", Ended: at(100)}}
			}),
			[]Sample{sample(110, loaded...), sample(121, loaded...)},
			pending, "process 11",
		},
		"leaked: those who hold take turns, and the one of now is named": {
			c, []Sample{
				sample(1, left...), sample(60, holds(first, process(3, "e-old", 9000)), holds(second)),
				sample(119.5, left...), sample(120, holds(first, process(3, "e-old", 9000)), holds(second)),
			}, v1alpha1.VerdictLeaked, "process 3",
		},
		"held by other: those who hold take turns": {
			c, []Sample{sample(1, left...), sample(60, imported...), sample(119, nobody...), sample(120, imported...)}, v1alpha1.VerdictHeldByOther, "process 900",
		},
		"held by other: engines that crash do not put off what nobody seems to hold": {
			c.with(func(c *Circumstances) {
				c.Containers = []Container{{ID: "e-newer", Name: "engine", Current: true}, {ID: "e-new", Name: "engine", Ended: at(100)}}
			}),
			[]Sample{sample(1, nobody...), sample(101, nobody...), sample(121, nobody...)},
			v1alpha1.VerdictHeldByOther, "no process that can be seen",
		},
		"what is held in one look and free in the next is unknown after some patience": {
			c,
			[]Sample{sample(100, left...), sample(110, empty...), sample(120, left...), sample(125, empty...), sample(130, left...), sample(131, empty...)},
			v1alpha1.VerdictUnknown, "process 1",
		},
		"not at the deadline, nor after a restart": {
			c, []Sample{sample(300, left...), sample(301, empty...)}, pending, "process 1",
		},
		"another process with the PID of an old one is not it": {
			c, []Sample{
				sample(1, holds(first, Holder{PID: 1, Started: 77, MiB: 100, Ownership: Contained, PodUID: "pod", ContainerID: "e-new"}), holds(second)),
				sample(2, holds(first, Holder{PID: 1, Started: 77, MiB: 100, Ownership: Contained, PodUID: "pod", ContainerID: "e-new"}), holds(second)),
			}, v1alpha1.VerdictReloaded, "",
		},
		"leaked: an old process that ended and is listed all the same": {
			c, []Sample{sample(1, holds(first, ghost(1)), holds(second)), sample(120, holds(first, ghost(1)), holds(second))}, v1alpha1.VerdictLeaked, "process 1 that does not exist any more",
		},
		"a ghost that was not ours is nobody's": {
			c, []Sample{sample(1, holds(first, ghost(66)), holds(second)), sample(120, holds(first, ghost(66)), holds(second))}, v1alpha1.VerdictUnknown, "not known whose process 66",
		},
		"held by other: another Pod has imported the memory": {
			c, []Sample{sample(1, imported...), sample(120, imported...)}, v1alpha1.VerdictHeldByOther, "process 900 (lmcache) of Pod default/cache-0 with 70000 MiB",
		},
		"held by other: engines that crash for it do not put it off": {
			c.with(func(c *Circumstances) {
				c.Containers = []Container{{ID: "e-newer", Name: "engine", Current: true}, {ID: "e-new", Name: "engine", Ended: at(100)}}
			}),
			[]Sample{sample(101, imported...), sample(120, imported...)},
			v1alpha1.VerdictHeldByOther, "process 900",
		},
		"what others held before is not known: nothing follows from what they hold now": {
			swapped(before()).with(func(c *Circumstances) { c.Baseline.GPUs[0].OwnMiB, c.Baseline.GPUs[1].OwnMiB = -1, -1 }),
			[]Sample{sample(1, holds(first, foreign(700)), holds(second)), sample(120, holds(first, foreign(700)), holds(second))},
			v1alpha1.VerdictUnknown, "cannot be compared",
		},
		"held by other: no process can be seen": {
			c, []Sample{sample(1, nobody...), sample(120, nobody...)}, v1alpha1.VerdictHeldByOther, "59900 MiB more than before are used, and no process that can be seen",
		},
		"not before the deadline either": {
			c, []Sample{sample(1, imported...), sample(119, imported...)}, pending, "process 900",
		},
		"what others held before is theirs": {
			swapped(sample(-10, holds(first, process(1, "e-old", 30000), foreign(40000)), holds(second, process(2, "e-old", 70000)))),
			[]Sample{sample(1, holds(first, foreign(40000)), holds(second)), sample(2, holds(first, foreign(40000)), holds(second))},
			v1alpha1.VerdictReleased, "",
		},
		"a little more than before is slack": {
			c, []Sample{sample(1, holds(first, foreign(500)), holds(second)), sample(2, holds(first, foreign(500)), holds(second))}, v1alpha1.VerdictReleased, "",
		},
		"beside the new engine the excess counts as well": {
			c, []Sample{
				sample(1, holds(first, process(11, "e-new", 20000), foreign(40000)), holds(second)),
				sample(120, holds(first, process(11, "e-new", 20000), foreign(40000)), holds(second)),
			}, v1alpha1.VerdictHeldByOther, "process 900",
		},
		"used memory of another version of the call is not compared": {
			c, []Sample{
				sample(1, holds(first).with(func(d *Device) { d.Memory.Version, d.Memory.Used = 1, 700 }), holds(second)),
				sample(120, holds(first).with(func(d *Device) { d.Memory.Version, d.Memory.Used = 1, 700 }), holds(second)),
			}, v1alpha1.VerdictUnknown, "cannot be compared",
		},
		"free memory says nothing on a coherent part": {
			c, []Sample{sample(1, holds(first).with(coherent), holds(second)), sample(2, holds(first).with(coherent), holds(second))}, v1alpha1.VerdictReleased, "",
		},
		"nor on a shared device": {
			c, []Sample{sample(1, holds(first, foreign(70000)).with(shared), holds(second)), sample(2, holds(first, foreign(70000)).with(shared), holds(second))}, v1alpha1.VerdictReleased, "",
		},
		"but a process of the old container does, on both": {
			c, []Sample{
				sample(1, left[0].with(coherent), left[1].with(shared)), sample(120, left[0].with(coherent), left[1].with(shared)),
			}, v1alpha1.VerdictLeaked, "",
		},
		"sizes that the driver does not tell leave the processes to judge by": {
			c, []Sample{
				sample(1, holds(first, process(11, "e-new", -1)).with(func(d *Device) { d.Memory.Used = 70000 }), holds(second)),
				sample(2, holds(first, process(11, "e-new", -1)).with(func(d *Device) { d.Memory.Used = 70000 }), holds(second)),
			}, v1alpha1.VerdictReloaded, "",
		},
		"retained: a declared resident keeps what it may": {
			declared, []Sample{sample(1, holds(first, process(3, "s-old", 31000)), holds(second)), sample(2, holds(first, process(3, "s-old", 31000)), holds(second))}, v1alpha1.VerdictRetained, "",
		},
		"retained: one that is not declared keeps what it has": {
			side, []Sample{sample(1, holds(first, process(3, "s-old", 30000)), holds(second)), sample(2, holds(first, process(3, "s-old", 30000)), holds(second))}, v1alpha1.VerdictRetained, "",
		},
		"retained: it has grown a little": {
			side, []Sample{sample(1, holds(first, process(3, "s-old", 30500)), holds(second)), sample(2, holds(first, process(3, "s-old", 30500)), holds(second))}, v1alpha1.VerdictRetained, "",
		},
		"unknown: one that is not declared may have taken the engine's memory over, or be loading by itself": {
			side,
			[]Sample{sample(1, holds(first, process(3, "s-old", 70000)), holds(second)), sample(120, holds(first, process(3, "s-old", 70000)), holds(second))},
			v1alpha1.VerdictUnknown, "container side, which was not replaced, holds 70000 MiB, 40000 more than before, and it is not declared",
		},
		"unknown: one that held nothing before holds what the engine had": {
			c,
			[]Sample{sample(1, holds(first, process(3, "s-old", 70000)), holds(second)), sample(11, holds(first, process(3, "s-old", 70000)), holds(second))},
			v1alpha1.VerdictUnknown, "70000 more than before",
		},
		"retained: it gives back what it had taken": {
			side, []Sample{
				sample(1, holds(first, process(3, "s-old", 70000)), holds(second)), sample(11, holds(first, process(3, "s-old", 70000)), holds(second)),
				sample(30, holds(first, process(3, "s-old", 30000)), holds(second)), sample(31, holds(first, process(3, "s-old", 30000)), holds(second)),
			}, v1alpha1.VerdictRetained, "",
		},
		"one that is not declared may grow on a GPU of its own": {
			swapped(sample(-10, holds(first, process(3, "s-old", 1000)), holds(second, process(2, "e-old", 70000)))),
			[]Sample{sample(1, holds(first, process(3, "s-old", 70000)), holds(second)), sample(2, holds(first, process(3, "s-old", 70000)), holds(second))},
			v1alpha1.VerdictRetained, "",
		},
		"leaked: a resident took the engine's memory over": {
			declared,
			[]Sample{sample(1, holds(first, process(3, "s-old", 70000)), holds(second)), sample(120, holds(first, process(3, "s-old", 70000)), holds(second))},
			v1alpha1.VerdictLeaked, "container side, which was not replaced, holds 70000 MiB and may keep 31000",
		},
		"leaked: a declared resident keeps more than it may": {
			declared,
			[]Sample{sample(1, holds(first, process(3, "s-old", 32000)), holds(second)), sample(120, holds(first, process(3, "s-old", 32000)), holds(second))},
			v1alpha1.VerdictLeaked, "may keep 31000",
		},
		"a resident may grow on a GPU of its own": {
			swapped(sample(-10, holds(first, process(3, "s-old", 1000)), holds(second, process(2, "e-old", 70000)))).with(func(c *Circumstances) { c.Residents = map[string]int64{"side": 1000} }),
			[]Sample{sample(1, holds(first, process(3, "s-old", 70000)), holds(second)), sample(2, holds(first, process(3, "s-old", 70000)), holds(second))},
			v1alpha1.VerdictRetained, "",
		},
		"a failed read is no release": {
			c, []Sample{failed(1), failed(2), sample(3, empty...), failed(9)}, pending, "did not answer",
		},
		"unknown after some patience": {
			c, []Sample{failed(1), failed(10)}, v1alpha1.VerdictUnknown, "the probe did not answer",
		},
		"unknown where one GPU of two cannot be read": {
			c, []Sample{
				sample(1, holds(first), Device{UUID: second, Fault: "code 999"}), sample(10, holds(first), Device{UUID: second, Fault: "code 999"}),
			}, v1alpha1.VerdictUnknown, "code 999",
		},
		"unknown where used memory cannot be read": {
			c, []Sample{
				sample(1, holds(first).with(func(d *Device) { d.Memory = nil }), holds(second)), sample(10, holds(first).with(func(d *Device) { d.Memory = nil }), holds(second)),
			}, v1alpha1.VerdictUnknown, "not known",
		},
		"unknown where it is not known whose a process is": {
			c, []Sample{
				sample(1, holds(first, undecided(process(1, "", 70000))).with(func(d *Device) { d.Holders[0].Started = 0 }), holds(second)),
				sample(120, holds(first, undecided(process(1, "", 70000))).with(func(d *Device) { d.Holders[0].Started = 0 }), holds(second)),
			}, v1alpha1.VerdictUnknown, "not known whose",
		},
		"an old process is known by its start, whoever it seems to belong to": {
			c,
			[]Sample{sample(1, holds(first, undecided(process(1, "", 70000))), holds(second)), sample(120, holds(first, undecided(process(1, "", 70000))), holds(second))},
			v1alpha1.VerdictLeaked, "process 1",
		},
		"unknown becomes known once there is something to judge by": {
			c, []Sample{failed(1), failed(10), sample(11, left...)}, pending, "process 1",
		},
		"unknown at once without a library": {
			c, []Sample{{At: at(1), State: gpu.Absent}}, v1alpha1.VerdictUnknown, "cannot be looked at: Absent",
		},
		"unknown at once while NVML is released": {
			c, []Sample{{At: at(1), State: gpu.Released}}, v1alpha1.VerdictUnknown, "cannot be looked at: Released",
		},
		"unknown without a baseline": {
			c.with(func(c *Circumstances) { c.Baseline = nil }), []Sample{sample(1, left...), sample(120, left...)}, v1alpha1.VerdictUnknown, "before the swap is not known",
		},
		"unknown after a boot": {
			c, []Sample{{At: at(1), State: gpu.Up, BootID: "another", Devices: empty}}, v1alpha1.VerdictUnknown, "was booted",
		},
		"moved: the Pod has other GPUs": {
			c, []Sample{sample(1, holds(first), holds("GPU-3")), sample(120, holds(first), holds("GPU-3"))}, v1alpha1.VerdictMoved, first + ", GPU-3",
		},
		"moved: it has fewer": {
			c, []Sample{sample(1, holds(first)), sample(120, holds(first))}, v1alpha1.VerdictMoved, "other GPUs",
		},
		"a device that cannot be told may be the one that is missing": {
			c, []Sample{sample(1, untold, holds(second)), sample(120, untold, holds(second))}, v1alpha1.VerdictUnknown, "not among the Pod's GPUs: it is not known which device nvidia0 is",
		},
		"moved: it has one that is known to be another, beside one that cannot be told": {
			c, []Sample{sample(1, untold, holds("GPU-3")), sample(120, untold, holds("GPU-3"))}, v1alpha1.VerdictMoved, "one that is not known, GPU-3",
		},
		"moved: it has fewer, whichever they are": {
			c, []Sample{sample(1, untold), sample(120, untold)}, v1alpha1.VerdictMoved, "one that is not known",
		},
		"not moved: kubelet does not list all that it may have": {
			c, []Sample{partial(sample(1, holds(first))), partial(sample(120, holds(first)))}, v1alpha1.VerdictUnknown, second + " is not among the Pod's GPUs",
		},
		"not moved before the deadline: kubelet may only be starting": {
			c, []Sample{sample(1, holds("GPU-3")), sample(100, holds("GPU-3")), sample(101, empty...), sample(102, empty...)}, v1alpha1.VerdictReleased, "",
		},
		"a Pod that has no GPUs just now has not moved": {
			c, []Sample{sample(1), sample(120)}, v1alpha1.VerdictUnknown, "not among the Pod's GPUs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := look(tt.c, tt.samples...).Pod()
			if got.Verdict != tt.want || !strings.Contains(got.Why, tt.why) || tt.why == "" && got.Why != "" && !Stops(tt.want) {
				t.Errorf("verdict %q, want %q: %s", got.Verdict, tt.want, got.Why)
			}
		})
	}
}

func TestThePodIsJudgedByTheGPUThatIsHeldLongest(t *testing.T) {
	w := look(swapped(before()), sample(1, holds(first), holds(second, process(2, "e-old", 70000))))
	if got := w.Pod(); got.UUID != second || !got.By.Equal(at(120)) {
		t.Errorf("judged by %s, which is held until %v", got.UUID, got.By)
	}
}
