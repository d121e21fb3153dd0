package agent

import "testing"

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
			m.noteReady(&Update{Pod: Pod{ContainersReady: tt.ready}, Containers: []Container{{Regular: true, SpecHash: "new", Now: tt.now}}})
			if m.ready != tt.want {
				t.Errorf("ready %t, want %t", m.ready, tt.want)
			}
		})
	}
}
