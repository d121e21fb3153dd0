package residency

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// drawSample draws what a look finds at a time, and whether every GPU could be read.
func drawSample(t *rapid.T, now float64) (s Sample, readable bool) {
	switch rapid.IntRange(0, 9).Draw(t, "look") {
	case 0, 1:
		return failed(now), false
	case 2:
		return Sample{At: at(now), State: gpu.Released}, false
	}
	s = sample(now)
	readable = true
	for _, uuid := range []string{first, second} {
		d := holds(uuid, rapid.SliceOfN(rapid.SampledFrom([]Holder{
			process(1, "e-old", 70000), process(2, "e-old", 300), process(11, "e-new", 40000), process(3, "s-old", 20),
			foreign(60000), foreign(10),
			{PID: 1, MiB: 5, Ownership: Ghost},
			{PID: 40, MiB: 2000, Ownership: Undecided},
		}), 0, 2).Draw(t, "holders")...)
		switch rapid.IntRange(0, 9).Draw(t, "device") {
		case 0:
			d, readable = Device{UUID: uuid, Fault: "code 999"}, false
		case 1:
			d.Memory, readable = nil, false
		case 2:
			d.UUID = "GPU-3"
		}
		s.Devices = append(s.Devices, d)
	}
	return s, readable
}

// released reports whether a device by itself says that nothing is left, told without the package's judgement.
func released(d Device) bool {
	used := int64(0)
	for _, h := range d.Holders {
		if h.ContainerID != "e-new" && h.ContainerID != "s-old" && h.ContainerID != "x" {
			return false
		}
		if h.ContainerID != "x" {
			used += h.MiB
		}
	}
	return d.Fault == "" && d.Memory != nil && d.Memory.Used-used <= 100+512
}

func TestPropertyOfWatch(t *testing.T) {
	c := swapped(before())
	rapid.Check(t, func(t *rapid.T) {
		var w Watch
		now, good := 0.0, map[string]int{}
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			now += rapid.SampledFrom([]float64{0.5, 0.1, 3, 20}).Draw(t, "later")
			s, readable := drawSample(t, now)
			was := w.Pod().Verdict
			w = w.Next(s, c)
			for _, d := range s.Devices {
				if released(d) {
					good[d.UUID]++
				}
			}
			switch v := w.Pod().Verdict; {
			case proven(v) && min(good[first], good[second]) < 2:
				t.Fatalf("%s after %v samples that say so", v, good)
			case proven(was) && !proven(v):
				t.Fatalf("%s becomes %s", was, v)
			case proven(v) && !proven(was) && !readable && len(s.Devices) == 0:
				t.Fatalf("%s by a look that failed", v)
			case Stops(v) && s.At.Before(c.Since.Add(2*time.Minute)):
				t.Fatalf("%s before the deadline", v)
			case Stops(v) && !Stops(was) && (s.Fault != "" || s.blind()):
				t.Fatalf("%s by a look that failed", v)
			case Stops(v) && w.Pod().Why == "":
				t.Fatalf("%s, and it does not say why", v)
			case v == v1alpha1.VerdictUnknown && w.Pod().Why == "":
				t.Fatal("Unknown, and it does not say why")
			}
		}
	})
}
