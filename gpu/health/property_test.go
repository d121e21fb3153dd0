package health_test

import (
	"slices"
	"testing"

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
)

func drawRound(t *rapid.T) (kind, round) {
	k := kind(rapid.IntRange(0, 3).Draw(t, "kind"))
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
	case kindGood:
	}
	return kindGood, up(sound())
}

// A flip has a cause: nothing becomes unhealthy without something bad in this very round, nor healthy without
// Config.Good good rounds just before, and what was not read does neither.
func TestNothingFlipsWithoutACause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := health.Default()
		c.Bad, c.Good = rapid.IntRange(1, 3).Draw(t, "bad"), rapid.IntRange(1, 4).Draw(t, "good")
		var s health.State
		var kinds []kind
		before := maybe
		for i := range rapid.IntRange(1, 40).Draw(t, "rounds") {
			k, r := drawRound(t)
			r.reading.At = at(i)
			kinds = append(kinds, k)
			var v []health.Verdict
			s, v = health.Next(c, s, health.Input{Reading: r.reading})
			if len(v) == 0 {
				continue
			}
			now := v[0].Status
			switch {
			case now == before:
			case now == no && k != kindBad && k != kindGrave:
				t.Fatalf("unhealthy after %v", kinds)
			case now == no && k == kindBad && c.Bad > 1 && !slices.Contains(kinds[:i], kindBad):
				t.Fatalf("unhealthy after one bad reading: %v", kinds)
			case now == yes && (len(kinds) < c.Good || slices.ContainsFunc(kinds[len(kinds)-c.Good:], func(k kind) bool { return k != kindGood })):
				t.Fatalf("healthy after %v", kinds)
			case before == no && now == maybe:
				t.Fatalf("what was unhealthy is unknown after %v", kinds)
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
		for i := range n {
			_, r := drawRound(t)
			r.reading.At = at(i)
			var events []gpu.Event
			if x := rapid.SampledFrom([]uint64{0, 0, 13, 95, 119}).Draw(t, "xid"); x != 0 {
				events = append(events, gpu.Event{At: at(i), UUID: "GPU-a", XID: x, Kind: gpu.EventXID})
			}
			s, _ = health.Next(c, s, health.Input{Reading: r.reading, Events: events})
		}
		var v []health.Verdict
		for i := range 2*c.Good + 1 {
			r := up(sound(func(d *gpu.Device) { d.Health.UncorrectedECC = new(uint64(7)) }))
			r.reading.At = at(n + i)
			s, v = health.Next(c, s, health.Input{Reading: r.reading})
		}
		if v[0].Status != yes {
			t.Fatalf("still %+v", v[0])
		}
	})
}
