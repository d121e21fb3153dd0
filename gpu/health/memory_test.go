package health_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

// A fataler is a test, or a check of a property.
type fataler interface{ Fatal(args ...any) }

// restarted is the state of the next agent on the same node.
func restarted(t fataler, c health.Config, s health.State, now time.Time) health.State {
	data, err := json.Marshal(s.Memory())
	if err != nil {
		t.Fatal(err)
	}
	var m health.Memory
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return c.Recall(m, now)
}

// goOn plays rounds after the first n.
func goOn(c health.Config, s health.State, n int, rounds []round) (health.State, []health.Verdict) {
	v := s.Verdicts()
	for i, r := range rounds {
		r.reading.At = at(n + i)
		for j := range r.events {
			r.events[j].At = at(n + i)
		}
		s, v = health.Next(c, s, health.Input{Reading: r.reading, Events: r.events, Windows: r.windows})
	}
	return s, v
}

func TestARestartForgivesNothing(t *testing.T) {
	driver := func(version string, rounds []round) []round {
		for i := range rounds {
			rounds[i].reading.Driver = version
		}
		return rounds
	}
	for name, tt := range map[string]struct {
		before, after []round
		status        corev1.ConditionStatus
		reason        v1alpha1.GPUReason
	}{
		"a healthy GPU is judged anew":                           {good(3), good(2), maybe, v1alpha1.GPUUnknownUnjudged},
		"a healthy GPU is healthy after three readings":          {good(3), good(3), yes, v1alpha1.GPUTrueHealthy},
		"a GPU that fell off the bus is sick before any reading": {script(good(3), xid(79, good(2))), nil, no, v1alpha1.GPUFalseXID},
		"it is sick however often it is read":                    {script(good(3), xid(79, good(2))), good(50), no, v1alpha1.GPUFalseXID},
		"an error in the last reading stands":                    {script(good(3), xid(79, good(1))), good(50), no, v1alpha1.GPUFalseXID},
		"it is sick while nobody can look":                       {script(good(3), xid(119, good(1, old))), state(gpu.Unknown, 9), no, v1alpha1.GPUFalseXID},
		"it is sick though the library is gone":                  {script(good(3), xid(119, good(1, old))), state(gpu.Absent, 9), no, v1alpha1.GPUFalseXID},
		"it is sick where the driver does not say":               {script(good(3), xid(119, good(2, old))), good(50, old), no, v1alpha1.GPUFalseXID},
		"the driver has the last word, as without a restart":     {script(good(3), xid(119, good(2, old))), good(5), yes, v1alpha1.GPUTrueHealthy},
		"but it has to say it often enough":                      {script(good(3), xid(119, good(2, old))), good(2), no, v1alpha1.GPUFalseXID},
		"another driver ends it":                                 {script(good(3), xid(79, good(2))), driver("580", good(3)), yes, v1alpha1.GPUTrueHealthy},
		"the same driver, loaded anew, ends it":                  {script(good(3), xid(79, good(2))), good(3, ecc(0)), yes, v1alpha1.GPUTrueHealthy},
		"a release before the restart ends it":                   {script(good(3), xid(95, good(2, old)), state(gpu.Released, 1)), good(3, old), yes, v1alpha1.GPUTrueHealthy},
		"a release after it does, too":                           {script(good(3), xid(95, good(2, old))), script(state(gpu.Released, 1), good(3, old)), yes, v1alpha1.GPUTrueHealthy},
		"but not a fall off the bus":                             {script(good(3), xid(79, good(2)), state(gpu.Released, 1)), good(9), no, v1alpha1.GPUFalseXID},
		"the same driver in another module does":                 {script(module(1, good(3)), module(1, xid(79, good(2)))), module(2, good(3)), yes, v1alpha1.GPUTrueHealthy},
		"an error that was expected is none":                     {updating(script(good(3), xid(43, good(2)))), good(3), yes, v1alpha1.GPUTrueHealthy},
		"an error that was overruled is none":                    {script(good(3), xid(119, good(9))), good(3), yes, v1alpha1.GPUTrueHealthy},
		"a link that was up before is down":                      {good(3), good(2, cut), no, v1alpha1.GPUFalseLink},
		"a link that was down before is no news":                 {good(3, cut), good(3, cut), yes, v1alpha1.GPUTrueHealthy},
		"memory errors before and after it are two":              {script(good(3), good(1, ecc(8))), good(1, ecc(9)), no, v1alpha1.GPUFalseECC},
		"a memory error while nobody looked is one":              {script(good(3), good(1, ecc(8))), good(1, ecc(30)), no, v1alpha1.GPUFalseECC},
		"memory errors that came are not over":                   {script(good(3), good(1, ecc(8)), good(1, ecc(9))), good(30, ecc(9)), no, v1alpha1.GPUFalseECC},
		"a recovery action that is not told is not gone":         {script(good(3), good(1, needs(gpu.RecoveryReset))), good(9, old), no, v1alpha1.GPUFalseRecovery},
		"a recovery action is gone after three readings":         {script(good(3), good(1, needs(gpu.RecoveryReset))), good(3), yes, v1alpha1.GPUTrueHealthy},
		"and not after two":                                      {script(good(3), good(1, needs(gpu.RecoveryReset))), good(2), no, v1alpha1.GPUFalseRecovery},
		"links that are not told are not up again":               {script(good(3), good(2, cut)), good(9, unlinked), no, v1alpha1.GPUFalseLink},
		"a GPU that was lost and cannot be read is unknown":      {script(good(3), good(1, lost)), good(2, faulty), maybe, v1alpha1.GPUUnknownUnread},
		"one that is not listed any more is missed":              {good(3), []round{up(), up()}, maybe, v1alpha1.GPUUnknownUnread},
		"nothing is known of one that cannot be read":            {good(3), state(gpu.Unknown, 2), maybe, v1alpha1.GPUUnknownUnread},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := play(t, tt.before)
			n := len(tt.before)
			s = restarted(t, health.Default(), s, at(n))
			_, v := goOn(health.Default(), s, n, tt.after)
			if len(v) != 1 || v[0].Status != tt.status || v[0].Reason != tt.reason {
				t.Errorf("judged %+v, want %s %s", v, tt.status, tt.reason)
			}
		})
	}
}

func TestMemoryErrorsOfAClockThatWasAheadAreNone(t *testing.T) {
	s, _ := play(t, script(good(3), good(1, ecc(8)), good(1, ecc(9))))
	var v []health.Verdict
	for i := range 3 {
		r := up(sound(ecc(9))).reading
		r.At = at(i - 360)
		s, v = health.Next(health.Default(), s, health.Input{Reading: r})
	}
	if v[0].Status != yes {
		t.Errorf("an hour before: %+v", v)
	}
}

func TestWhatStandsIsShownAsItWas(t *testing.T) {
	s, v := play(t, script(good(3, withMIG), xid(13, good(1, withMIG)), xid(79, good(1, withMIG)), xid(79, good(2, withMIG))))
	before := v[0]
	v = restarted(t, health.Default(), s, at(99)).Verdicts()
	want := before
	want.Errors = []health.Error{{Kind: gpu.EventXID, XID: 79, Class: health.Reboot, First: at(4), Last: at(5), Count: 2, Stands: true}}
	want.Since = at(99) // for as long as this agent knows; the condition keeps its own
	if diff := cmp.Diff([]health.Verdict{want}, v); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(want.MIG) == 0 || !strings.Contains(want.Message, "XID 79") {
		t.Errorf("verdict %+v", want)
	}
}

func TestAnErrorIsJudgedByTheTableOfTheNextAgent(t *testing.T) {
	s, _ := play(t, script(good(3), xid(79, good(2))))
	c := health.Default()
	var err error
	if c.Classes, err = c.Classes.Override([]string{"79=application"}); err != nil {
		t.Fatal(err)
	}
	if _, v := goOn(c, restarted(t, c, s, at(5)), 5, good(3)); v[0].Status != yes {
		t.Errorf("judged %+v", v[0])
	}
}

func TestWhatCannotBeOfAGPUIsNotRecalled(t *testing.T) {
	c := health.Default()
	m := health.Memory{GPUs: []health.Remembered{{Errors: []health.Error{{Kind: gpu.EventXID, XID: 79, Stands: true}}}}}
	if s := c.Recall(m, start); s.Known() {
		t.Errorf("recalled %+v", s.Verdicts())
	}
	var many []health.Error
	for range 500 {
		many = append(many, health.Error{Kind: gpu.EventXID, XID: 79, Stands: true, First: start, Last: start})
	}
	v := c.Recall(health.Memory{GPUs: []health.Remembered{{UUID: "GPU-a", Errors: many}}}, start).Verdicts()
	if n := len(v[0].Errors); n > 32 {
		t.Errorf("%d errors are kept", n)
	}
}

func TestWhatIsKeptChangesOnlyWithWhatHappens(t *testing.T) {
	s, _ := play(t, good(3))
	before := s.Memory()
	s, _ = goOn(health.Default(), s, 3, script(good(100), state(gpu.Unknown, 9), good(9, hot), good(9, busy), good(9, remapWaits)))
	if diff := cmp.Diff(before, s.Memory()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// Whenever an agent is restarted, the GPU is judged as if it had not been, once all is seen and has been so for long
// enough.
func TestARestartChangesNothingInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := health.Default()
		c.Bad, c.Good = rapid.IntRange(1, 2).Draw(t, "bad"), rapid.IntRange(1, 4).Draw(t, "good")
		var whole, split health.State
		n := rapid.IntRange(1, 30).Draw(t, "rounds")
		restarts := rapid.SliceOfN(rapid.IntRange(1, n), 1, 3).Draw(t, "restarts")
		count := uint64(7)
		for i := range n {
			k, r := drawRound(t)
			errorsSoFar(&count, k, r)
			if x := rapid.SampledFrom([]uint64{0, 0, 0, 13, 79, 95, 119}).Draw(t, "xid"); x != 0 && k != kindUnknown {
				r.events = append(r.events, gpu.Event{UUID: "GPU-a", XID: x, Kind: gpu.EventXID})
			}
			whole, _ = goOn(c, whole, i, []round{r})
			split, _ = goOn(c, split, i, []round{r})
			if slices.Contains(restarts, i+1) {
				split = restarted(t, c, split, at(i))
			}
		}
		if !whole.Known() {
			return
		}
		last := rapid.SampledFrom([]setting{func(*gpu.Device) {}, cut, hot}).Draw(t, "last")
		for i := range 3 * (c.Bad + c.Good) {
			r := up(sound(last))
			errorsSoFar(&count, kindGood, r)
			whole, _ = goOn(c, whole, n+i, []round{r})
			split, _ = goOn(c, split, n+i, []round{r})
		}
		a, b := whole.Verdicts(), split.Verdicts()
		if len(a) != 1 || len(b) != 1 || a[0].Status != b[0].Status || a[0].Reason != b[0].Reason {
			t.Fatalf("judged %+v without restarts, %+v with", a, b)
		}
	})
}
