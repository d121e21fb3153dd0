package cri_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/cri"
	"pitstop.dev/cri/contract"
	"pitstop.dev/cri/fake"
)

// take waits for a change that ok accepts and says whether it came in time.
func take(t *testing.T, f *cri.Feed, d time.Duration, ok func(cri.Changes) bool) bool {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return false
		case <-f.Ready():
			if ok(f.Take()) {
				return true
			}
		}
	}
}

func all(c cri.Changes) bool { return c.All }

func names(uid string) func(cri.Changes) bool {
	return func(c cri.Changes) bool { return slices.Contains(c.Pods, uid) }
}

// subscribed waits until the feed is on the runtime's events and has nothing to say.
func subscribed(t *testing.T, r *fake.Runtime, f *cri.Feed) {
	t.Helper()
	eventually(t, "the feed subscribes", func() bool { return r.Subscribers() == 1 })
	for take(t, f, 100*time.Millisecond, func(cri.Changes) bool { return true }) {
	}
}

func TestFeedNamesThePodsOfEvents(t *testing.T) {
	r, id := running(t)
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0)) // stands still: no relist helps
	f := contract.RunFeed(t, dial(t, r, cri.Config{Clock: clk}))
	subscribed(t, r, f)
	r.Exit(id, 1)
	if !take(t, f, 5*time.Second, names("uid")) {
		t.Error("an exit was not fed")
	}
	r.RunPod(fake.Pod{UID: "second", Namespace: "ns", Name: "second"})
	startContainer(t, r, 1)
	seen := map[string]bool{}
	if !take(t, f, 5*time.Second, func(c cri.Changes) bool {
		for _, p := range c.Pods {
			seen[p] = true
		}
		return seen["uid"] && seen["second"]
	}) {
		t.Errorf("fed %v, want uid and second", seen)
	}
	// The sandbox of this event is gone, and with it the Pod's name: all.
	r.RemovePod("second")
	if !take(t, f, 5*time.Second, all) {
		t.Error("an event without a Pod did not ask for a look at all")
	}
}

// A reader that does not read must not hold up the runtime, and finds each Pod once.
func TestFeedDrainsWhileNobodyReads(t *testing.T) {
	r, id := running(t)
	f := contract.RunFeed(t, dial(t, r, cri.Config{Clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}))
	subscribed(t, r, f)
	const n = 3000
	for i := range n {
		r.Exit(id, 0)
		r.RemoveContainer(id)
		id = startContainer(t, r, i+1)
	}
	r.RunPod(fake.Pod{UID: "last", Namespace: "ns", Name: "last"})
	var pods []string
	if !take(t, f, 10*time.Second, func(c cri.Changes) bool {
		pods = c.Pods
		return names("last")(c)
	}) {
		t.Fatal("the last event was not fed")
	}
	if len(pods) > 2 {
		t.Errorf("fed %v", pods)
	}
}

func TestFeedRelistsAtItsPace(t *testing.T) {
	r, _ := running(t)
	r.SetEvents(fake.EventsLost)
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := contract.RunFeed(t, dial(t, r, cri.Config{Clock: clk}))
	subscribed(t, r, f)
	eventually(t, "the feed waits", clk.HasWaiters)
	clk.Step(9 * time.Second)
	if take(t, f, 50*time.Millisecond, all) {
		t.Error("asked before 10 s had passed")
	}
	clk.Step(time.Second)
	if !take(t, f, 5*time.Second, all) {
		t.Error("did not ask after 10 s")
	}
	f.SetPace(cri.Busy)
	if !take(t, f, 5*time.Second, all) {
		t.Error("did not ask when the pace changed")
	}
	for range 3 {
		eventually(t, "the feed waits", clk.HasWaiters)
		clk.Step(time.Second)
		if !take(t, f, 5*time.Second, all) {
			t.Fatal("did not ask after 1 s while busy")
		}
	}
	f.SetPace(cri.Idle)
	take(t, f, 5*time.Second, all)
	eventually(t, "the feed waits", clk.HasWaiters)
	clk.Step(9 * time.Second)
	if take(t, f, 50*time.Millisecond, all) {
		t.Error("asked before 10 s had passed, idle again")
	}
}

func TestFeedSubscribesAgainAfterARestart(t *testing.T) {
	r, id := running(t)
	f := contract.RunFeed(t, dial(t, r, cri.Config{}))
	subscribed(t, r, f)
	r.Close()
	if !take(t, f, 5*time.Second, all) {
		t.Error("the loss of events did not ask for a look at all")
	}
	if err := r.Restart(); err != nil {
		t.Fatal(err)
	}
	subscribed(t, r, f)
	r.Exit(id, 1)
	if !take(t, f, 5*time.Second, names("uid")) {
		t.Error("an exit after the restart was not fed")
	}
}

// Whoever has no safe events is not asked for them, and the feed goes on without.
func TestFeedWithoutEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		runtime, version string
		events           fake.Events
		asked            bool
	}{
		"containerd 1.7":       {"containerd", "v1.7.27", fake.EventsOn, false},
		"containerd of k3s":    {"containerd", "v1.7.23-k3s2", fake.EventsOn, false},
		"containerd, odd":      {"containerd", "unknown", fake.EventsOn, false},
		"not known":            {"docker", "27.0.0", fake.EventsOn, false},
		"CRI-O's default":      {"cri-o", "1.34.1", fake.EventsOff, true},
		"containerd 2, plain":  {"containerd", "2.0.0", fake.EventsOff, true},
		"containerd 10, later": {"containerd", "v10.0.0", fake.EventsOff, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := fake.Start(t, clock.RealClock{})
			r.SetVersion(tt.runtime, tt.version)
			r.SetEvents(tt.events)
			clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
			f := contract.RunFeed(t, dial(t, r, cri.Config{Clock: clk}))
			eventually(t, "the runtime is asked who it is", func() bool { return r.Count("Version", "") == 1 })
			if tt.asked {
				eventually(t, "its events are asked for", func() bool { return r.Count("GetContainerEvents", "") == 1 })
			}
			// Half an hour of waiting in steps: few questions, and a look every 10 s.
			for range 180 {
				clk.Step(10 * time.Second)
				if !take(t, f, 5*time.Second, all) {
					t.Fatal("did not ask for a look after 10 s")
				}
			}
			if n := r.Count("GetContainerEvents", ""); n > 60 || n > 0 != tt.asked {
				t.Errorf("events were asked for %d times in half an hour", n)
			}
			if n := r.Count("Version", ""); n > 60 {
				t.Errorf("the version was asked for %d times in half an hour", n)
			}
		})
	}
}
