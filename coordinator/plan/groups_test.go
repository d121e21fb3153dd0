package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func diffSteps(want, got []string) string { return cmp.Diff(want, got) }

func takes(units ...string) []string {
	book := "Book"
	var out []string
	for _, u := range units {
		book += " " + u
		out = append(out, u+" Recreate/5 Drain new")
	}
	return append([]string{book}, out...)
}

func removes(units ...string) []string {
	book := "Book"
	var out []string
	for _, u := range units {
		book += " " + u
		out = append(out, u+" Remove/5 Drain")
	}
	return append([]string{book}, out...)
}

func TestGroupsAreTakenWithinTheBudget(t *testing.T) {
	paused := serving(2, 1, 0, 0).with("0 old ready", "1 old ready")
	paused.Serving.Paused = true
	booked := serving(3, 1, 0, 0).with("0 old ready", "1 old ready", "2 old ready")
	booked.Ledger = []string{"ms-1"}
	over := serving(3, 0, 1, 0).with("0 old ready", "1 old ready", "2 old ready")
	over.Ledger = []string{"ms-1"}
	minReady := serving(3, 1, 0, 0).with("0 old ready", "1 old ready", "2 new young")
	minReady.Serving.MinReady = time.Minute
	run(t, map[string]row{
		"one of two with maxUnavailable 1":         {serving(2, 1, 0, 0).with("0 old ready", "1 old ready"), takes("ms-1")},
		"none but the surge with maxUnavailable 0": {serving(2, 0, 1, 0).with("0 old ready", "1 old ready"), []string{"Create ms-2 new"}},
		"one of three old with surge":              {serving(2, 0, 1, 0).with("0 old ready", "1 old ready", "2 old ready"), takes("ms-2")},
		"none while the surge is creating":         {serving(2, 0, 1, 0).with("0 old ready", "1 old ready", "2 new creating"), nil},
		"one while the surge is creating, with maxUnavailable 1": {
			serving(2, 1, 1, 0).with("0 old ready", "1 old ready", "2 new creating"), takes("ms-1"),
		},
		"one once the surge is ready": {serving(2, 0, 1, 0).with("0 old ready", "1 old ready", "2 new ready"), takes("ms-1")},
		"a protected group that is not ready is charged": {
			serving(3, 0, 1, 2).with("0 old creating", "1 old ready", "2 old ready", "3 new ready"), nil,
		},
		"ordinals decide, not positions": {
			serving(4, 3, 0, 2).with("1 old ready", "3 old ready", "5 old ready", "8 old ready"),
			[]string{
				"Book ms-3 ms-5 ms-8", "ms-3 Recreate/5 Drain new", "ms-5 Recreate/5 Drain new", "ms-8 Recreate/5 Drain new",
			},
		},
		"the highest ordinals go first":   {serving(4, 2, 0, 0).with("0 old ready", "1 old ready", "2 old ready", "3 old ready"), takes("ms-2", "ms-3")},
		"what is down goes first":         {serving(4, 1, 0, 0).with("0 old ready", "1 old down", "2 old ready", "3 old ready"), takes("ms-1")},
		"what is down costs nothing":      {serving(4, 2, 0, 0).with("0 old down", "1 old down", "2 old ready", "3 old ready"), takes("ms-0", "ms-1")},
		"what blinks costs":               {serving(4, 1, 0, 0).with("0 old creating", "1 old ready", "2 old ready", "3 old ready"), nil},
		"no more are in update than may":  {serving(4, 1, 0, 0).with("0 old down", "1 old down", "2 old down", "3 old down"), takes("ms-3")},
		"down groups with a budget of 0":  {serving(2, 0, 0, 0).with("0 old down", "1 old ready"), takes("ms-0")},
		"nothing with a budget of 0":      {serving(2, 0, 0, 0).with("0 old ready", "1 old ready"), nil},
		"nothing while it is paused":      {paused, nil},
		"what is ready too briefly waits": {minReady, nil},
		"a booked group goes on, and keeps its place": {
			booked, []string{"Book ms-1", "ms-1 Recreate/5 Drain new"},
		},
		"a booked group that the budget no longer covers is struck": {over, []string{"Strike ms-1", "Create ms-3 new"}},
		"an unreported group is not down":                           {serving(2, 1, 0, 0).with("0 old ready", "1 old fresh"), nil},
		"a group being deleted is charged": {
			serving(3, 1, 0, 0).with("0 old ready", "1 old ready", "2 new deleting"), nil,
		},
		"a failure at the target stops the rest": {
			ledger(serving(4, 2, 0, 0).with("0 old ready", "1 old ready", "2 old ready", "3 new down Swap:Failed:new"), "ms-3"), nil,
		},
		"a failure at another revision does not": {
			ledger(serving(4, 2, 0, 0).with("0 old ready", "1 old ready", "2 old ready", "3 bad down Swap:Failed:bad"), "ms-3"),
			[]string{"ms-3 Recreate/5 Drain new", "Book ms-2", "ms-2 Recreate/5 Drain new"},
		},
	})
}

func ledger(s Snapshot, entries ...string) Snapshot {
	s.Ledger = entries
	s.Layouts["bad"] = Layout{"a": {Digest: "a0", Workers: 1}}
	return s
}

func TestScaleUp(t *testing.T) {
	lost := serving(4, 1, 0, 2).with("2 new ready")
	delete(lost.Layouts, "old")
	run(t, map[string]row{
		"fills the lowest free ordinals":             {serving(4, 1, 0, 0).with("0 new ready", "5 new ready"), []string{"Create ms-1 new", "Create ms-2 new"}},
		"counts high ordinals":                       {serving(3, 1, 0, 0).with("10 new ready"), []string{"Create ms-0 new", "Create ms-1 new"}},
		"creates nothing where there are enough":     {serving(2, 1, 0, 0).with("3 new ready", "4 new ready"), nil},
		"counts what is being deleted":               {serving(2, 1, 0, 0).with("0 new ready", "1 new deleting"), nil},
		"keeps the ordinal of what is being deleted": {serving(3, 1, 0, 0).with("0 new ready", "1 new deleting"), []string{"Create ms-2 new"}},
		"rebuilds protected groups at the current revision": {
			serving(4, 1, 0, 2).with("0 old ready", "2 new ready"), []string{"Create ms-1 old", "Create ms-3 new"},
		},
		"rebuilds all protected groups": {
			serving(5, 1, 0, 3).with("0 old ready", "3 new ready", "4 new ready"), []string{"Create ms-1 old", "Create ms-2 old"},
		},
		"creates nothing from a revision that cannot be read": {lost, []string{"Create ms-3 new"}},
	})
}

func TestScaleDown(t *testing.T) {
	run(t, map[string]row{
		"the cheapest go": {
			serving(2, 1, 0, 0).with("0 new ready cost=100", "1 new ready cost=50", "2 new ready cost=0", "3 new ready cost=75"),
			removes("ms-1", "ms-2"),
		},
		"what is not ready goes before what is cheap": {
			serving(1, 1, 0, 0).with("0 new creating cost=1000", "1 new ready cost=0"), removes("ms-0"),
		},
		"the highest ordinals go where nothing is ready": {
			serving(2, 1, 0, 0).with("0 new creating", "1 new creating", "2 new creating", "3 new creating"), removes("ms-2", "ms-3"),
		},
		"a negative cost goes first": {serving(1, 1, 0, 0).with("0 new ready cost=-5", "1 new ready"), removes("ms-0")},
		"the partition keeps the first": {
			serving(3, 1, 0, 3).with("0 old ready", "1 old ready", "2 old ready", "3 new ready cost=100", "4 new ready cost=50"),
			removes("ms-3", "ms-4"),
		},
		"the partition keeps what is not ready": {
			serving(3, 1, 0, 3).with("0 old ready", "1 old creating", "2 old ready", "3 new ready cost=100", "4 new ready cost=50"),
			removes("ms-3", "ms-4"),
		},
		"protected ones follow the others": {
			serving(2, 1, 0, 3).with("0 old ready cost=100", "1 old ready cost=50", "2 old ready", "3 new ready cost=200", "4 new ready cost=150"),
			removes("ms-2", "ms-3", "ms-4"),
		},
		"among protected ones the cheapest go": {
			serving(2, 1, 0, 5).with("0 old ready cost=100", "1 old ready cost=50", "2 old ready", "3 old ready cost=200"),
			removes("ms-1", "ms-2"),
		},
		"no more go than the budget allows": {
			serving(2, 0, 0, 2).with("0 old down", "1 old ready", "2 new ready"), nil,
		},
		"the surge goes once the last update is closed": {serving(2, 0, 1, 0).with("0 new ready", "1 new ready", "2 new ready"), removes("ms-2")},
		"the surge stays while an update is open": {
			ledger(serving(2, 0, 1, 0).with("0 new creating Swap:Swapping:new", "1 new ready", "2 new ready"), "ms-0"), nil,
		},
		"a removal takes the place of an update": {
			ledger(serving(1, 1, 0, 1).with("0 old ready", "1 old creating Drain:Draining:new"), "ms-1"),
			[]string{"Book ms-1", "ms-1 Remove/5 Drain"},
		},
		"a drained group is deleted":         {ledger(serving(1, 1, 0, 0).with("0 new ready", "1 new creating rDrain:Drained:"), "ms-1"), []string{"Delete ms-1"}},
		"a group that still drains is not":   {ledger(serving(1, 1, 0, 0).with("0 new ready", "1 new creating rDrain:Draining:"), "ms-1"), nil},
		"a removal is taken back":            {ledger(serving(2, 1, 0, 0).with("0 new ready", "1 new creating rDrain:Drained:"), "ms-1"), []string{"ms-1 Recreate/5 Serve new"}},
		"a deletion is not":                  {ledger(serving(2, 1, 0, 0).with("0 new ready", "1 new deleting rDrain:Drained:"), "ms-1"), nil},
		"a group that is gone is struck":     {ledger(serving(1, 1, 0, 0).with("0 new ready"), "ms-1"), []string{"Strike ms-1"}},
		"what cannot be read does not go":    {serving(0, 1, 0, 0).with("0 lost ready"), nil},
		"what cannot be read is not updated": {serving(1, 1, 0, 0).with("0 lost ready"), nil},
	})
}

func TestSurgeIsDerived(t *testing.T) {
	paused := serving(2, 0, 1, 0).with("0 old ready", "1 old ready")
	paused.Serving.Paused = true
	kept := serving(2, 0, 1, 0).with("0 old ready", "1 old ready", "2 new ready")
	kept.Serving.Paused = true
	run(t, map[string]row{
		"not for protected groups":                {serving(2, 0, 1, 2).with("0 old ready", "1 old ready"), nil},
		"not for a paused rollout":                {paused, nil},
		"stays while the rollout is paused":       {kept, nil},
		"a lower surge takes what is not ready":   {serving(2, 0, 1, 0).with("0 old ready", "1 old ready", "2 new ready", "3 new creating"), []string{"Book ms-1 ms-3", "ms-3 Remove/5 Drain", "ms-1 Recreate/5 Drain new"}},
		"two with maxSurge 2, at lowest ordinals": {serving(2, 0, 2, 0).with("0 old ready", "2 old ready"), []string{"Create ms-1 new", "Create ms-3 new"}},
	})
}

func TestOneUnit(t *testing.T) {
	one := func(line string) Snapshot { return ledger(serving(1, 1, 0, 0).with(line), "ms-0") }
	single := one("0 old creating Drain:Drained:new")
	single.Layouts["new"] = Layout{"a": {Digest: "a2"}}
	unseen := one("0 old creating Drain:Drained:new")
	unseen.Groups[0].Status.ObservedGeneration--
	older := one("0 old creating Drain:Drained:new")
	older.Groups[0].Spec.Updates[0].Attempt = 5
	waiting := one("0 new creating Serve:InService:new")
	waiting.Serving.MinReady = 2 * time.Minute
	paused := one("0 bad down Swap:Failed:bad")
	paused.Serving.Paused = true
	raised := one("0 old creating Drain:Draining:new")
	raised.Serving.Partition = 1
	rolledOn := one("0 bad creating Drain:Draining:worse")
	rolledOn.Layouts["worse"] = Layout{"a": {Digest: "a9"}}
	run(t, map[string]row{
		"waits for the drain":                            {one("0 old creating Drain:Draining:new"), nil},
		"swaps and pins in one write":                    {one("0 old creating Drain:Drained:new"), []string{"ms-0 Recreate/4 Swap new", "ms-0 old: a-0 -> new: a-0"}},
		"serves at once with one Pod":                    {single, []string{"ms-0 Recreate/4 Serve new", "ms-0 old: a-0 -> new: a-0"}},
		"waits for a report on today's spec":             {unseen, nil},
		"waits for a report on the attempt":              {older, nil},
		"waits for the new Pods":                         {one("0 new creating Swap:Swapping:new"), nil},
		"serves when verified":                           {one("0 new creating Swap:Verified:new"), []string{"ms-0 Recreate/4 Serve new"}},
		"waits for service":                              {one("0 new creating Serve:Verified:new"), nil},
		"closes in service":                              {one("0 new creating Serve:InService:new"), []string{"close ms-0", "Strike ms-0"}},
		"closes after minReady":                          {waiting, nil},
		"is struck when closed":                          {one("0 new ready"), []string{"Strike ms-0"}},
		"stays when failed":                              {one("0 new down Swap:Failed:new"), nil},
		"backs out on a new target":                      {one("0 old creating Drain:Drained:bad"), []string{"ms-0 Recreate/5 Serve old"}},
		"backs out when it becomes protected":            {raised, []string{"ms-0 Recreate/5 Serve old"}},
		"closes a back-out in service":                   {one("0 old creating Serve:InService:old"), []string{"close ms-0", "Strike ms-0"}},
		"closes a back-out that failed":                  {one("0 old down Serve:Failed:old"), []string{"close ms-0", "Strike ms-0"}},
		"goes on to a new target after the swap":         {one("0 bad creating Swap:Swapping:bad"), []string{"ms-0 Recreate/5 Drain new"}},
		"goes on to a new target when it failed":         {one("0 bad down Swap:Failed:bad"), []string{"ms-0 Recreate/5 Drain new"}},
		"goes on to a new target before it serves":       {one("0 bad creating Serve:Verified:bad"), []string{"ms-0 Recreate/5 Drain new"}},
		"ends an update that serves, target or not":      {one("0 bad creating Serve:InService:bad"), []string{"close ms-0", "Strike ms-0"}},
		"goes on from a drain that has no way back":      {rolledOn, []string{"ms-0 Recreate/5 Drain new"}},
		"does not go on while it is paused":              {paused, nil},
		"swaps while it is paused":                       {pausedNow(one("0 old creating Drain:Drained:new")), []string{"ms-0 Recreate/4 Swap new", "ms-0 old: a-0 -> new: a-0"}},
		"does not swap to what cannot be read":           {targeting(one("0 old creating Drain:Drained:gone"), "gone"), nil},
		"leaves alone what is being deleted":             {one("0 old deleting Drain:Drained:new"), nil},
		"a booked group that is at the target is struck": {one("0 new ready"), []string{"Strike ms-0"}},
	})
}

func pausedNow(s Snapshot) Snapshot {
	s.Serving.Paused = true
	return s
}

// targeting makes a revision that cannot be read the target, against the contract.
func targeting(s Snapshot, target string) Snapshot {
	s.Target = target
	return s
}

func TestEqualRevisionsArePinnedWithoutAnUpdate(t *testing.T) {
	equal := serving(2, 1, 0, 0).with("0 old ready", "1 old ready")
	equal.Layouts["new"] = equal.Layouts["old"]
	protected := equal
	protected.Serving.Partition = 1
	run(t, map[string]row{
		"all of them":           {equal, []string{"ms-0 old: a-0 -> new: a-0", "ms-1 old: a-0 -> new: a-0"}},
		"but not protected one": {protected, []string{"ms-1 old: a-0 -> new: a-0"}},
	})
}

func TestGroupsAreLaidOutAnew(t *testing.T) {
	drained := func() Snapshot {
		s := ledger(serving(1, 1, 0, 0).with("0 old creating Drain:Drained:new"), "ms-0")
		s.Layouts["new"] = Layout{"a": {Digest: "a2", Workers: 1}, "b": {Digest: "b1"}}
		s.Serving.Roles = []Role{{Name: "a", Replicas: 2, MaxUnavailable: 1}, {Name: "b", Replicas: 1, MaxUnavailable: 1}}
		return s
	}
	added := drained()
	renamed := drained()
	renamed.Layouts["new"] = Layout{"b": {Digest: "b1"}}
	renamed.Serving.Roles = renamed.Serving.Roles[1:]
	scaled := serving(1, 1, 0, 1).with("0 old ready")
	scaled.Serving.Roles[0].Replicas = 3
	surplus := serving(2, 1, 0, 3).with("0 old ready", "1 old ready", "2 old ready")
	surplus.Serving.Roles[0].Replicas = 2
	shrunk := serving(1, 1, 0, 1).with("0 old ready")
	shrunk.Serving.Roles[0].Replicas = 0
	fresh := serving(1, 1, 0, 1)
	fresh.Layouts["old"] = Layout{"gone": {Digest: "g1"}, "a": {Digest: "a1"}}
	removal := serving(1, 1, 0, 1).with("0 old ready")
	addInstance(&removal.Groups[0], "a", "1 old ready")
	addUpdate(&removal.Groups[0], "a-1", "rDrain:Drained:")
	removal.Ledger = []string{"ms-0/a-1"}
	crossing := serving(2, 2, 0, 0).with("0 old ready", "1 old ready")
	addInstance(&crossing.Groups[1], "a", "1 old ready")
	addUpdate(&crossing.Groups[1], "a-1", "rDrain:Draining:")
	crossing.Ledger = []string{"ms-1/a-1"}
	run(t, map[string]row{
		"with an added role and more instances":  {added, []string{"ms-0 Recreate/4 Swap new", "ms-0 old: a-0 -> new: a-0 a-1 b-0"}},
		"without a removed role":                 {renamed, []string{"ms-0 Recreate/4 Serve new", "ms-0 old: a-0 -> new: b-0"}},
		"instances are added at the group's pin": {scaled, []string{"ms-0 old: a-0 -> old: a-0 a-1 a-2"}},
		"a surplus group serves until others have what was added": {
			surplus, []string{"ms-0 old: a-0 -> old: a-0 a-1", "ms-1 old: a-0 -> old: a-0 a-1", "ms-2 old: a-0 -> old: a-0 a-1"},
		},
		"surplus instances are drained first": {shrunk, removes("ms-0/a-0")},
		"an old role has an instance":         {fresh, []string{"Create ms-0 old"}},
		"a drained instance is dropped":       {removal, []string{"ms-0/a-1 Remove/4 Swap", "ms-0 old: a-0 a-1 -> old: a-0"}},
		"a group waits for its instances":     {crossing, takes("ms-0")},
	})
	got := pins(Decide(fresh).Actions[0].Spec)
	if diff := cmp.Diff("old: a-0 gone-0", got); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
}
