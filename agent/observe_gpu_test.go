package agent

import (
	"testing"

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
