package residency

import "testing"

func TestStarved(t *testing.T) {
	left := look(swapped(before()), sample(5, holds(first, process(1, "e-old", 70000)), holds(second)), sample(20, holds(first), holds(second)))
	crashed := swapped(before()).with(func(c *Circumstances) {
		c.Containers = []Container{{ID: "e-newer", Name: "engine", Current: true}, {ID: "e-new", Name: "engine", Ended: at(4)}}
	})
	running := look(crashed, sample(2, holds(first, process(11, "e-new", 70000)), holds(second)))
	own := look(crashed, sample(5, holds(first, process(11, "e-new", 70000)), holds(second)))
	nobody := look(crashed, sample(5, holds(first).with(func(d *Device) { d.Memory.Used = 60000 }), holds(second)))
	oom := Start{First: true, ExitCode: 1, Began: at(1)}
	for name, tt := range map[string]struct {
		w    Watch
		s    Start
		want bool
	}{
		"the first start, while old memory was held":       {left, oom, true},
		"held when it was started":                         {left, Start{First: true, ExitCode: 1, Began: at(5)}, true},
		"not one that was started after it was free":       {left, Start{First: true, ExitCode: 1, Began: at(6)}, false},
		"not the second start":                             {left, Start{ExitCode: 1, Began: at(1)}, false},
		"not one that ended well":                          {left, Start{First: true, Began: at(1)}, false},
		"not one that was ready":                           {left, Start{First: true, ExitCode: 1, Began: at(1), WasReady: true}, false},
		"not one that was never started":                   {left, Start{First: true, ExitCode: 128}, false},
		"not where memory was free at once":                {look(swapped(before()), sample(1, holds(first), holds(second))), oom, false},
		"not where every look failed: that is no evidence": {look(swapped(before()), failed(1), failed(2), failed(60)), oom, false},
		"not beside its own memory, seen while it ran":     {running, oom, false},
		"not beside its own memory, which was left":        {own, oom, false},
		"nor where that has no process any more":           {nobody, oom, false},
		"not where nothing was looked at":                  {Watch{}, oom, false},
	} {
		if got := tt.w.Starved(tt.s); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
