package plan

import (
	"strings"
	"testing"

	"pitstop.dev/api/v1alpha1"
)

// steady is as serving, with nothing to be rolled out.
func steady(replicas, maxUnavailable int32) Snapshot {
	s := serving(replicas, maxUnavailable, 0, 0)
	s.Target, s.Current = "old", "old"
	return s
}

func TestUnitsWithASickGPUAreHeldWithinTheBudget(t *testing.T) {
	paused := steady(2, 1).with("0 old ready", "1 old ready sick")
	paused.Serving.Paused = true
	inPlace := serving(3, 2, 0, 0).with("0 old ready", "1 old ready", "2 old ready sick held= iPrepare:Prepared:new")
	inPlace.Serving.InPlace = true
	capped := steady(1, 1).roles(Role{Replicas: 2, MaxUnavailable: 1}, "0 old ready", "1 old ready sick")
	capped.Serving.MaxUnavailableGroups = 1
	drained := serving(3, 1, 0, 0).with("0 old ready", "1 old ready", "2 old creating sick iDrain:Drained:new")
	drained.Serving.InPlace = true
	crossedSick := steady(4, 2).with("0 old ready sick", "1 old ready", "2 old ready", "3 old ready sick")
	addUpdate(&crossedSick.Groups[3], "a-0", "rDrain:Draining:")
	none := steady(1, 1).roles(Role{Replicas: 2}, "0 old ready sick", "1 old ready sick")
	gone := steady(2, 1).roles(Role{Replicas: 1, MaxUnavailable: 1}, "0 old ready held=a-7")
	run(t, map[string]row{
		"one that is sick": {steady(2, 1).with("0 old ready", "1 old ready sick"), []string{"Book ms-1", "hold ms-1"}},
		"none that is not": {steady(2, 1).with("0 old ready", "1 old ready"), nil},
		"a driver that calls all of them sick takes one": {
			steady(4, 1).with("0 old ready sick", "1 old ready sick", "2 old ready sick", "3 old ready sick"), []string{"Book ms-3", "hold ms-3"},
		},
		"the next one waits until the first is healthy": {
			ledger(steady(3, 1).with("0 old ready", "1 old ready sick", "2 old creating sick held="), "ms-2"), nil,
		},
		"then the first is let go": {
			ledger(steady(3, 1).with("0 old ready", "1 old ready sick", "2 old creating held="), "ms-2"), []string{"let go ms-2"},
		},
		"and struck": {
			ledger(steady(3, 1).with("0 old ready", "1 old ready", "2 old ready"), "ms-2"), []string{"Strike ms-2"},
		},
		"one that is down may be held though the budget is spent": {steady(3, 2).with("0 old ready", "1 old ready", "2 old down sick"), []string{"Book ms-2", "hold ms-2"}},
		"none with a budget of 0":                                 {steady(2, 0).with("0 old ready sick", "1 old ready"), nil},
		"one that is crossed does not keep another from being held": {
			ledger(crossedSick, "ms-3/a-0"), []string{"ms-3/a-0 Recreate/5 Serve old", "Book ms-0", "hold ms-0"},
		},
		"a unit that falls sick while it drains is not swapped": {
			ledger(drained, "ms-2"), []string{"ms-0 InPlace/5 Prepare new", "ms-1 InPlace/5 Prepare new", "ms-2 InPlace/5 Serve old"},
		},
		"it is held while the rollout is paused":                    {paused, []string{"Book ms-1", "hold ms-1"}},
		"one in update is left to its update":                       {ledger(steady(2, 1).with("0 old ready", "1 old down sick Drain:Draining:old"), "ms-1"), nil},
		"what is held keeps its place when the ledger has lost it":  {steady(2, 1).with("0 old ready sick", "1 old ready sick held="), nil},
		"a held unit is not updated in place, and counts as taken":  {ledger(inPlace, "ms-2"), []string{"ms-0 InPlace/5 Prepare new", "ms-1 InPlace/5 Prepare new"}},
		"a role instance within the budget of its role":             {steady(1, 1).roles(Role{Replicas: 2, MaxUnavailable: 1}, "0 old ready sick", "1 old ready sick"), []string{"Book ms-0/a-1", "hold ms-0/a-1"}},
		"and within the cap over all groups":                        {capped, []string{"Book ms-0/a-1", "hold ms-0/a-1"}},
		"none of a role whose budget is 0":                          {none, nil},
		"an instance that is no more is let go":                     {gone, []string{"let go ms-0/a-7"}},
		"a hold of the whole group is let go where instances count": {steady(1, 1).roles(Role{Replicas: 1}, "0 old ready sick held="), []string{"let go ms-0"}},
	})
}

func TestSaysWhichGPUIsSick(t *testing.T) {
	for name, r := range map[string]struct {
		in   Snapshot
		says string
	}{
		"held":        {ledger(steady(2, 1).with("0 old ready", "1 old creating sick held="), "ms-1"), "ms-1 is kept out of traffic until its GPU is healthy: Pod x on node n: GPU-1 is lost"},
		"not held":    {steady(2, 0).with("0 old ready", "1 old ready sick"), "1 units with a sick GPU are not taken out of traffic"},
		"none sick":   {steady(2, 1).with("0 old ready", "1 old ready"), ""},
		"held by now": {steady(2, 1).with("0 old ready", "1 old ready sick"), "ms-1 is kept out"},
	} {
		t.Run(name, func(t *testing.T) {
			v := Decide(r.in).Report.Blocked
			if v.True != (r.says != "") || r.says != "" && (v.Reason != v1alpha1.BlockedGPU || !strings.Contains(v.Message, r.says)) {
				t.Errorf("%+v", v)
			}
		})
	}
}
