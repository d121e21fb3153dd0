package plan

import (
	"testing"
)

// A group of a revision that cannot be read may lack any declared role.
func TestAGroupThatCannotBeReadIsNotReliedOnForARoleThatItLacks(t *testing.T) {
	up := &instancePods{exist: true, loaded: true, gate: true}
	for name, tt := range map[string]struct {
		hidden bool
		want   bool
	}{
		"read: the role comes with its update": {false, true},
		"not read: it may be missing":          {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(1, 0, 0, 0).with("0 old ready")
			s.Serving.Roles = append(s.Serving.Roles, Role{Name: "b", Replicas: 2})
			s.Layouts["new"]["b"] = RoleLayout{Digest: "b1"}
			g := &servingGroup{Group: s.Groups[0], pods: map[string]*instancePods{"a-0": up}}
			m := &model{
				serving: s.Serving, target: s.Target, layouts: s.Layouts, now: s.Now,
				groups: map[string]*servingGroup{g.Name: g}, hidden: map[string]bool{"old": tt.hidden},
			}
			if tt.hidden {
				s.Layouts = map[string]Layout{"new": s.Layouts["new"]}
			}
			if got := m.readyGroup(g); got != tt.want {
				t.Errorf("the model relies on it: %t, want %t", got, tt.want)
			}
			if r := Decide(s).Report; r.Ready != one(tt.want) {
				t.Errorf("the plan counts %d ready groups, want %d", r.Ready, one(tt.want))
			}
		})
	}
}
