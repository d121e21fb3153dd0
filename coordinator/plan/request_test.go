package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// asked is a request of a person that nobody has answered.
func asked(verb v1alpha1.Verb, unit string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Requests = append(s.Requests, Request{Verb: verb, ID: "r1", Unit: unit})
	}
}

// accepted has the requests accepted by somebody who died before the rest.
func accepted(s *Snapshot) {
	for i := range s.Requests {
		s.Requests[i].Accepted = true
	}
}

// forRequest has the open update of the first group be one that a person asked for.
func forRequest(verb v1alpha1.Verb) func(*Snapshot) {
	return opened(func(u *v1alpha1.UnitUpdate) {
		u.Request = &v1alpha1.UnitRequest{Verb: verb, ID: "r1", Wanted: "new"}
	})
}

func paused(s *Snapshot)      { s.Serving.Paused = true }
func badRevision(s *Snapshot) { s.Layouts["bad"] = Layout{"a": {Digest: "a3", Workers: 1}} }

const (
	recreate = v1alpha1.VerbRecreate
	cancel   = v1alpha1.VerbCancel
	retry    = v1alpha1.VerbRetry
)

func TestAUnitIsRecreatedOnRequest(t *testing.T) {
	whole := serving(2, 1, 0, 0)
	run(t, map[string]row{
		"at its pin, within the budget, after that is recorded": {
			whole.with("0 new ready", "1 new ready").but(asked(recreate, "ms-0")),
			[]string{"Record", "Book ms-0", "ms-0 Recreate/5 Drain new"},
		},
		"one that waits for the rollout keeps its pin too": {
			serving(2, 1, 0, 2).with("0 old ready", "1 old ready").but(asked(recreate, "ms-0")),
			[]string{"Record", "Book ms-0", "ms-0 Recreate/5 Drain old"},
		},
		"while paused": {
			whole.with("0 old ready", "1 old ready").but(paused).but(asked(recreate, "ms-1")),
			[]string{"Record", "Book ms-1", "ms-1 Recreate/5 Drain old"},
		},
		"not beyond the budget": {whole.with("0 new ready", "1 new creating").but(asked(recreate, "ms-0")), nil},
		"one that does not serve costs nothing": {
			serving(2, 0, 1, 0).with("0 new ready", "1 new creating").but(asked(recreate, "ms-1")),
			[]string{"Record", "Book ms-1", "ms-1 Recreate/5 Drain new"},
		},
		"but is one of those in update": {
			whole.with("0 new creating", "1 new down Swap:Swapping:new").but(booked("ms-1")).but(asked(recreate, "ms-0")), nil,
		},
		"one that failed in place gets an attempt of its own": {
			inPlace(1, "0 new down iSwap:Failed:new").but(booked("ms-0")).but(opened(swappedBefore)).but(asked(recreate, "ms-0")),
			[]string{"Record", "Book ms-0", "ms-0 Recreate/5 Drain new"},
		},
		"one that is drained in place stays at its pin": {
			inPlace(1, "0 old ready iDrain:Draining:new").but(booked("ms-0")).but(asked(recreate, "ms-0")),
			[]string{"Record", "Book ms-0", "ms-0 Recreate/5 Drain old"},
		},
		"no part of a group where groups are units": {whole.with("0 new ready", "1 new ready").but(asked(recreate, "ms-0/a-0")), nil},
		"no group where its parts are units":        {serving(1, 0, 0, 0).roles(budget(2, 1, 0, 0), "0 new ready", "1 new ready").but(atNew).but(asked(recreate, "ms-0")), nil},
		"a part where its parts are units": {
			serving(1, 0, 0, 0).roles(budget(2, 1, 0, 0), "0 new ready", "1 new ready").but(atNew).but(asked(recreate, "ms-0/a-1")),
			[]string{"Record", "Book ms-0/a-1", "ms-0/a-1 Recreate/5 Drain new"},
		},
		"not in one group more than may be touched": {
			serving(1, 0, 0, 0).roles(budget(2, 1, 0, 0), "0 new ready", "1 new ready").but(atNew).but(func(s *Snapshot) {
				s.Serving.MaxUnavailableGroups, s.Serving.Replicas = 1, 2
				other := parseGroup("1 new ready")
				other.Spec.Instances, other.Status.Instances = nil, nil
				addInstance(&other, "a", "0 new ready")
				addInstance(&other, "a", "1 new ready")
				addUpdate(&other, "a-1", "Drain:Draining:new")
				other.Spec.Updates[0].Request = &v1alpha1.UnitRequest{Verb: recreate, ID: "r0", Wanted: "new"}
				s.Groups, s.Ledger = append(s.Groups, other), []string{"ms-1/a-1"}
			}).but(asked(recreate, "ms-0/a-1")),
			nil,
		},
		"none that is removed":            {serving(0, 1, 0, 0).with("0 new ready rDrain:Draining:").but(booked("ms-0")).but(asked(recreate, "ms-0")), nil},
		"none of a revision that is lost": {serving(1, 1, 0, 0).with("0 lost ready").but(asked(recreate, "ms-0")), nil},
		"none that there is not":          {whole.with("0 new ready", "1 new ready").but(asked(recreate, "ms-7")), nil},
		"none that is on its way back from the revision": {
			inPlace(1, "0 new down iDrain:Draining:old").but(booked("ms-0")).but(opened(swappedBefore)).but(func(s *Snapshot) { s.Rejected = "new" }).
				but(asked(recreate, "ms-0")),
			nil,
		},
		"nor what is not readable": {
			whole.with("0 new ready", "1 new ready").but(asked(recreate, "ms-0")).but(func(s *Snapshot) { s.Requests[0].Malformed = true }), nil,
		},
	})
}

// atNew has the group of a snapshot be pinned to the target.
func atNew(s *Snapshot) {
	s.Groups[0].Spec.Revision = "new"
	for i := range s.Groups[0].Spec.Instances {
		s.Groups[0].Spec.Instances[i].Revision = ""
	}
}

func TestARecreatedUnitGoesItsWay(t *testing.T) {
	run(t, map[string]row{
		"drained, its Pods may be deleted, and its pin stays": {
			serving(1, 1, 0, 1).with("0 old ready Drain:Drained:old").but(booked("ms-0")).but(forRequest(recreate)), []string{"ms-0 Recreate/4 Swap old"},
		},
		"although it is outdated": {
			serving(1, 1, 0, 0).with("0 old ready Drain:Drained:old").but(booked("ms-0")).but(forRequest(recreate)), []string{"ms-0 Recreate/4 Swap old"},
		},
		"and so it goes on to the end": {
			serving(1, 1, 0, 0).with("0 old down Swap:Verified:old").but(booked("ms-0")).but(forRequest(recreate)), []string{"ms-0 Recreate/4 Serve old"},
		},
		"whatever the method is": {
			inPlace(1, "0 old down Swap:Swapping:old").but(booked("ms-0")).but(forRequest(recreate)), nil,
		},
		"nothing goes on before it is recorded that it has begun, however old what was read is": {
			serving(1, 1, 0, 1).with("0 old ready Serve:InService:old").but(booked("ms-0")).but(forRequest(recreate)).but(asked(recreate, "ms-0")),
			[]string{"Record", "close ms-0", "Strike ms-0"},
		},
		"in service, it is closed": {
			serving(1, 1, 0, 1).with("0 old ready Serve:InService:old").but(booked("ms-0")).but(forRequest(recreate)), []string{"close ms-0", "Strike ms-0"},
		},
		"a target that is new since then is waited for until it is drained": {
			serving(1, 1, 0, 0).with("0 old ready Drain:Draining:old").but(booked("ms-0")).but(forRequest(recreate)).
				but(opened(func(u *v1alpha1.UnitUpdate) { u.Request.Wanted = "older" })),
			nil,
		},
		"and goes before it then": {
			serving(1, 1, 0, 0).with("0 bad down Swap:Swapping:bad").but(badRevision).but(booked("ms-0")).but(forRequest(recreate)).
				but(opened(func(u *v1alpha1.UnitUpdate) { u.Request.Wanted = "bad" })),
			[]string{"ms-0 Recreate/5 Drain new"},
		},
		"one that fails at an old pin gets the target": {
			serving(1, 1, 0, 0).with("0 bad down Swap:Failed:bad").but(badRevision).but(booked("ms-0")).but(forRequest(recreate)),
			[]string{"ms-0 Recreate/5 Drain new"},
		},
		"before it is known whether it comes up no other one is taken": {
			serving(3, 2, 0, 0).with("0 new down Swap:Swapping:new", "1 old ready", "2 old ready").but(booked("ms-0")).but(forRequest(recreate)), nil,
		},
		"then others are": {
			serving(3, 2, 0, 0).with("0 new down Serve:InService:new", "1 old ready", "2 old ready").but(booked("ms-0")).but(forRequest(recreate)).
				but(func(s *Snapshot) {
					s.Serving.MinReady, s.Groups[0].Status.Updates[0].Since = time.Hour, *ago(time.Second)
				}),
			[]string{"Book ms-2", "ms-2 Recreate/5 Drain new"},
		},
	})
}

func TestAnUpdateIsCancelledOnRequest(t *testing.T) {
	later := opened(func(u *v1alpha1.UnitUpdate) { u.NotBefore = &metav1.Time{Time: noon().Add(time.Minute)} })
	waits := func(s *Snapshot) {
		forRequest(cancel)(s)
		later(s)
	}
	run(t, map[string]row{
		"that drains: it goes back": {
			serving(1, 1, 0, 0).with("0 old ready Drain:Draining:new").but(booked("ms-0")).but(asked(cancel, "ms-0")), []string{"Record", "ms-0 Recreate/5 Serve old"},
		},
		"that drains in place": {
			inPlace(1, "0 old ready iDrain:Drained:new").but(booked("ms-0")).but(asked(cancel, "ms-0")), []string{"Record", "ms-0 InPlace/5 Serve old"},
		},
		"back in service, it waits": {
			serving(1, 1, 0, 0).with("0 old ready Serve:InService:old").but(booked("ms-0")).but(forRequest(cancel)), []string{"ms-0 Recreate/5 Prepare new", "Strike ms-0"},
		},
		"in place too": {
			inPlace(1, "0 old ready iServe:InService:old").but(booked("ms-0")).but(forRequest(cancel)), []string{"ms-0 InPlace/5 Prepare new", "Strike ms-0"},
		},
		"it does not wait for a target that is no longer wanted": {
			serving(1, 1, 0, 0).with("0 old ready Serve:InService:old").but(booked("ms-0")).but(forRequest(cancel)).but(func(s *Snapshot) { s.Target = "old" }),
			[]string{"close ms-0", "Strike ms-0"},
		},
		"that prepares":                   {inPlace(1, "0 old ready iPrepare:Prepared:new").but(asked(cancel, "ms-0")), []string{"Record", "ms-0 InPlace/5 Prepare new"}},
		"while it waits others are taken": {serving(2, 1, 0, 0).with("0 old ready Prepare:Refused:new", "1 old ready").but(waits), []string{"Book ms-1", "ms-1 Recreate/5 Drain new"}},
		"and it is not":                   {serving(1, 1, 0, 0).with("0 old ready Prepare:Refused:new").but(waits), nil},
		"it is again in time":             {serving(1, 1, 0, 0).with("0 old ready Prepare:Refused:new").but(forRequest(cancel)).but(opened(func(u *v1alpha1.UnitUpdate) { u.NotBefore = ago(0) })), []string{"close ms-0"}},
		"and for another target":          {serving(1, 1, 0, 0).with("0 old ready Prepare:Refused:older").but(waits), []string{"close ms-0"}},
		"units that wait do not keep others from being prepared": {
			inPlace(4, "0 old ready", "1 old ready iPrepare:Refused:new", "2 old ready iPrepare:Refused:new", "3 old ready iPrepare:Refused:new").
				but(refusedFor(v1alpha1.UnitCancelled, 1, 2, 3)).but(func(s *Snapshot) {
				for i := 1; i < 4; i++ {
					s.Groups[i].Spec.Updates[0].NotBefore = &metav1.Time{Time: noon().Add(time.Minute)}
				}
			}),
			[]string{"ms-0 InPlace/5 Prepare new"},
		},
		"not from the swap on": {serving(1, 1, 0, 0).with("0 new down Swap:Swapping:new").but(booked("ms-0")).but(asked(cancel, "ms-0")), nil},
		"nor when an attempt before has swapped": {
			inPlace(1, "0 bad down iDrain:Draining:new").but(badRevision).but(booked("ms-0")).but(opened(swappedBefore)).but(asked(cancel, "ms-0")), nil,
		},
		"nor on the way back already": {serving(1, 1, 0, 0).with("0 old ready Serve:Swapping:old").but(booked("ms-0")).but(asked(cancel, "ms-0")), nil},
		"nor where there is none":     {serving(1, 1, 0, 0).with("0 new ready").but(asked(cancel, "ms-0")), nil},
		"a request to recreate is one": {
			serving(1, 1, 0, 0).with("0 new ready Drain:Draining:new").but(booked("ms-0")).but(forRequest(recreate)).
				but(opened(func(u *v1alpha1.UnitUpdate) { u.Previous = "new" })).but(asked(cancel, "ms-0")),
			[]string{"Record", "ms-0 Recreate/5 Serve new"},
		},
	})
}

func TestAllIsTriedAgainOnRequest(t *testing.T) {
	run(t, map[string]row{
		"what was refused for good": {
			inPlace(1, "0 old ready iPrepare:Refused:new").but(refusedFor(v1alpha1.UnitReason(v1alpha1.RefusedPlatform), 0)).but(asked(retry, "")),
			[]string{"Record", "ms-0 InPlace/5 Prepare new"},
		},
		"what was cancelled": {
			serving(1, 1, 0, 0).with("0 old ready Prepare:Refused:new").but(forRequest(cancel)).
				but(opened(func(u *v1alpha1.UnitUpdate) { u.NotBefore = &metav1.Time{Time: noon().Add(time.Minute)} })).but(asked(retry, "ms")),
			[]string{"Record", "close ms-0"},
		},
		"what is on its way back": {
			inPlace(1, "0 old ready iServe:Swapping:old").but(booked("ms-0")).but(opened(func(u *v1alpha1.UnitUpdate) { u.Tries = 3 })).but(asked(retry, "")),
			[]string{"Record", "ms-0 InPlace/4 Serve old"},
		},
		"what is refused under its hold": {
			inPlace(1, "0 bad down iDrain:Refused:new").but(badRevision).but(booked("ms-0")).but(opened(swappedBefore)).
				but(refusedFor(v1alpha1.UnitReason(v1alpha1.RefusedPlatform), 0)).but(asked(retry, "")),
			[]string{"Record", "ms-0 InPlace/5 Drain new"},
		},
		"a revision that was rejected": {
			inPlace(1, "0 old ready").but(func(s *Snapshot) { s.Rejected = "new" }).but(asked(retry, "")),
			[]string{"Record", "ms-0 InPlace/5 Prepare new"},
		},
		"nothing where nothing stood in the way": {inPlace(1, "0 new ready").but(asked(retry, "")), []string{"Record"}},
		"no single unit":                         {inPlace(1, "0 new ready").but(asked(retry, "ms-0")), nil},
	})
}

// Whoever comes after one that died finds from the groups what is done.
func TestARequestIsDoneOnce(t *testing.T) {
	run(t, map[string]row{
		"accepted and not begun, it is begun": {
			serving(1, 1, 0, 0).with("0 new ready").but(asked(recreate, "ms-0")).but(accepted).but(booked("ms-0")),
			[]string{"Record", "Book ms-0", "ms-0 Recreate/5 Drain new"},
		},
		"begun, that is written before anything else": {
			serving(1, 1, 0, 0).with("0 new ready Drain:Drained:new").but(booked("ms-0")).but(forRequest(recreate)).but(asked(recreate, "ms-0")).but(accepted),
			[]string{"Record", "ms-0 Recreate/4 Swap new"},
		},
		"accepted, and the unit is gone": {
			serving(1, 1, 0, 0).with("1 new ready").but(asked(recreate, "ms-0")).but(accepted), []string{"Record"},
		},
	})
}

func TestWhatIsAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		in   Snapshot
		want v1alpha1.RequestOutcome
		says string
	}{
		"accepted":     {serving(1, 1, 0, 0).with("0 new ready").but(asked(recreate, "ms-0")), v1alpha1.RequestAccepted, "created anew at revision new"},
		"begun":        {serving(1, 1, 0, 0).with("0 new ready Drain:Draining:new").but(forRequest(recreate)).but(asked(recreate, "ms-0")), v1alpha1.RequestBegun, ""},
		"the budget":   {serving(2, 1, 0, 0).with("0 new ready", "1 new creating").but(asked(recreate, "ms-0")), v1alpha1.RequestRefused, "maxUnavailable (1)"},
		"no unit":      {serving(1, 1, 0, 0).with("0 new ready").but(asked(recreate, "ms-0/a-0")), v1alpha1.RequestRefused, "ask for ms-0"},
		"too late":     {serving(1, 1, 0, 0).with("0 new down Swap:Swapping:new").but(asked(cancel, "ms-0")), v1alpha1.RequestRefused, "kubectl pitstop undo ms"},
		"a pause":      {inPlace(1, "0 old ready iPrepare:Prepared:new").but(asked(cancel, "ms-0")), v1alpha1.RequestAccepted, "5 minutes"},
		"the rejected": {inPlace(1, "0 old ready").but(func(s *Snapshot) { s.Rejected = "new" }).but(asked(retry, "")), v1alpha1.RequestAccepted, "new is no longer rejected"},
		"unreadable":   {serving(1, 1, 0, 0).with("0 new ready").but(asked(retry, "")).but(func(s *Snapshot) { s.Requests[0].Malformed = true }), v1alpha1.RequestRefused, "<id>"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := Decide(tt.in).Report.Answers
			if len(answers) != 1 || answers[0].Outcome != tt.want || !strings.Contains(answers[0].Message, tt.says) {
				t.Errorf("answers %+v, want %s with %q", answers, tt.want, tt.says)
			}
		})
	}
}

// A cancel latches the target of its time, for five minutes.
func TestTheLatchOfACancel(t *testing.T) {
	p := Decide(serving(1, 1, 0, 0).with("0 old ready Serve:InService:old").but(booked("ms-0")).but(forRequest(cancel)))
	got := p.Actions[0].Spec.Updates
	want := []v1alpha1.UnitUpdate{{
		Attempt: 5, Method: v1alpha1.UnitRecreate, Target: "new", Previous: "old", Permit: v1alpha1.PermitPrepare,
		NotBefore: &metav1.Time{Time: noon().Add(5 * time.Minute)}, Request: &v1alpha1.UnitRequest{Verb: cancel, ID: "r1", Wanted: "new"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}
