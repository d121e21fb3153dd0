package health_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

// A kind is what one round of the property says of the GPU.
type kind int

const (
	kindGood kind = iota
	kindBad
	kindGrave   // what counts at once
	kindUnknown // nothing was read
	kindGrowth  // one more memory error
)

func drawRound(t *rapid.T) (kind, round) {
	k := kind(rapid.IntRange(0, 4).Draw(t, "kind"))
	switch k {
	case kindBad:
		return k, up(sound(rapid.SampledFrom([]setting{hot, remapFails}).Draw(t, "fault")))
	case kindGrave:
		return k, up(sound(rapid.SampledFrom([]setting{lost, needs(gpu.RecoveryReset)}).Draw(t, "grave")))
	case kindUnknown:
		return k, rapid.SampledFrom([]round{
			{reading: gpu.Reading{State: gpu.Unknown}},
			{reading: gpu.Reading{State: gpu.Released}},
			{reading: gpu.Reading{State: gpu.Absent}},
			up(), up(sound(faulty)), up(sound(silent)),
		}).Draw(t, "unread")
	case kindGood, kindGrowth:
	}
	return k, up(sound())
}

func growths(kinds []kind) (n int) {
	for _, k := range kinds {
		if k == kindGrowth {
			n++
		}
	}
	return n
}

// counted are the last rounds in which the counter was read for certain, and was before: a release, which is among what
// is not read, makes it start anew.
func counted(kinds []kind) []kind {
	for i, k := range slices.Backward(kinds) {
		if k == kindUnknown {
			kinds = kinds[i+1:]
			break
		}
	}
	read := slices.IndexFunc(kinds, func(k kind) bool { return k != kindGrave })
	return kinds[min(read+1, len(kinds)):]
}

// errorsSoFar writes the counter of memory errors into the readings: what is drawn is whether it grows.
func errorsSoFar(n *uint64, k kind, r round) {
	if k == kindGrowth {
		*n++
	}
	for i := range r.reading.Devices {
		if h := &r.reading.Devices[i].Health; h.UncorrectedECC != nil {
			h.UncorrectedECC = new(*n)
		}
	}
}

// A flip has a cause: nothing becomes unhealthy without something bad in this very round, nor healthy without
// Config.Good good rounds just before, and what was not read does neither. Memory errors are bad where there were
// Config.Bad within the window, and not over before it.
func TestNothingFlipsWithoutACause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := health.Default()
		c.Bad, c.Good = rapid.IntRange(1, 3).Draw(t, "bad"), rapid.IntRange(1, 4).Draw(t, "good")
		c.Window = time.Duration(rapid.IntRange(1, 20).Draw(t, "window")) * 10 * time.Second
		var s health.State
		var kinds []kind
		before, n := maybe, uint64(7)
		for i := range rapid.IntRange(1, 40).Draw(t, "rounds") {
			k, r := drawRound(t)
			r.reading.At = at(i)
			errorsSoFar(&n, k, r)
			kinds = append(kinds, k)
			window := kinds[max(0, i-int(c.Window/(10*time.Second))):]
			atMost := growths(window)
			sure := counted(kinds)
			atLeast := growths(sure[max(0, len(sure)-len(window)):])
			var v []health.Verdict
			s, v = health.Next(c, s, health.Input{Reading: r.reading})
			if len(v) == 0 {
				continue
			}
			now := v[0].Status
			switch {
			case now == before:
			case now == no && k == kindGrowth && atMost < c.Bad:
				t.Fatalf("unhealthy after %d errors in the window: %v", atMost, kinds)
			case now == no && (k == kindGood || k == kindUnknown):
				t.Fatalf("unhealthy after %v", kinds)
			case now == no && k == kindBad && c.Bad > 1 && !slices.Contains(kinds[:i], kindBad):
				t.Fatalf("unhealthy after one bad reading: %v", kinds)
			case now == yes && (len(kinds) < c.Good || slices.ContainsFunc(kinds[len(kinds)-c.Good:], func(k kind) bool { return k != kindGood && k != kindGrowth })):
				t.Fatalf("healthy after %v", kinds)
			case before == no && now == maybe:
				t.Fatalf("what was unhealthy is unknown after %v", kinds)
			}
			if atLeast >= c.Bad && now != no {
				t.Fatalf("%s after %d errors in the window: %v", now, atLeast, kinds)
			}
			if k == kindGrave && now != no {
				t.Fatalf("%s after %v", now, kinds)
			}
			if !v[0].Since.Equal(at(i)) && now != before {
				t.Fatalf("flipped in round %d and says %s", i, v[0].Since)
			}
			before = now
		}
	})
}

// Whatever happened, a GPU that is sound and whose driver answers is healthy again.
func TestEverythingHeals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := health.Default()
		var s health.State
		n := rapid.IntRange(0, 30).Draw(t, "rounds")
		count := uint64(7)
		for i := range n {
			k, r := drawRound(t)
			r.reading.At = at(i)
			errorsSoFar(&count, k, r)
			var events []gpu.Event
			if x := rapid.SampledFrom([]uint64{0, 0, 13, 95, 119}).Draw(t, "xid"); x != 0 {
				events = append(events, gpu.Event{At: at(i), UUID: "GPU-a", XID: x, Kind: gpu.EventXID})
			}
			s, _ = health.Next(c, s, health.Input{Reading: r.reading, Events: events})
		}
		var v []health.Verdict
		for i := range int(c.Window/(10*time.Second)) + 2*c.Good + 1 {
			r := up(sound())
			r.reading.At = at(n + i)
			errorsSoFar(&count, kindGood, r)
			s, v = health.Next(c, s, health.Input{Reading: r.reading})
		}
		if v[0].Status != yes {
			t.Fatalf("still %+v", v[0])
		}
	})
}
