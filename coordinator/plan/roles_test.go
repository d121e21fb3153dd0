package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pitstop.dev/api/v1alpha1"
)

func budget(replicas, maxUnavailable, maxSurge, partition int32) Role {
	return Role{Replicas: replicas, MaxUnavailable: maxUnavailable, MaxSurge: maxSurge, Partition: partition}
}

// takesParts says that instances of group ms-0 are taken for an update, in this order; the group lists
// its updates by name.
func takesParts(units ...string) []string {
	book := "Book"
	for _, u := range units {
		book += " ms-0/" + u
	}
	out := []string{book}
	for i, u := range slices.Backward(units) {
		out = append(out, fmt.Sprintf("ms-0/%s Recreate/%d Drain new", u, 5+i))
	}
	return out
}

func TestInstancesAreTakenWithinTheBudget(t *testing.T) {
	s := serving(1, 0, 0, 0)
	same := s.roles(budget(1, 1, 0, 0), "0 old ready")
	same.Layouts["new"] = same.Layouts["old"]
	run(t, map[string]row{
		"what is down goes first and costs nothing": {
			s.roles(budget(4, 2, 0, 0), "0 old ready", "1 old down", "2 old ready", "3 old down"), takesParts("a-3", "a-1"),
		},
		"what blinks costs": {
			s.roles(budget(4, 2, 0, 0), "0 old ready", "1 old creating", "2 old ready", "3 old creating"), nil,
		},
		"one beside a new one that is creating": {
			s.roles(budget(4, 2, 0, 0), "0 old ready", "1 old ready", "2 new creating", "3 new ready"), takesParts("a-1"),
		},
		"none beside one that goes and one that comes": {
			s.roles(budget(4, 2, 0, 0), "0 old ready", "1 old ready", "2 new creating", "3 new deleting"), nil,
		},
		"one once the surge is ready":      {s.roles(budget(2, 0, 1, 0), "0 old ready", "1 old ready", "2 new ready"), takesParts("a-1")},
		"none while the surge is creating": {s.roles(budget(2, 0, 1, 0), "0 old ready", "1 old ready", "2 new creating"), nil},
		"the surge is created at once": {
			s.roles(budget(2, 0, 1, 0), "0 old ready", "1 old ready"), []string{"ms-0 old: a-0 a-1 -> old: a-0 a-1 a-2=new"},
		},
		"ordinals decide, not positions": {
			s.roles(budget(4, 3, 0, 2), "1 old ready", "3 old ready", "5 old ready", "8 old ready"), takesParts("a-8", "a-5", "a-3"),
		},
		"all with a budget of all":          {s.roles(budget(3, 3, 0, 0), "0 old ready", "1 old ready", "2 old ready"), takesParts("a-2", "a-1", "a-0")},
		"one with the default budget":       {s.roles(budget(3, 1, 0, 0), "0 old ready", "1 old ready", "2 old ready"), takesParts("a-2")},
		"an unchanged role is not outdated": {same, []string{"ms-0 old: a-0 -> new: a-0"}},
		"the last one takes the group along": {
			s.roles(budget(2, 1, 0, 0), "0 new ready", "1 new ready"), []string{"ms-0 old: a-0=new a-1=new -> new: a-0 a-1"},
		},
		"a protected one keeps the group": {s.roles(budget(2, 1, 0, 1), "0 old ready", "1 new ready"), nil},
	})
}

func TestInstancesAreScaled(t *testing.T) {
	s := serving(1, 0, 0, 0)
	lost := serving(1, 0, 0, 0).roles(budget(3, 1, 0, 1), "1 new ready", "2 new ready")
	delete(lost.Layouts, "old")
	lost.Groups[0].Spec.Revision = "new"
	for i := range lost.Groups[0].Spec.Instances {
		lost.Groups[0].Spec.Instances[i].Revision = ""
	}
	back := ledger(serving(1, 0, 0, 0).roles(budget(2, 1, 0, 0), "0 new ready", "1 new creating"), "ms-0/a-1")
	addUpdate(&back.Groups[0], "a-1", "rDrain:Draining:")
	run(t, map[string]row{
		"at the lowest free ordinals": {
			s.roles(budget(4, 1, 0, 4), "0 old ready", "5 old ready"), []string{"ms-0 old: a-0 a-5 -> old: a-0 a-1 a-2 a-5"},
		},
		"beside one that goes": {
			s.roles(budget(3, 1, 0, 3), "0 old ready", "1 old deleting"), []string{"ms-0 old: a-0 -> old: a-0 a-2"},
		},
		"protected ones at the current revision": {
			s.roles(budget(4, 1, 0, 2), "0 old ready", "2 new ready"), []string{"ms-0 old: a-0 a-2=new -> old: a-0 a-1 a-2=new a-3=new"},
		},
		"not from a revision that cannot be read": {lost, nil},
		"down by cost": {
			s.roles(budget(2, 1, 0, 4), "0 old ready cost=100", "1 old ready cost=50", "2 old ready", "3 old ready cost=75"),
			[]string{"Book ms-0/a-2 ms-0/a-1", "ms-0/a-1 Remove/6 Drain", "ms-0/a-2 Remove/5 Drain"},
		},
		"a removal is taken back": {back, []string{"ms-0/a-1 Recreate/5 Serve new"}},
	})
}

func TestRolesComeAndGo(t *testing.T) {
	base := func() Snapshot {
		s := serving(1, 0, 0, 0).roles(budget(1, 1, 0, 0), "0 old ready")
		s.Layouts["old"]["b"] = RoleLayout{Digest: "b1"}
		s.Layouts["new"] = Layout{"a": {Digest: "a1", Workers: 1}}
		addInstance(&s.Groups[0], "b", "0 old ready")
		addInstance(&s.Groups[0], "b", "1 old ready")
		return s
	}
	paused := base()
	paused.Serving.Paused = true
	second := base()
	second.Ledger = []string{"ms-0/b-1"}
	addUpdate(&second.Groups[0], "b-1", "rDrain:Draining:")
	added := serving(1, 0, 0, 0).roles(budget(1, 1, 0, 0), "0 old ready")
	added.Layouts["new"] = Layout{"a": {Digest: "a1", Workers: 1}, "c": {Digest: "c1"}}
	added.Serving.Roles = append(added.Serving.Roles, Role{Name: "c", Replicas: 2, MaxUnavailable: 1})
	coming := added
	coming.Groups = []Group{parseGroup("0 old ready")}
	addInstance(&coming.Groups[0], "c", "0 new ready")
	addInstance(&coming.Groups[0], "c", "1 new creating")
	there := added
	there.Groups = []Group{parseGroup("0 old ready")}
	addInstance(&there.Groups[0], "c", "0 new ready")
	addInstance(&there.Groups[0], "c", "1 new ready")
	run(t, map[string]row{
		"a removed role retires, one instance at a time": {base(), removes("ms-0/b-1")},
		"the next one waits for the first":               {second, nil},
		"it does not retire while paused":                {paused, nil},
		"an added role is created at once":               {added, []string{"ms-0 old: a-0 -> old: a-0 c-0=new c-1=new"}},
		"its absence makes nothing unavailable":          {coming, nil},
		"the group follows once it is ready":             {there, []string{"ms-0 old: a-0 c-0=new c-1=new -> new: a-0 c-0 c-1"}},
	})
	if r := Decide(coming).Report; r.Available != 1 || r.Complete {
		t.Errorf("a role that is being added: %+v", r)
	}
}

// A role that was added to a group is not in its layout. Its absence makes nothing unavailable, its
// update does: that takes away what served.
func TestUpdateOfAnAddedRole(t *testing.T) {
	base := func() Snapshot {
		s := serving(2, 1, 0, 0)
		s.Layouts = map[string]Layout{"old": {"b": {Digest: "b1"}}, "mid": {"a": {Digest: "a1"}, "b": {Digest: "b1"}}, "new": {"a": {Digest: "a2"}, "b": {Digest: "b1"}}}
		s.Serving.Roles = append(s.Serving.Roles, Role{Name: "b"})
		for o := range int32(2) {
			g := parseGroup(fmt.Sprintf("%d old ready", o))
			g.Spec.Instances, g.Status.Instances = nil, nil
			addInstance(&g, "a", "0 mid ready")
			s.Groups = append(s.Groups, g)
		}
		return s
	}
	open := base()
	open.Ledger = []string{"ms-0/a-0"}
	addUpdate(&open.Groups[0], "a-0", "Drain:Draining:new")
	few := base()
	few.Serving.Roles[0].Replicas = 2
	few.Groups[0].Spec.Instances[0].Revision, few.Groups[0].Status.Instances[0].Revision = "new", "new"
	lost := base()
	lost.Groups[0].Status.Instances[0].Ready, lost.Groups[0].Status.Instances[0].DownSince = false, ago(time.Second)
	booked := base()
	booked.Ledger = []string{"ms-0/a-0"}
	run(t, map[string]row{
		"leaves no budget for another group":      {open, nil},
		"booked, it leaves none either":           {booked, []string{"Strike ms-0/a-0"}},
		"one that was lost leaves none either":    {lost, nil},
		"one that is missed at the target too":    {few, []string{"ms-0 old: a-0=new -> new: a-0"}},
		"with nothing in update a group is taken": {base(), takes("ms-1")},
	})
	for name, kind := range map[string]v1alpha1.RolloutStrategyType{"by group": v1alpha1.ServingGroupRollingUpdate, "by role": v1alpha1.RoleRollingUpdate} {
		s := open
		s.Serving.Type = kind
		if r := Decide(s).Report; r.Available != 1 || r.Ready != 1 {
			t.Errorf("%s: %d are available and %d ready, want 1", name, r.Available, r.Ready)
		}
	}
}

func TestCapOverGroups(t *testing.T) {
	three := func(limit int32, lines ...string) Snapshot {
		s := serving(int32(len(lines)), 0, 0, 0)
		s.Serving.Type, s.Serving.MaxUnavailableGroups = v1alpha1.RoleRollingUpdate, limit
		s.Serving.Roles[0].MaxUnavailable = 1
		return s.with(lines...)
	}
	touched := three(1, "0 old ready", "1 old ready", "2 old ready")
	touched.Ledger = []string{"ms-0/a-0"}
	addUpdate(&touched.Groups[0], "a-0", "Drain:Draining:new")
	// Two groups were in update when the cap came down to one; one of them is closed and not yet struck.
	lowered := three(1, "0 old ready", "1 old ready", "2 old ready")
	lowered.Ledger = []string{"ms-0/a-0", "ms-1/a-0"}
	addUpdate(&lowered.Groups[0], "a-0", "Drain:Draining:new")
	closed := three(1, "0 old ready", "1 old ready")
	closed.Ledger = []string{"ms-0/a-0", "ms-1/a-0"}
	resumed := three(1, "0 old ready", "1 old ready")
	resumed.Ledger = []string{"ms-0/a-0"}
	// Nothing is known of role b at the target, and its instances do not come good.
	stuck := three(1, "0 new ready", "1 new ready")
	stuck.Layouts["old"] = Layout{"a": stuck.Layouts["new"]["a"], "b": {Digest: "b1"}}
	for i := range stuck.Groups {
		stuck.Groups[i].Spec.Revision = "old"
		addInstance(&stuck.Groups[i], "b", "0 old creating")
		addUpdate(&stuck.Groups[i], "b-0", "Swap:Failed:old")
	}
	stuck.Ledger = []string{"ms-0/b-0", "ms-1/b-0"}
	run(t, map[string]row{
		"what is out of service goes beyond a lowered cap":      {stuck, removes("ms-0/b-0", "ms-1/b-0")},
		"what is booked is not opened beyond a lowered cap":     {lowered, []string{"Strike ms-1/a-0"}},
		"neither of two that are booked is opened beyond a cap": {closed, []string{"Strike ms-0/a-0 ms-1/a-0"}},
		"what is booked is opened within the cap":               {resumed, takes("ms-0/a-0")},
		"without a cap every group moves": {
			three(0, "0 old ready", "1 old ready"), []string{"Book ms-0/a-0 ms-1/a-0", "ms-0/a-0 Recreate/5 Drain new", "ms-1/a-0 Recreate/5 Drain new"},
		},
		"the highest group goes first":         {three(1, "0 old ready", "1 old ready"), takes("ms-1/a-0")},
		"a group with a unit down goes before": {three(1, "0 old down", "1 old ready"), takes("ms-0/a-0")},
		"no other while one is touched":        {touched, nil},
	})
}

func TestNewGroupWithProtectedInstances(t *testing.T) {
	s := serving(1, 0, 0, 0).roles(budget(3, 1, 0, 2))
	s.Groups = nil
	p := Decide(s)
	if got, want := pins(p.Actions[0].Spec), "new: a-0=old a-1=old a-2"; got != want {
		t.Errorf("pins %q, want %q", got, want)
	}
	s.Current = "lost"
	if p = Decide(s); len(p.Actions) > 0 || p.Report.Blocked.Reason != v1alpha1.BlockedRevision {
		t.Errorf("from a revision that cannot be read: %+v", p)
	}
}

func TestRecheckEndsEveryTimer(t *testing.T) {
	young := serving(1, 1, 0, 0).with("0 new young")
	young.Serving.MinReady = time.Minute
	serves := ledger(serving(1, 1, 0, 0).with("0 new creating Serve:InService:new"), "ms-0")
	serves.Serving.MinReady = 5 * time.Minute
	for name, tt := range map[string]struct {
		in   Snapshot
		want time.Duration
	}{
		"all is done":                       {serving(1, 1, 0, 0).with("0 new ready"), 0},
		"ready, not for minReady":           {young, 59 * time.Second},
		"not ready, and soon down":          {serving(1, 1, 0, 0).with("0 old creating"), 29 * time.Second},
		"down, and then overdue":            {serving(1, 1, 0, 0).with("0 new down"), 59 * time.Minute},
		"in service, not for minReady":      {serves, 4 * time.Minute},
		"in a stage, and then for too long": {ledger(serving(1, 1, 0, 0).with("0 old ready Drain:Draining:new"), "ms-0"), 59 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(tt.in).Recheck; got != tt.want {
				t.Errorf("Recheck %s, want %s", got, tt.want)
			}
		})
	}
}
