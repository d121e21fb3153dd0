package agent

import (
	"strings"
	"testing"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/residency"
)

func TestWhichReadinessIsTheNewEngines(t *testing.T) {
	for name, tt := range map[string]struct {
		now         Running
		ready, want bool
	}{
		"the old engine still runs, and is ready":            {Running{ID: "a", Up: true, Hash: "old"}, true, false},
		"the old one has ended, and kubelet lags behind":     {Running{ID: "a", Hash: "old"}, true, false},
		"the new one is made and has not started":            {Running{ID: "b", Made: true, Hash: "new"}, true, false},
		"the new one loads":                                  {Running{ID: "b", Up: true, Hash: "new"}, false, false},
		"the new one is ready":                               {Running{ID: "b", Up: true, Hash: "new"}, true, true},
		"the new one has ended, and kubelet has not seen it": {Running{ID: "b", Hash: "new"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var m memory
			m.noteReady(&Update{Pod: Pod{ContainersReady: tt.ready}, Containers: []Container{{Regular: true, SpecHash: "new", Now: tt.now}}}, at(100))
			if got := m.ready.Equal(at(100)); got != tt.want || got == m.ready.IsZero() {
				t.Errorf("ready at %v, want %t", m.ready, tt.want)
			}
		})
	}
}

func TestAVerdictRestsOnALookSinceTheNewEngineWasReady(t *testing.T) {
	for name, tt := range map[string]struct {
		m    memory
		want bool
	}{
		"it is not ready, so nothing has to be seen": {memory{last: residency.Sample{At: at(90)}}, false},
		"the last look is from before":               {memory{ready: at(100), last: residency.Sample{At: at(99)}}, true},
		"nobody has looked at all":                   {memory{ready: at(100)}, true},
		"a look since then":                          {memory{ready: at(100), last: residency.Sample{At: at(100)}}, false},
		"a look that failed":                         {memory{ready: at(100), last: residency.Sample{At: at(101), Fault: "x"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.m.unseen(); got != tt.want {
				t.Errorf("unseen %t, want %t", got, tt.want)
			}
		})
	}
}

func TestWhatIsToBeSeenOfTheGPUsBeforeTheSwap(t *testing.T) {
	up := func(second float64, devices ...residency.Device) residency.Sample {
		return residency.Sample{At: at(second), State: gpu.Up, Devices: devices}
	}
	one := residency.Device{UUID: "GPU-1"}
	broken := residency.Sample{At: at(99), State: gpu.Unknown, Fault: "no answer"}
	let := residency.Sample{At: at(99), State: gpu.Released, Fault: "the GPU driver is released until noon"}
	for name, tt := range map[string]struct {
		u        Update
		m        memory
		until    float64 // 0: nothing is awaited
		released bool
		says     string
		every    time.Duration
	}{
		"nothing without the permit to drain":                     {u: prepared(permit(v1alpha1.PermitPrepare)), m: memory{last: let}},
		"nothing for a mere drain":                                {u: prepared(nothingAsked, permit(v1alpha1.PermitDrain)), m: memory{last: let}},
		"nothing after the patch":                                 {u: patched(), m: memory{last: let}},
		"a first look, for as long as a look may take and longer": {u: prepared(), until: 100 + 120, says: "are being looked at", every: lookSeldom},
		"GPUs that cannot be read, for some minutes":              {u: prepared(), m: memory{last: broken, awaited: at(90)}, until: 90 + 120, says: "no answer; the update goes on without it at", every: lookSeldom},
		"for half of a deadline that is shorter": {
			u: prepared(func(u *Update) { u.Order.Deadline = time.Minute }), m: memory{last: broken, awaited: at(90)}, until: 90 + 30, says: "no answer", every: lookSeldom,
		},
		"nothing once they are read, one by one or not": {
			u: prepared(), m: memory{last: up(99, residency.Device{UUID: "GPU-1", Fault: "lost"}), awaited: at(90)}, every: lookSeldom,
		},
		"the driver, while it is released": {
			u: prepared(), m: memory{last: let, awaited: at(90)}, released: true, says: "released until noon, so that nobody can see what the Pod's GPUs hold; kubectl pitstop gpu release node-1 --end takes it again", every: lookSeldom,
		},
		"it is counted anew when it is taken again": {u: prepared(), m: memory{last: broken}, until: 100 + 120, says: "no answer", every: lookSeldom},
		"under the hold a baseline, soon":           {u: acknowledged(), m: memory{last: up(50, one), good: up(50, one), awaited: at(61)}, until: 63, says: "are being looked at", every: lookSeldom},
		"for longer where nothing can be read":      {u: acknowledged(), m: memory{last: broken, good: up(50, one), awaited: at(99)}, until: 109, says: "no answer", every: lookOften},
		"the time before the hold does not count":   {u: acknowledged(), m: memory{last: broken, awaited: at(20)}, until: 110, says: "no answer", every: lookOften},
		"not for long where one GPU cannot be": {
			u: acknowledged(), m: memory{last: up(99, one, residency.Device{Fault: "lost"}), awaited: at(98)}, until: 100, says: "lost", every: lookSeldom,
		},
		"nothing with a baseline of this hold": {u: acknowledged(), m: memory{last: broken, good: up(62, one)}, every: lookSeldom},
		"nothing once it is drained":           {u: drained(), m: memory{last: broken}, every: lookSeldom},
		"but a first look after a restart":     {u: drained(), until: 110, says: "are being looked at", every: lookOften},
		"which is not for ever":                {u: drained(), m: memory{awaited: at(89)}, until: 99, says: "are being looked at", every: lookSeldom},
		"nor where images are patched":         {u: drained(superseding, patchedBy("ipu/2"), reported(v1alpha1.StageDrained, "")), every: lookSeldom},
		"but the driver":                       {u: drained(), m: memory{last: let}, released: true, says: "until noon", every: lookSeldom},
		"a library that is gone":               {u: prepared(), m: memory{last: residency.Sample{At: at(99), State: gpu.Absent}, good: up(50, one)}, until: 220, says: "library of the driver is gone", every: lookSeldom},
	} {
		t.Run(name, func(t *testing.T) {
			tt.m.awaitGPUs(&tt.u, "node-1", at(100))
			var until time.Time
			if tt.until != 0 {
				until = at(tt.until)
			}
			g := tt.u.GPUs
			if !g.AwaitUntil.Equal(until) || g.Released != tt.released || !strings.Contains(g.Unseen, tt.says) || tt.says == "" && g.Unseen != "" {
				t.Errorf("awaited until %v, released %t: %q", g.AwaitUntil, g.Released, g.Unseen)
			}
			if every := lookEvery(&tt.u, &tt.m, at(100)); every != tt.every {
				t.Errorf("looks every %s, want %s", every, tt.every)
			}
		})
	}
}
