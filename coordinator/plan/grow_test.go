package plan

import "testing"

func TestAGroupThatGrowsIsNotReliedOn(t *testing.T) {
	three := func(surge int32, lines ...string) Snapshot {
		s := serving(2, 0, 0, 0).roles(budget(1, 0, surge, 0), "0 old ready")
		s.Serving.Replicas = 2
		s.Groups = nil
		return s.with(lines...)
	}
	recalled := ledger(three(1, "0 new ready", "1 old ready", "2 new ready"), "ms-1/a-1")
	addInstance(&recalled.Groups[1], "a", "1 old ready")
	addUpdate(&recalled.Groups[1], "a-1", "rDrain:Draining:")
	run(t, map[string]row{
		"none goes while the others are given a surge": {
			three(1, "0 old ready", "1 old ready", "2 old ready"),
			[]string{"ms-0 old: a-0 -> old: a-0 a-1=new", "ms-1 old: a-0 -> old: a-0 a-1=new", "ms-2 old: a-0 -> old: a-0 a-1=new"},
		},
		"none goes while a removal in another is taken back": {recalled, []string{"ms-1/a-1 Recreate/5 Serve old"}},
		"one goes where nothing grows":                       {three(0, "0 old ready", "1 old ready", "2 old ready"), removes("ms-2")},
	})
}

func TestARoleIsNotThereWhileItsLastInstanceLeaves(t *testing.T) {
	s := serving(1, 0, 0, 0).with("0 old ready")
	s.Layouts["new"] = Layout{"a": s.Layouts["old"]["a"], "b": {Digest: "b1"}}
	s.Serving.Roles = append(s.Serving.Roles, Role{Name: "b", Replicas: 1, MaxUnavailable: 1})
	addInstance(&s.Groups[0], "b", "0 old ready")
	s.Groups[0].Spec.Instances = s.Groups[0].Spec.Instances[:1]
	if r := Decide(s).Report; r.Updated != 0 {
		t.Errorf("the group lacks a role of the target, and the report says %+v", r)
	}
}

func TestAProtectedGroupAtTheTargetHasOnePin(t *testing.T) {
	s := serving(1, 1, 0, 1).with("0 new ready")
	s.Layouts["same"] = s.Layouts["new"]
	s.Groups[0].Spec.Instances[0].Revision = "same"
	other := serving(1, 1, 0, 1).with("0 same ready")
	other.Layouts["same"] = other.Layouts["new"]
	run(t, map[string]row{
		"pins of instances that differ in nothing go": {s, []string{"ms-0 new: a-0=same -> new: a-0"}},
		"its own pin stays":                           {other, nil},
	})
}
