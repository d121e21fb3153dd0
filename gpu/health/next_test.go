package health_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

const (
	yes   = corev1.ConditionTrue
	no    = corev1.ConditionFalse
	maybe = corev1.ConditionUnknown
)

// start is when a scenario begins; its rounds are ten seconds apart.
var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func at(round int) time.Time { return start.Add(time.Duration(round) * 10 * time.Second) }

// sound is a GPU with nothing wrong.
func sound(change ...func(*gpu.Device)) gpu.Device {
	d := gpu.Device{UUID: "GPU-a", Minor: 0, Health: gpu.Health{
		Recovery: new(gpu.RecoveryNone), UncorrectedECC: new(uint64(7)),
		RemapPending: new(false), RemapFailed: new(false), ClockEvents: new(uint64(0x4)),
		Links: []gpu.Link{{Number: 0, Active: true}, {Number: 1, Active: false}},
	}}
	for _, f := range change {
		f(&d)
	}
	return d
}

func lost(d *gpu.Device)           { *d = gpu.Device{UUID: d.UUID, Index: d.Index, Lost: true} }
func faulty(d *gpu.Device)         { d.Fault, d.Health = "unknown error", gpu.Health{} }
func hot(d *gpu.Device)            { d.Health.ClockEvents = new(uint64(0x4 | 0x40)) }
func busy(d *gpu.Device)           { d.Health.ClockEvents = new(uint64(0x4 | 0x10 | 0x20 | 0x200)) }
func needs(r gpu.Recovery) setting { return func(d *gpu.Device) { d.Health.Recovery = &r } }
func ecc(n uint64) setting         { return func(d *gpu.Device) { d.Health.UncorrectedECC = &n } }
func noECC(d *gpu.Device)          { d.Health.UncorrectedECC = nil }
func old(d *gpu.Device)            { d.Health.Recovery = nil }
func silent(d *gpu.Device)         { d.Health = gpu.Health{} }
func cut(d *gpu.Device)            { d.Health.Links = []gpu.Link{{Number: 0}, {Number: 1}} }
func unlinked(d *gpu.Device)       { d.Health.Links = nil }
func remapFails(d *gpu.Device)     { d.Health.RemapFailed = new(true) }
func remapWaits(d *gpu.Device)     { d.Health.RemapPending = new(true) }
func withMIG(d *gpu.Device)        { d.MIG = []gpu.MIG{{UUID: "MIG-a"}} }
func nameless(d *gpu.Device)       { d.MIG = []gpu.MIG{{}} }

type setting = func(*gpu.Device)

// A round is one reading, with what the driver reported before it.
type round struct {
	reading gpu.Reading
	events  []gpu.Event
	windows []health.Window
}

func up(devices ...gpu.Device) round {
	return round{reading: gpu.Reading{State: gpu.Up, Driver: "570", Devices: devices}}
}

// good are n rounds of a sound GPU.
func good(n int, change ...setting) []round {
	var rounds []round
	for range n {
		rounds = append(rounds, up(sound(change...)))
	}
	return rounds
}

// module has the rounds read by a driver that was loaded as module n.
func module(n uint64, rounds []round) []round {
	for i := range rounds {
		rounds[i].reading.Module = n
	}
	return rounds
}

func state(s gpu.State, n int) []round {
	var rounds []round
	for range n {
		rounds = append(rounds, round{reading: gpu.Reading{State: s, Message: "no answer"}})
	}
	return rounds
}

// xid adds an event to the first of the rounds.
func xid(n uint64, rounds []round) []round {
	return event(gpu.Event{UUID: "GPU-a", XID: n, Kind: gpu.EventXID}, rounds)
}

func event(e gpu.Event, rounds []round) []round {
	rounds[0].events = append(rounds[0].events, e)
	return rounds
}

// updating opens an update of the GPU's Pod over all the rounds.
func updating(rounds []round) []round {
	for i := range rounds {
		rounds[i].windows = []health.Window{{UUIDs: []string{"GPU-a"}, From: start}}
	}
	return rounds
}

func script(parts ...[]round) []round {
	var all []round
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// play runs the rounds and returns the last verdicts. Each round is judged twice, to see that Next changes nothing
// that it was given.
func play(t *testing.T, rounds []round) (health.State, []health.Verdict) {
	t.Helper()
	var s health.State
	var v []health.Verdict
	for i, r := range rounds {
		r.reading.At = at(i)
		for j := range r.events {
			r.events[j].At = at(i)
		}
		in := health.Input{Reading: r.reading, Events: r.events, Windows: r.windows}
		next, verdicts := health.Next(health.Default(), s, in)
		_, again := health.Next(health.Default(), s, in)
		if diff := cmp.Diff(verdicts, again); diff != "" {
			t.Fatalf("round %d judged twice (-first +second):\n%s", i, diff)
		}
		s, v = next, verdicts
	}
	return s, v
}

func TestAGPUIsJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		rounds []round
		status corev1.ConditionStatus
		reason v1alpha1.GPUReason
		words  string
	}{
		"nothing is known after two readings":                   {good(2), maybe, v1alpha1.GPUUnknownUnjudged, ""},
		"it is healthy after three good readings":               {good(3), yes, v1alpha1.GPUTrueHealthy, ""},
		"the normal reasons for low clocks are none":            {good(3, busy), yes, v1alpha1.GPUTrueHealthy, ""},
		"a driver that tells less is enough":                    {good(3, old, noECC, unlinked), yes, v1alpha1.GPUTrueHealthy, ""},
		"a driver that tells nothing is not":                    {good(5, silent), maybe, v1alpha1.GPUUnknownUnread, "tells nothing"},
		"rows that wait for a reset are worth a note":           {good(4, remapWaits), yes, v1alpha1.GPUTrueHealthy, "rows of memory wait"},
		"a lost GPU is sick at once":                            {script(good(3), good(1, lost)), no, v1alpha1.GPUFalseLost, "does not answer"},
		"a lost GPU is sick from the first reading":             {good(1, lost), no, v1alpha1.GPUFalseLost, ""},
		"a lost GPU is lost until it answered three times":      {script(good(1, lost), good(2)), no, v1alpha1.GPUFalseLost, ""},
		"a lost GPU that answers again is healthy":              {script(good(1, lost), good(3)), yes, v1alpha1.GPUTrueHealthy, ""},
		"a recovery action counts at once":                      {script(good(3), good(1, needs(gpu.RecoveryReset))), no, v1alpha1.GPUFalseRecovery, "a reset"},
		"a recovery action that this code does not know counts": {script(good(3), good(1, needs(42))), no, v1alpha1.GPUFalseRecovery, "recovery action 42"},
		"a recovery action that is gone needs three readings":   {script(good(1, needs(gpu.RecoveryReset)), good(2)), no, v1alpha1.GPUFalseRecovery, ""},
		"a recovery action that is not told is not gone":        {script(good(1, needs(gpu.RecoveryReset)), good(9, old)), no, v1alpha1.GPUFalseRecovery, ""},
		"one hot reading is none":                               {script(good(3), good(1, hot)), yes, v1alpha1.GPUTrueHealthy, ""},
		"two hot readings in a row are":                         {script(good(3), good(2, hot)), no, v1alpha1.GPUFalseThermal, "heat"},
		"two hot readings not in a row are none":                {script(good(3), good(1, hot), good(1), good(1, hot)), yes, v1alpha1.GPUTrueHealthy, ""},
		"an unread one between two hot ones does not end them":  {script(good(3), good(1, hot), good(1, faulty), good(1, hot)), no, v1alpha1.GPUFalseThermal, ""},
		"one memory error is the application's":                 {script(good(3, ecc(7)), good(3, ecc(8))), yes, v1alpha1.GPUTrueHealthy, ""},
		"many memory errors from before are none":               {good(3, ecc(900)), yes, v1alpha1.GPUTrueHealthy, ""},
		"memory errors that keep coming are the GPU's":          {script(good(3), good(1, ecc(8)), good(1, ecc(9))), no, v1alpha1.GPUFalseECC, ""},
		"two memory errors in ten minutes keep coming":          {script(good(3), good(50, ecc(8)), good(1, ecc(9))), no, v1alpha1.GPUFalseECC, ""},
		"two memory errors in an hour do not":                   {script(good(3), good(70, ecc(8)), good(3, ecc(9))), yes, v1alpha1.GPUTrueHealthy, ""},
		"many memory errors in one reading are one":             {script(good(3), good(3, ecc(90))), yes, v1alpha1.GPUTrueHealthy, ""},
		"memory errors that came are not over at once":          {script(good(3), good(1, ecc(8)), good(30, ecc(9))), no, v1alpha1.GPUFalseECC, ""},
		"memory errors are over after ten minutes without one":  {script(good(3), good(1, ecc(8)), good(63, ecc(9))), yes, v1alpha1.GPUTrueHealthy, ""},
		"they are over once a reset made the counter start":     {script(good(3), good(1, ecc(8)), good(1, ecc(9)), good(3, ecc(0))), yes, v1alpha1.GPUTrueHealthy, ""},
		"errors of a counter that is not told are not over":     {script(good(3), good(1, ecc(8)), good(1, ecc(9)), good(99, noECC)), no, v1alpha1.GPUFalseECC, ""},
		"an error beside a counter that is not told counts":     {script(good(3), good(1, ecc(8)), good(9, noECC), good(1, ecc(9))), no, v1alpha1.GPUFalseECC, ""},
		"a counter that starts anew is no error":                {script(good(3), good(1, ecc(0)), good(1, ecc(0))), yes, v1alpha1.GPUTrueHealthy, ""},
		"a row that could not be replaced":                      {script(good(3), good(2, remapFails)), no, v1alpha1.GPUFalseRemap, ""},
		"a link that was up and is down":                        {script(good(3), good(2, cut)), no, v1alpha1.GPUFalseLink, "NVLink 0 down"},
		"a link that never was up":                              {good(5, cut), yes, v1alpha1.GPUTrueHealthy, ""},
		"links that are not told are not down":                  {script(good(3), good(5, unlinked)), yes, v1alpha1.GPUTrueHealthy, ""},
		"links that are not told are not up again":              {script(good(3), good(2, cut), good(9, unlinked)), no, v1alpha1.GPUFalseLink, ""},
		"the gravest finding gives the reason":                  {script(good(3), good(2, cut, hot, needs(gpu.RecoveryReboot))), no, v1alpha1.GPUFalseRecovery, "a reboot of the node; NVLink 0 down; clocks are low: heat"},
		"one failed reading changes nothing":                    {script(good(3), good(1, faulty)), yes, v1alpha1.GPUTrueHealthy, ""},
		"two failed readings make it unknown":                   {script(good(3), good(2, faulty)), maybe, v1alpha1.GPUUnknownUnread, "unknown error"},
		"a probe that is gone makes it unknown":                 {script(good(3), state(gpu.Unknown, 2)), maybe, v1alpha1.GPUUnknownUnread, "no answer"},
		"a GPU that is not listed any more is unknown":          {script(good(3), []round{up(), up()}), maybe, v1alpha1.GPUUnknownUnread, "does not list it"},
		"a probe that is gone heals nobody":                     {script(good(3), good(2, hot), state(gpu.Unknown, 9)), no, v1alpha1.GPUFalseThermal, ""},
		"after a gap it takes three good readings":              {script(good(3), state(gpu.Unknown, 2), good(2)), maybe, v1alpha1.GPUUnknownUnjudged, ""},
		"a release of the driver is said at once":               {script(good(3), state(gpu.Released, 1)), maybe, v1alpha1.GPUUnknownReleased, ""},
		"a release of the driver heals nobody":                  {script(good(2, hot), state(gpu.Released, 9)), no, v1alpha1.GPUFalseThermal, ""},
		"an application's XID is none":                          {script(good(3), xid(31, good(3))), yes, v1alpha1.GPUTrueHealthy, ""},
		"an XID that is not in the table is none":               {script(good(3), xid(9999, good(3))), yes, v1alpha1.GPUTrueHealthy, ""},
		"an XID to look further at is none":                     {script(good(3), xid(48, good(3))), yes, v1alpha1.GPUTrueHealthy, ""},
		"a grave XID waits for the next reading":                {script(good(3), xid(95, good(1))), yes, v1alpha1.GPUTrueHealthy, ""},
		"a grave XID makes it sick with the next reading":       {script(good(3), xid(95, good(2))), no, v1alpha1.GPUFalseXID, "XID 95, which asks for a reset"},
		"a grave XID stands where the driver does not say":      {script(good(3, old), xid(95, good(99, old))), no, v1alpha1.GPUFalseXID, ""},
		"a driver that needs no action has the last word":       {script(good(3), xid(95, good(5))), yes, v1alpha1.GPUTrueHealthy, ""},
		"the last word is no word on the next XID":              {script(good(3), xid(95, good(4)), xid(95, good(2))), no, v1alpha1.GPUFalseXID, ""},
		"a driver's word does not undo a fall off the bus":      {script(good(3), xid(79, good(20))), no, v1alpha1.GPUFalseXID, "XID 79, which asks for a reboot"},
		"a fall off the bus needs no further reading":           {script(good(3), xid(79, state(gpu.Unknown, 2))), no, v1alpha1.GPUFalseXID, ""},
		"a GPU reported as unavailable":                         {script(good(3), event(gpu.Event{UUID: "GPU-a", Kind: gpu.EventUnavailable}, good(2))), no, v1alpha1.GPUFalseXID, "unavailable"},
		"after a release an XID is judged anew":                 {script(good(3, old), xid(95, good(3, old)), state(gpu.Released, 2), good(3, old)), yes, v1alpha1.GPUTrueHealthy, ""},
		"after a release it takes three good readings":          {script(good(3, old), xid(95, good(3, old)), state(gpu.Released, 2), good(2, old)), no, v1alpha1.GPUFalseXID, ""},
		"a release is no reboot":                                {script(good(3), xid(79, good(3)), state(gpu.Released, 2), good(9)), no, v1alpha1.GPUFalseXID, "XID 79"},
		"a driver loaded anew in it is seen by memory errors":   {script(good(3), xid(79, good(3, ecc(9))), state(gpu.Released, 2), good(3, ecc(0))), yes, v1alpha1.GPUTrueHealthy, ""},
		"where the module tells, these are those of a reset":    {module(1, script(good(3), xid(79, good(3, ecc(9))), good(9, ecc(0)))), no, v1alpha1.GPUFalseXID, ""},
		"a reset is good for what asks for one":                 {module(1, script(good(3, old), xid(95, good(3, old, ecc(9))), good(3, old, ecc(0)))), yes, v1alpha1.GPUTrueHealthy, ""},
		"a release is no end of memory errors":                  {script(good(3), good(1, ecc(8)), good(1, ecc(9)), state(gpu.Released, 2), good(9, ecc(9))), no, v1alpha1.GPUFalseECC, ""},
		"memory errors in a release count":                      {script(good(3), good(1, ecc(8)), state(gpu.Released, 2), good(1, ecc(9))), no, v1alpha1.GPUFalseECC, ""},
		"a link may be off in a driver that was loaded anew":    {script(module(1, good(3)), module(2, good(3, cut))), yes, v1alpha1.GPUTrueHealthy, ""},
		"another module of the same driver is as good":          {script(module(1, good(3)), module(1, xid(79, good(3))), state(gpu.Released, 2), module(2, good(3))), yes, v1alpha1.GPUTrueHealthy, ""},
		"a module that is not told is no other":                 {script(module(1, good(3)), module(1, xid(79, good(3))), good(9)), no, v1alpha1.GPUFalseXID, ""},
		"a driver that was loaded anew ends an XID":             {script(good(3, old), xid(79, good(3, old)), good(3, old, ecc(0))), yes, v1alpha1.GPUTrueHealthy, ""},
		"an XID of another GPU is not its own":                  {script(good(3), event(gpu.Event{UUID: "GPU-b", XID: 79, Kind: gpu.EventXID}, good(3))), yes, v1alpha1.GPUTrueHealthy, ""},
		"an XID of its MIG device is":                           {script(good(3, withMIG), event(gpu.Event{UUID: "MIG-a", XID: 79, Kind: gpu.EventXID}, good(3, withMIG))), no, v1alpha1.GPUFalseXID, ""},
		"an event of nobody is not that of a nameless one":      {script(good(3, nameless), event(gpu.Event{XID: 79, Kind: gpu.EventXID}, good(3, nameless))), yes, v1alpha1.GPUTrueHealthy, ""},
		"a sick GPU that a release took away is sick":           {script(good(3), xid(79, good(3)), state(gpu.Released, 2), []round{up(), up()}), no, v1alpha1.GPUFalseXID, ""},
		"in an update the end of the engine is expected":        {updating(script(good(3), xid(43, good(3)))), yes, v1alpha1.GPUTrueHealthy, ""},
		"in an update a fall off the bus is not":                {updating(script(good(3), xid(79, good(3)))), no, v1alpha1.GPUFalseXID, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, all := play(t, tt.rounds)
			v, missing := health.Of(all, []string{"GPU-a"})
			if len(missing) > 0 {
				t.Fatalf("no verdict on the GPU in %+v", all)
			}
			sum := health.Sum(v, nil)
			if sum.Status != tt.status || sum.Reason != tt.reason || !strings.Contains(sum.Message, tt.words) {
				t.Errorf("judged %s %s %q, want %s %s %q", sum.Status, sum.Reason, sum.Message, tt.status, tt.reason, tt.words)
			}
			if wantLost := tt.reason == v1alpha1.GPUFalseLost; v[0].Lost != wantLost {
				t.Errorf("lost is %t", v[0].Lost)
			}
		})
	}
}

func TestANodeWithoutGPUsHasNoVerdict(t *testing.T) {
	for name, rounds := range map[string][]round{
		"no library":     state(gpu.Absent, 5),
		"no probe":       state(gpu.Unknown, 5),
		"no GPU":         {up(), up(), up()},
		"no name of one": {up(gpu.Device{Index: 0, Fault: "x"})},
		"a driver loaded anew that does not list a sick one": script(module(1, good(3)), module(1, xid(79, good(3))), module(2, []round{up()})),
		"an event anyway": event(gpu.Event{XID: 79, Kind: gpu.EventXID}, []round{up()}),
	} {
		t.Run(name, func(t *testing.T) {
			s, v := play(t, rounds)
			if s.Known() || len(v) > 0 {
				t.Errorf("verdicts %+v", v)
			}
		})
	}
}

func TestErrorsAreCountedOnce(t *testing.T) {
	many := good(3)
	for range 800 {
		many = xid(13, many)
	}
	rounds := script(updating(many), good(70), xid(13, good(1)))
	_, v := play(t, rounds)
	want := []health.Error{
		{Kind: gpu.EventXID, XID: 13, Class: health.Application, First: at(0), Last: at(0), Count: 800, Expected: true},
		{Kind: gpu.EventXID, XID: 13, Class: health.Application, First: at(73), Last: at(73), Count: 1, Fresh: true},
	}
	if diff := cmp.Diff(want, v[0].Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	var rounds []round
	for n := range uint64(500) {
		rounds = append(rounds, xid(n+1000, good(1))...)
	}
	rounds = append(script(xid(79, good(1)), event(gpu.Event{XID: 3, Kind: gpu.EventXID}, good(1))), rounds...)
	s, v := play(t, rounds)
	if n := len(v[0].Errors); n > 32 || v[0].Errors[0].XID != 79 {
		t.Errorf("%d errors are kept, the first is %+v", n, v[0].Errors[0])
	}
	if u := s.Unattributed(); len(u) != 1 || u[0].XID != 3 || u[0].Stands {
		t.Errorf("unattributed are %+v", u)
	}
}

func TestAGapIsRemembered(t *testing.T) {
	s, _ := play(t, script(good(1), event(gpu.Event{Kind: gpu.EventGap}, good(1)), good(3)))
	if !s.Missed().Equal(at(1)) {
		t.Errorf("events were missed at %s", s.Missed())
	}
}

func TestTheWorstGPUDecides(t *testing.T) {
	verdict := func(i int, s corev1.ConditionStatus, r v1alpha1.GPUReason, message string) health.Verdict {
		return health.Verdict{UUID: fmt.Sprintf("GPU-%d", i), Index: i, Status: s, Reason: r, Message: message, Lost: r == v1alpha1.GPUFalseLost}
	}
	fine, hot := verdict(0, yes, v1alpha1.GPUTrueHealthy, ""), verdict(1, no, v1alpha1.GPUFalseThermal, "hot")
	gone, dark := verdict(2, no, v1alpha1.GPUFalseLost, "gone"), verdict(3, maybe, v1alpha1.GPUUnknownUnread, "dark")
	long := verdict(4, no, v1alpha1.GPUFalseXID, strings.Repeat("x", 2000))
	for name, tt := range map[string]struct {
		verdicts []health.Verdict
		missing  []string
		want     health.Summary
	}{
		"of none nothing is known":         {nil, nil, health.Summary{Status: maybe, Reason: v1alpha1.GPUUnknownUnread}},
		"all are healthy":                  {[]health.Verdict{fine, fine}, nil, health.Summary{Status: yes, Reason: v1alpha1.GPUTrueHealthy}},
		"one that is not known":            {[]health.Verdict{fine, dark}, nil, health.Summary{Status: maybe, Reason: v1alpha1.GPUUnknownUnread, Message: "GPU 3 (GPU-3): dark"}},
		"one that is not there":            {[]health.Verdict{fine}, []string{"GPU-9"}, health.Summary{Status: maybe, Reason: v1alpha1.GPUUnknownUnread, Message: "GPU-9: is not among the GPUs of the node"}},
		"one that is sick beats unknown":   {[]health.Verdict{dark, hot, fine}, []string{"GPU-9"}, health.Summary{Status: no, Reason: v1alpha1.GPUFalseThermal, Message: "GPU 1 (GPU-1): hot"}},
		"the gravest gives the why, first": {[]health.Verdict{hot, gone}, nil, health.Summary{Status: no, Reason: v1alpha1.GPUFalseLost, Message: "GPU 2 (GPU-2): gone, GPU 1 (GPU-1): hot", Lost: []string{"GPU-2"}}},
		"the same is said once":            {[]health.Verdict{dark, verdict(5, maybe, v1alpha1.GPUUnknownUnread, "dark")}, nil, health.Summary{Status: maybe, Reason: v1alpha1.GPUUnknownUnread, Message: "GPUs 3 (GPU-3), 5 (GPU-5): dark"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, health.Sum(tt.verdicts, tt.missing)); diff != "" {
				t.Errorf("Sum() (-want +got):\n%s", diff)
			}
		})
	}
	if got, want := health.Brief([]health.Verdict{hot, gone, dark}).Message, "GPU 2: gone, GPU 1: hot"; got != want {
		t.Errorf("in brief: %q, want %q", got, want)
	}
	many := make([]health.Verdict, 20)
	for i := range many {
		many[i] = verdict(i, no, v1alpha1.GPUFalseThermal, fmt.Sprintf("hot, %d degrees", i))
	}
	for _, s := range []health.Summary{health.Sum([]health.Verdict{long}, nil), health.Sum(append([]health.Verdict{hot}, long), nil), health.Sum(many, nil)} {
		if len(s.Message) > 520 {
			t.Errorf("the message has %d bytes", len(s.Message))
		}
	}
}

func TestClassesCanBeOverridden(t *testing.T) {
	table, err := health.DefaultTable().Override([]string{"109=application", " 48 = reset ", "12345=reboot"})
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint64]health.Class{109: health.Application, 48: health.Reset, 12345: health.Reboot, 79: health.Reboot, 777: health.Workflow} {
		if got := table.Class(xid); got != want {
			t.Errorf("XID %d is %s, want %s", xid, got, want)
		}
	}
	if got := health.DefaultTable().Class(109); got != health.Reset {
		t.Errorf("the default was changed to %s", got)
	}
	for text, want := range map[string]string{
		"109":         "not XID=CLASS",
		"x=reset":     `"x" is no number`,
		"0=reset":     "1 to 65535",
		"-1=reset":    "1 to 65535",
		"99999=reset": "1 to 65535",
		"13=fatal":    `there is no class "fatal"; there are application, none, reset, reboot, workflow`,
		"13=":         `there is no class ""`,
	} {
		if _, err := health.DefaultTable().Override([]string{text}); !errors.Is(err, health.ErrOverride) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := health.DefaultTable().Override([]string{"13=none", "13=reset"}); !errors.Is(err, health.ErrOverride) {
		t.Errorf("one XID with two classes: %v", err)
	}
	bad := health.Config{Classes: health.Table{7: "odd"}, Window: -1}
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "XID 7") || !strings.Contains(err.Error(), "window") || !strings.Contains(err.Error(), "0 bad") {
		t.Errorf("Validate() = %v", err)
	}
	if err := health.Default().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
}
