package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// Next judges one round. It returns what is to be remembered, and the verdicts on all GPUs that were ever seen, by
// index.
func Next(c Config, s State, in Input) (State, []Verdict) {
	found := map[string]gpu.Device{}
	up := in.Reading.State == gpu.Up
	if up {
		for _, d := range in.Reading.Devices {
			if d.UUID != "" {
				found[d.UUID] = d
			}
		}
	}
	next := s.with(found, in.Reading)
	anew := up && s.anew(in.Reading)
	if anew || up && s.letGo {
		maps.DeleteFunc(next.devices, func(uuid string, d device) bool {
			_, here := found[uuid]
			return !here && (anew || d.verdict.Status != corev1.ConditionFalse) // what is sick is not forgotten for being away
		})
	}
	next.unattributed, _ = c.gather(s.unattributed, in, next.strangers(in.Events))
	for uuid, before := range next.devices {
		d := before.clone()
		one, here := found[uuid]
		switch {
		case anew, here && d.restarted(one) && in.Reading.Module == 0:
			d.void(Reset, Reboot)
			d.ecc, d.growths, d.up = nil, nil, map[int]bool{}
		case here && d.restarted(one):
			d.void(Reset)
			d.ecc, d.growths = nil, nil
		case up && s.letGo:
			d.void(Reset)
		}
		var stands bool
		if d.errors, stands = c.gather(d.errors, in, append(owner{uuid}, d.verdict.MIG...)); stands {
			d.overruled = 0
		}
		if here {
			d.look(c, in.Reading.At, one)
		} else {
			d.miss(c)
		}
		d.judge(c, in.Reading, found)
		next.devices[uuid] = d
	}
	next.letGo = in.Reading.State == gpu.Released || s.letGo && !up
	return next, next.Verdicts()
}

// with returns a copy of the state that knows the GPUs that were found, the driver and what was missed.
func (s State) with(found map[string]gpu.Device, r gpu.Reading) State {
	next := State{devices: maps.Clone(s.devices), driver: cmp.Or(r.Driver, s.driver), module: cmp.Or(r.Module, s.module), missed: s.missed}
	if next.devices == nil {
		next.devices = map[string]device{}
	}
	for uuid := range found {
		if _, known := next.devices[uuid]; !known {
			next.devices[uuid] = newDevice(uuid, r)
		}
	}
	return next
}

// strangers are the UUIDs in the events that belong to no GPU that is known.
func (s *State) strangers(events []gpu.Event) owner {
	mine := map[string]bool{}
	for uuid, d := range s.devices {
		mine[uuid] = true
		for _, m := range d.verdict.MIG {
			mine[m] = true
		}
	}
	var others owner
	for _, e := range events {
		if e.Kind == gpu.EventGap && e.At.After(s.missed) {
			s.missed = e.At
		}
		if !mine[e.UUID] {
			others = append(others, e.UUID)
		}
	}
	return others
}

func newDevice(uuid string, r gpu.Reading) device {
	return device{verdict: Verdict{UUID: uuid, Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownUnjudged, Since: r.At}}
}

// anew reports whether the driver was loaded anew since it was read last.
func (s State) anew(r gpu.Reading) bool {
	return r.Driver != "" && s.driver != "" && r.Driver != s.driver || r.Module != 0 && s.module != 0 && r.Module != s.module
}

// void ends what errors of these classes have begun. A driver that was loaded anew is as good as a reboot; a counter of
// memory errors that starts again is that of a reset, or of a driver that was loaded anew where it does not say so; and
// while the driver was let go of a GPU may have been reset, and nothing may tell. A GPU that is sick stays so until it was
// read.
func (d *device) void(classes ...Class) {
	for i, e := range d.errors {
		if slices.Contains(classes, e.Class) {
			d.errors[i].Stands = false
		}
	}
}

// restarted reports whether the counter of memory errors has started again.
func (d *device) restarted(r gpu.Device) bool {
	now := r.Health.UncorrectedECC
	return now != nil && d.ecc != nil && *now < *d.ecc
}

// miss takes that nothing was read of the GPU. An error that the driver reported needs no reading.
func (d *device) miss(c Config) {
	d.sound, d.unread = 0, d.unread+1
	if state, detail := d.standing(gpu.Device{Lost: true}); state == isBad {
		t := d.tracks[v1alpha1.GPUFalseXID]
		t.bad, t.good, t.detail = t.bad+1, 0, detail
		t.sick = t.sick || t.bad >= c.Bad
		d.tracks[v1alpha1.GPUFalseXID] = t
	}
}

// look takes what was read of the GPU.
func (d *device) look(c Config, at time.Time, r gpu.Device) {
	d.verdict.Index = r.Index
	d.verdict.MIG = nil
	for _, m := range r.MIG {
		if m.UUID != "" {
			d.verdict.MIG = append(d.verdict.MIG, m.UUID)
		}
	}
	if !r.Lost && r.Fault == "" {
		d.count(c, r.Health.UncorrectedECC, at)
	}
	bad, known := false, r.Lost
	for _, reason := range severity() {
		state, detail := d.find(c, reason, r)
		t := d.tracks[reason]
		switch state {
		case isBad:
			bad = true
			t.bad, t.good, t.detail = t.bad+1, 0, detail
			t.sick = t.sick || t.bad >= c.Bad || atOnce(reason)
		case isGood:
			t.bad, t.good = 0, t.good+1
			t.sick = t.sick && t.good < c.Good
		case isUnknown:
		}
		known = known || state != isUnknown && reason != v1alpha1.GPUFalseLost && reason != v1alpha1.GPUFalseXID
		d.tracks[reason] = t
	}
	d.overrule(c, r)
	d.note(r)
	switch {
	case r.Lost, r.Fault != "", !known:
		d.sound, d.unread = 0, d.unread+1
	case bad:
		d.sound, d.unread = 0, 0
	default:
		d.sound, d.unread = d.sound+1, 0
	}
}

// overrule ends what XIDs began once the driver has said often enough that no action is needed.
func (d *device) overrule(c Config, r gpu.Device) {
	if r.Lost || r.Fault != "" || r.Health.Recovery == nil {
		return // what is not known ends nothing and begins nothing
	}
	if *r.Health.Recovery != gpu.RecoveryNone {
		d.overruled = 0
		return
	}
	d.overruled++
	if d.overruled < c.Good {
		return
	}
	for i, e := range d.errors {
		if e.Class == Reset {
			d.errors[i].Stands = false
		}
	}
}

// note keeps what is worth knowing and no fault.
func (d *device) note(r gpu.Device) {
	d.verdict.Notes = nil
	if p := r.Health.RemapPending; p != nil && *p {
		d.verdict.Notes = append(d.verdict.Notes, "rows of memory wait for a reset to be replaced")
	}
}

// judge turns what is known of the GPU into its verdict.
func (d *device) judge(c Config, r gpu.Reading, found map[string]gpu.Device) {
	one, here := found[d.verdict.UUID]
	v := d.verdict
	v.Errors = d.errors
	v.Lost = d.tracks[v1alpha1.GPUFalseLost].sick
	before := v.Status
	reason, details := d.sick()
	switch {
	case reason != "":
		v.Status, v.Reason, v.Message = corev1.ConditionFalse, reason, details
	case before == corev1.ConditionFalse && d.sound < c.Good:
	case r.State == gpu.Released:
		v.Status, v.Reason, v.Message = corev1.ConditionUnknown, v1alpha1.GPUUnknownReleased, strings.TrimSpace("the driver is released "+r.Message)
	case d.unread >= c.Bad:
		v.Status, v.Reason, v.Message = corev1.ConditionUnknown, v1alpha1.GPUUnknownUnread, unread(r, one, here)
	case before == corev1.ConditionTrue, d.sound >= c.Good:
		v.Status, v.Reason, v.Message = corev1.ConditionTrue, v1alpha1.GPUTrueHealthy, ""
	case d.sound > 0:
		v.Status, v.Reason, v.Message = corev1.ConditionUnknown, v1alpha1.GPUUnknownUnjudged, ""
	}
	if v.Status != before {
		v.Since = r.At
	}
	d.verdict = v
}

// sick returns the gravest finding, and what there is to say about all; empty if there is none.
func (d *device) sick() (v1alpha1.GPUReason, string) {
	var first v1alpha1.GPUReason
	var details []string
	for _, reason := range severity() {
		if t := d.tracks[reason]; t.sick {
			first = cmp.Or(first, reason)
			details = append(details, t.detail)
		}
	}
	return first, strings.Join(details, "; ")
}

// unread says why nothing is known of a GPU.
func unread(r gpu.Reading, one gpu.Device, here bool) string {
	switch {
	case here:
		return cmp.Or(one.Fault, "the driver tells nothing about its health")
	case r.State == gpu.Up:
		return "the driver does not list it any more"
	case r.State == gpu.Absent:
		return "the NVML library is gone"
	}
	return r.Message
}
