package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// inPlace is serving with updates in place, one group after the other.
func inPlace(replicas int32, groups ...string) Snapshot {
	s := serving(replicas, 1, 0, 0).with(groups...)
	s.Serving.InPlace = true
	return s
}

// but changes a snapshot.
func (s Snapshot) but(change func(*Snapshot)) Snapshot {
	change(&s)
	return s
}

// refusedFor gives the reason for which the updates of a group were refused.
func refusedFor(reason v1alpha1.UnitReason, groups ...int) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, i := range groups {
			s.Groups[i].Status.Updates[0].Reason = reason
		}
	}
}

const (
	noDriver = v1alpha1.UnitReason(v1alpha1.WaitingDriver)
	notFound = v1alpha1.UnitReason(v1alpha1.RefusedNotFound)
)

func booked(entries ...string) func(*Snapshot) {
	return func(s *Snapshot) { s.Ledger = entries }
}

// opened changes the open update of the first group.
func opened(change func(*v1alpha1.UnitUpdate)) func(*Snapshot) {
	return func(s *Snapshot) { change(&s.Groups[0].Spec.Updates[0]) }
}

func again(u *v1alpha1.UnitUpdate) { u.Tries = 5 }

func swappedBefore(u *v1alpha1.UnitUpdate) { u.Swapped = true }

func TestUnitsArePreparedAheadOfTheBudget(t *testing.T) {
	run(t, map[string]row{
		"twice as many as may be taken, the highest first": {
			inPlace(4, "0 old ready", "1 old ready", "2 old ready", "3 old ready"),
			[]string{"ms-2 InPlace/5 Prepare new", "ms-3 InPlace/5 Prepare new"},
		},
		"one that is prepared is taken, in the same attempt": {
			inPlace(2, "0 old ready iPrepare:Preparing:new", "1 old ready iPrepare:Prepared:new"),
			[]string{"Book ms-1", "ms-1 InPlace/4 Drain new"},
		},
		"none is taken that is not prepared":  {inPlace(1, "0 old ready iPrepare:Preparing:new"), nil},
		"none is prepared while paused":       {inPlace(1, "0 old ready").but(func(s *Snapshot) { s.Serving.Paused = true }), nil},
		"none that cannot be had in place":    {inPlace(1, "0 old ready").but(func(s *Snapshot) { s.Obstacles = map[string]string{"old": "a volume"} }), nil},
		"a unit that prepares is available":   {inPlace(2, "0 old ready iPrepare:Prepared:new", "1 old ready iPrepare:Prepared:new"), []string{"Book ms-1", "ms-1 InPlace/4 Drain new"}},
		"a new target is prepared instead":    {inPlace(1, "0 old ready iPrepare:Prepared:older"), []string{"ms-0 InPlace/5 Prepare new"}},
		"what is no longer wanted is dropped": {inPlace(1, "0 new ready iPrepare:Prepared:older"), []string{"close ms-0"}},
		"so it is when the method is another": {
			inPlace(1, "0 old ready iPrepare:Prepared:new").but(func(s *Snapshot) { s.Serving.InPlace = false }), []string{"close ms-0"},
		},
		"so it is when groups are no units any more": {
			inPlace(1, "0 old ready iPrepare:Refused:new").but(func(s *Snapshot) { s.Serving.Type = v1alpha1.RoleRollingUpdate }), []string{"ms-0/a-0 InPlace/5 Prepare new", "close ms-0"},
		},
		"a booked unit of a leader that died is booked again": {
			inPlace(2, "0 old ready iPrepare:Prepared:new", "1 old ready iPrepare:Prepared:new").but(booked("ms-1")),
			[]string{"Book ms-1", "ms-1 InPlace/4 Drain new"},
		},
	})
}

func TestRefusedUnits(t *testing.T) {
	run(t, map[string]row{
		"a refused one does not keep others from being prepared": {
			inPlace(3, "0 old ready", "1 old ready", "2 old ready iPrepare:Refused:new").but(refusedFor(v1alpha1.UnitAgentMissing, 2)),
			[]string{"ms-0 InPlace/5 Prepare new", "ms-1 InPlace/5 Prepare new"},
		},
		"three for one reason do": {
			inPlace(4, "0 old ready", "1 old ready iPrepare:Refused:new", "2 old ready iPrepare:Refused:new", "3 old ready iPrepare:Refused:new").
				but(refusedFor(v1alpha1.UnitReason(v1alpha1.RefusedPlatform), 1, 2, 3)),
			nil,
		},
		"unless somebody has their drivers released": {
			inPlace(4, "0 old ready", "1 old ready iPrepare:Refused:new", "2 old ready iPrepare:Refused:new", "3 old ready iPrepare:Refused:new").
				but(refusedFor(noDriver, 1, 2, 3)),
			[]string{"ms-0 InPlace/5 Prepare new"},
		},
		"which is no new attempt: the one at hand goes on": {
			inPlace(1, "0 old ready iPrepare:Refused:new").but(refusedFor(noDriver, 0)), nil,
		},
		"what may pass is tried again": {
			inPlace(1, "0 old ready iPrepare:Refused:new").but(refusedFor(notFound, 0)), []string{"ms-0 InPlace/5 Prepare new"},
		},
		"not before its time": {
			inPlace(1, "0 old ready iPrepare:Refused:new").but(refusedFor(notFound, 0)).
				but(opened(func(u *v1alpha1.UnitUpdate) { u.NotBefore = &metav1.Time{Time: noon().Add(time.Second)} })),
			nil,
		},
		"nor before it has begun": {
			inPlace(1, "0 old ready iPrepare:Refused:new").but(refusedFor(notFound, 0)).
				but(opened(func(u *v1alpha1.UnitUpdate) { u.NotBefore = &metav1.Time{Time: noon()} })),
			nil,
		},
		"under the hold neither": {
			inPlace(1, "0 bad down iDrain:Refused:new").but(refusedFor(notFound, 0)).but(booked("ms-0")).but(opened(swappedBefore)).
				but(opened(func(u *v1alpha1.UnitUpdate) { u.NotBefore = &metav1.Time{Time: noon()} })).
				but(func(s *Snapshot) { s.Layouts["bad"] = Layout{"a": {Digest: "a3", Workers: 1}} }),
			nil,
		},
		"what does not pass is not": {
			inPlace(1, "0 old ready iPrepare:Refused:new").but(refusedFor(v1alpha1.UnitReason(v1alpha1.RefusedPlatform), 0)), nil,
		},
		"refused at Drain, it goes back in service": {
			inPlace(1, "0 old ready iDrain:Refused:new").but(refusedFor(notFound, 0)).but(booked("ms-0")),
			[]string{"ms-0 InPlace/5 Serve old"},
		},
		"so it does where a driver is released": {
			inPlace(1, "0 old ready iDrain:Refused:new").but(refusedFor(noDriver, 0)).but(booked("ms-0")),
			[]string{"ms-0 InPlace/5 Serve old"},
		},
		"and is prepared again after that": {
			inPlace(1, "0 old ready iServe:InService:old").but(booked("ms-0")).but(opened(func(u *v1alpha1.UnitUpdate) { u.Tries = 1 })),
			[]string{"ms-0 InPlace/5 Prepare new", "Strike ms-0"},
		},
		"refused at Drain after a swap, it stays held and is tried again": {
			inPlace(1, "0 bad down iDrain:Refused:new").but(refusedFor(notFound, 0)).but(booked("ms-0")).but(opened(swappedBefore)).
				but(func(s *Snapshot) { s.Layouts["bad"] = Layout{"a": {Digest: "a3", Workers: 1}} }),
			[]string{"ms-0 InPlace/5 Drain new"},
		},
	})
}

func TestAUnitGoesThroughItsSwapInPlace(t *testing.T) {
	bad := func(s *Snapshot) { s.Layouts["bad"] = Layout{"a": {Digest: "a3", Workers: 1}} }
	run(t, map[string]row{
		"one write sets permit Swap and the pin": {
			inPlace(1, "0 old ready iDrain:Drained:new").but(booked("ms-0")), []string{"ms-0 InPlace/4 Swap new", "ms-0 old: a-0 -> new: a-0"},
		},
		"a unit of one Pod may serve at once": {
			inPlace(1, "0 old ready iDrain:Drained:new").but(booked("ms-0")).but(func(s *Snapshot) {
				s.Layouts = map[string]Layout{"old": {"a": {Digest: "a1"}}, "new": {"a": {Digest: "a2"}}}
			}),
			[]string{"ms-0 InPlace/4 Serve new", "ms-0 old: a-0 -> new: a-0"},
		},
		"verified, it may serve": {
			inPlace(1, "0 new down iSwap:Verified:new").but(booked("ms-0")).but(opened(swappedBefore)), []string{"ms-0 InPlace/4 Serve new"},
		},
		"in service, it is closed": {
			inPlace(1, "0 new ready iServe:InService:new").but(booked("ms-0")).but(opened(swappedBefore)), []string{"close ms-0", "Strike ms-0"},
		},
		"a new target before the swap takes it back": {
			inPlace(1, "0 old ready iDrain:Draining:older").but(booked("ms-0")), []string{"ms-0 InPlace/5 Serve old"},
		},
		"a new target after the swap moves it on, held": {
			inPlace(1, "0 bad down iSwap:Failed:bad").but(bad).but(booked("ms-0")).but(opened(swappedBefore)), []string{"ms-0 InPlace/5 Drain new"},
		},
		"also one that leads to where its pin is": {
			inPlace(1, "0 new down iDrain:Draining:bad").but(bad).but(booked("ms-0")).but(opened(swappedBefore)), []string{"ms-0 InPlace/5 Drain new"},
		},
		"recreated before its swap, it goes back first": {
			inPlace(1, "0 old ready iDrain:Draining:new").but(booked("ms-0")).but(func(s *Snapshot) { s.Serving.InPlace = false }),
			[]string{"ms-0 InPlace/5 Serve old"},
		},
		"recreated after its swap, it gets an attempt that recreates": {
			inPlace(1, "0 new down iSwap:Failed:new").but(booked("ms-0")).but(opened(swappedBefore)).but(func(s *Snapshot) { s.Serving.InPlace = false }),
			[]string{"ms-0 Recreate/5 Drain new"},
		},
		"one that failed is taken back, after that is written": {
			inPlace(1, "0 new down iSwap:Failed:new").but(booked("ms-0")).but(opened(swappedBefore)).but(func(s *Snapshot) { s.Serving.Rollback = true }),
			[]string{"Reject new"},
		},
		"to the revision before": {
			inPlace(1, "0 new down iSwap:Failed:new").but(booked("ms-0")).but(opened(swappedBefore)).but(func(s *Snapshot) {
				s.Serving.Rollback, s.Rejected = true, "new"
			}),
			[]string{"ms-0 InPlace/5 Drain old"},
		},
		"one that failed after its swap, and is protected now, stays held": {
			inPlace(1, "0 bad down iServe:Failed:bad").but(bad).but(booked("ms-0")).but(opened(swappedBefore)).but(func(s *Snapshot) {
				s.Serving.Partition, s.Current = 1, "old"
			}),
			nil,
		},
		"one that failed on the way back is closed": {
			inPlace(1, "0 old ready iServe:Failed:old").but(booked("ms-0")).but(func(s *Snapshot) {
				s.Serving.InPlace, s.Target = false, "old"
			}),
			[]string{"close ms-0", "Strike ms-0"},
		},
		"a rejected revision is brought to no new group": {
			inPlace(1).but(func(s *Snapshot) { s.Rejected, s.Current = "new", "old" }), []string{"Create ms-0 old"},
		},
		"a rejected revision is brought to no new instance": {
			serving(1, 0, 0, 0).roles(budget(2, 1, 0, 0), "0 old ready").but(func(s *Snapshot) { s.Rejected, s.Current = "new", "old" }),
			[]string{"ms-0 old: a-0 -> old: a-0 a-1"},
		},
		"a rejected revision is brought to no unit": {inPlace(1, "0 old ready").but(func(s *Snapshot) { s.Rejected = "new" }), nil},
	})
}

func TestWhatBlocksInPlace(t *testing.T) {
	for name, r := range map[string]struct {
		in   Snapshot
		want v1alpha1.ConditionReason
	}{
		"a change that needs new Pods": {
			inPlace(1, "0 old ready").but(func(s *Snapshot) { s.Obstacles = map[string]string{"old": "a volume"} }), v1alpha1.BlockedNotInPlace,
		},
		"a rejected revision": {inPlace(1, "0 old ready").but(func(s *Snapshot) { s.Rejected = "new" }), v1alpha1.BlockedRejected},
		"an attempt that is made again, until it is told how it ends":   {inPlace(1, "0 old ready iPrepare:Preparing:new").but(opened(again)), v1alpha1.BlockedRefused},
		"not one that is made for the first time":                       {inPlace(1, "0 old ready iPrepare:Preparing:new"), v1alpha1.NotBlocked},
		"nor one that is prepared after all":                            {inPlace(1, "0 old ready iPrepare:Prepared:new").but(opened(again)), v1alpha1.NotBlocked},
		"not one that all units are at, as the one that failed is gone": {inPlace(1, "0 new ready").but(func(s *Snapshot) { s.Rejected = "new" }), v1alpha1.NotBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(r.in).Report.Blocked; got.Reason != r.want || got.True != (r.want != v1alpha1.NotBlocked) {
				t.Errorf("Blocked is %+v, want %s", got, r.want)
			}
		})
	}
}
