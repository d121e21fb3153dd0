package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// A finding is what one reading says about one thing.
type finding int

// The findings.
const (
	isUnknown finding = iota
	isGood
	isBad
)

// The reasons for low clocks that are faults of the hardware around the GPU: slowdown, heat, power brake. All others
// are its normal life.
const faultyClocks = 0x8 | 0x40 | 0x80

// find looks for one kind of finding in what was read.
func (d *device) find(c Config, reason v1alpha1.GPUReason, r gpu.Device) (finding, string) {
	if reason == v1alpha1.GPUFalseLost && r.Lost {
		return isBad, "does not answer any more"
	}
	if reason == v1alpha1.GPUFalseXID {
		return d.standing(r)
	}
	if r.Lost || r.Fault != "" {
		return isUnknown, ""
	}
	h := r.Health
	switch reason {
	case v1alpha1.GPUFalseLost:
		return isGood, ""
	case v1alpha1.GPUFalseRecovery:
		if h.Recovery == nil {
			return isUnknown, ""
		}
		return badIf(*h.Recovery != gpu.RecoveryNone), "needs " + action(*h.Recovery)
	case v1alpha1.GPUFalseECC:
		if h.UncorrectedECC == nil {
			return isUnknown, ""
		}
		return badIf(len(d.growths) >= c.Bad), "uncorrected memory errors keep coming"
	case v1alpha1.GPUFalseRemap:
		if h.RemapFailed == nil {
			return isUnknown, ""
		}
		return badIf(*h.RemapFailed), "a row of memory could not be replaced"
	case v1alpha1.GPUFalseLink:
		return d.links(h.Links)
	case v1alpha1.GPUFalseThermal:
		if h.ClockEvents == nil {
			return isUnknown, ""
		}
		return badIf(*h.ClockEvents&faultyClocks != 0), "clocks are low: " + slowdown(*h.ClockEvents)
	case v1alpha1.GPUFalseXID, v1alpha1.GPUTrueHealthy, v1alpha1.GPUUnknownUnread, v1alpha1.GPUUnknownReleased,
		v1alpha1.GPUUnknownUnjudged, v1alpha1.GPUUnknownUnassigned:
	}
	return isUnknown, ""
}

func badIf(bad bool) finding { //nolint:revive // the value is what is converted
	if bad {
		return isBad
	}
	return isGood
}

// standing judges the errors that the driver reported. A driver that is asked and needs no action speaks for the GPU
// once it is sick, not before: the action may be set a moment after the error.
func (d *device) standing(r gpu.Device) (finding, string) {
	var words []string
	overruling := d.tracks[v1alpha1.GPUFalseXID].sick && d.overruled > 0 && !r.Lost && r.Fault == "" &&
		r.Health.Recovery != nil && *r.Health.Recovery == gpu.RecoveryNone
	for _, e := range d.errors {
		if !e.Stands {
			continue
		}
		if w := e.words(); !slices.Contains(words, w) {
			words = append(words, w)
		}
		overruling = overruling && e.Class == Reset
	}
	switch {
	case len(words) > 0 && !overruling:
		return isBad, strings.Join(words, ", ")
	case r.Lost || r.Fault != "":
		return isUnknown, ""
	}
	return isGood, ""
}

func (e Error) words() string {
	if e.Kind == gpu.EventXID {
		return fmt.Sprintf("XID %d, which asks for a %s", e.XID, e.Class)
	}
	return "reported as unavailable"
}

// count takes the counter of uncorrected memory errors. What counts is the readings in which it grew: many errors in
// one reading are one row of memory that was read, and one such is the application's, whose memory it was.
func (d *device) count(c Config, now *uint64, at time.Time) {
	d.growths = slices.DeleteFunc(d.growths, func(t time.Time) bool { return at.Sub(t) > c.Window || at.Before(t) })
	if now == nil {
		return
	}
	if d.ecc != nil && *now > *d.ecc {
		d.growths = append(d.growths, at)
		d.growths = d.growths[max(0, len(d.growths)-c.Bad):] // older ones change nothing
	}
	n := *now
	d.ecc = &n
}

// links judges the links that were up before.
func (d *device) links(now []gpu.Link) (finding, string) {
	active := map[int]bool{}
	for _, l := range now {
		active[l.Number] = l.Active
		if l.Active {
			d.up[l.Number] = true
		}
	}
	var down []string
	missing := false
	for n := range d.up {
		switch on, listed := active[n]; {
		case !listed:
			missing = true
		case !on:
			down = append(down, fmt.Sprint(n))
		}
	}
	slices.Sort(down)
	switch {
	case len(down) > 0:
		return isBad, "NVLink " + strings.Join(down, ", ") + " down"
	case missing || len(now) == 0:
		return isUnknown, ""
	}
	return isGood, ""
}

// slowdown names the bits of faultyClocks.
func slowdown(bits uint64) string {
	var words []string
	for _, b := range []struct {
		bit  uint64
		word string
	}{{0x40, "heat"}, {0x80, "power brake"}, {0x8, "hardware slowdown"}} {
		if bits&b.bit != 0 {
			words = append(words, b.word)
		}
	}
	return strings.Join(words, ", ")
}

// action names a recovery action.
func action(r gpu.Recovery) string {
	switch r {
	case gpu.RecoveryNone:
		return "nothing"
	case gpu.RecoveryReset:
		return "a reset"
	case gpu.RecoveryReboot:
		return "a reboot of the node"
	case gpu.RecoveryDrainP2P:
		return "an end of its peer-to-peer traffic"
	case gpu.RecoveryDrainAndReset:
		return "to be drained and reset"
	case gpu.RecoveryIMEX:
		return "a recovery of its IMEX domain"
	case gpu.RecoveryBusReset:
		return "a reset of its bus"
	case gpu.RecoverySystemReboot:
		return "a reboot of the system"
	}
	return fmt.Sprintf("recovery action %d", int(r))
}
