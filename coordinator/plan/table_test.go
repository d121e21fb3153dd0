package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// noon is the present of the tables.
func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// serving is a ModelServing ms with one role a of one instance with a worker, that goes from revision
// old to revision new.
func serving(replicas, maxUnavailable, maxSurge, partition int32) Snapshot {
	return Snapshot{
		Now: noon(), Target: "new", Current: "old",
		Layouts: map[string]Layout{"old": {"a": {Digest: "a1", Workers: 1}}, "new": {"a": {Digest: "a2", Workers: 1}}},
		Serving: Serving{
			Name: "ms", Type: v1alpha1.ServingGroupRollingUpdate, Replicas: replicas, Deadline: time.Hour,
			MaxUnavailable: maxUnavailable, MaxSurge: maxSurge, Partition: partition,
			Roles: []Role{{Name: "a", Replicas: 1, MaxUnavailable: 1}},
		},
	}
}

// with adds groups, each a line `<ordinal> <revision> <state> [cost=<n>] [drain|swap|serve[=<target>]] ...`; see parse.
func (s Snapshot) with(lines ...string) Snapshot {
	for _, line := range lines {
		s.Groups = append(s.Groups, parseGroup(line))
	}
	return s
}

// roles makes the ModelServing roll role instances of one group, which are given by lines as in with.
func (s Snapshot) roles(r Role, lines ...string) Snapshot {
	s.Serving.Type, s.Serving.Replicas = v1alpha1.RoleRollingUpdate, 1
	s.Serving.MaxUnavailable, s.Serving.MaxSurge, s.Serving.Partition = 0, 0, 0
	s.Layouts = maps.Clone(s.Layouts)
	r.Name = "a"
	s.Serving.Roles = []Role{r}
	g := parseGroup("0 old ready")
	g.Spec.Instances, g.Status.Instances = nil, nil
	for _, line := range lines {
		addInstance(&g, "a", line)
	}
	s.Groups = []Group{g}
	return s
}

// parseGroup makes a group of one instance. The state is ready, young (ready since a second),
// creating (for a second), down (for a minute), deleting, or fresh (not reported on yet).
func parseGroup(line string) Group {
	f := strings.Fields(line)
	ordinal := atoi(f[0])
	g := Group{
		Name: v1alpha1.ServingGroupName("ms", ordinal), UID: types.UID("uid-" + f[0]), ResourceVersion: "7", Generation: 3,
		Spec:   v1alpha1.ServingGroupSpec{Ordinal: new(ordinal), Revision: f[1], LastAttempt: 4},
		Status: v1alpha1.ServingGroupStatus{ObservedGeneration: 3},
	}
	addInstance(&g, "a", "0 "+f[1]+" "+f[2]+" "+strings.Join(f[3:], " "))
	g.Spec.Instances[0].Revision = ""
	g.Deleting = f[2] == "deleting"
	if f[2] == "fresh" {
		g.Status = v1alpha1.ServingGroupStatus{}
	}
	for _, word := range f[3:] {
		addUpdate(&g, "", word)
	}
	return g
}

func addInstance(g *Group, role, line string) {
	f := strings.Fields(line)
	st := v1alpha1.InstanceStatus{Role: role, Ordinal: new(atoi(f[0])), Phase: v1alpha1.InstanceRunning, Revision: f[1]}
	switch f[2] {
	case "ready":
		st.Ready, st.ReadySince = true, ago(time.Hour)
	case "young":
		st.Ready, st.ReadySince = true, ago(time.Second)
	case "creating":
		st.DownSince = ago(time.Second)
	default:
		st.DownSince = ago(time.Minute)
	}
	inst := v1alpha1.RoleInstance{Role: role, Ordinal: st.Ordinal}
	if f[1] != g.Spec.Revision {
		inst.Revision = f[1]
	}
	for _, word := range f[3:] {
		if cost, ok := strings.CutPrefix(word, "cost="); ok {
			st.DeletionCost = int64(atoi(cost))
		}
		if word == "sick" {
			st.GPUFault = "Pod x on node n: GPU-1 is lost"
		}
		if unit, ok := strings.CutPrefix(word, "held="); ok {
			g.Spec.GPUHolds = append(g.Spec.GPUHolds, unit)
		}
	}
	if f[2] != "deleting" || len(g.Spec.Instances) == 0 {
		g.Spec.Instances = append(g.Spec.Instances, inst)
	}
	g.Status.Instances = append(g.Status.Instances, st)
}

// addUpdate opens the update of a unit: `<permit>:<stage>:<target>`, with an r before the permit for a
// removal, an i for one in place. The unit last served at revision old.
func addUpdate(g *Group, unit, word string) {
	f := strings.Split(word, ":")
	if len(f) != 3 {
		return
	}
	u := v1alpha1.UnitUpdate{Unit: unit, Attempt: 4, Method: v1alpha1.UnitRecreate, Target: f[2], Previous: "old", Permit: v1alpha1.Permit(f[0])}
	if permit, ok := strings.CutPrefix(f[0], "r"); ok {
		u.Method, u.Target, u.Permit = v1alpha1.UnitRemove, "", v1alpha1.Permit(permit)
	}
	if permit, ok := strings.CutPrefix(f[0], "i"); ok {
		u.Method, u.Permit = v1alpha1.UnitInPlace, v1alpha1.Permit(permit)
	}
	g.Spec.Updates = append(g.Spec.Updates, u)
	g.Status.Updates = append(g.Status.Updates, v1alpha1.UnitUpdateStatus{
		Unit: unit, Attempt: 4, Stage: v1alpha1.UnitStage(f[1]), Since: *ago(time.Minute),
		Reason: v1alpha1.UnitWaitingReady, Message: "Pod x is not ready",
	})
}

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon().Add(-d)} }

func atoi(s string) int32 {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return int32(n)
}

// steps says in words what a plan does, in its order.
func steps(s Snapshot, p Plan) []string {
	var out []string
	for _, a := range p.Actions {
		switch a.Kind {
		case Book, Strike:
			out = append(out, fmt.Sprintf("%s %s", a.Kind, strings.Join(a.Entries, " ")))
		case Record:
			out = append(out, "Record")
		case Reject:
			out = append(out, "Reject "+s.Target)
		case Delete:
			out = append(out, "Delete "+a.Group)
		case Create:
			out = append(out, fmt.Sprintf("Create %s %s", a.Group, a.Spec.Revision))
		case Write:
			out = append(out, writes(s, a)...)
		}
	}
	return out
}

// writes tells how a write changes a group.
func writes(s Snapshot, a Action) []string {
	var old v1alpha1.ServingGroupSpec
	for _, g := range s.Groups {
		if g.Name == a.Group {
			old = g.Spec
		}
	}
	var out []string
	for i := range a.Spec.Updates {
		u, was := &a.Spec.Updates[i], find(&old, a.Spec.Updates[i].Unit)
		if was == nil || *was != *u {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s/%d %s %s", v1alpha1.LedgerEntry(a.Group, u.Unit), u.Method, u.Attempt, u.Permit, u.Target)))
		}
	}
	for i := range old.Updates {
		if find(&a.Spec, old.Updates[i].Unit) == nil {
			out = append(out, "close "+v1alpha1.LedgerEntry(a.Group, old.Updates[i].Unit))
		}
	}
	for _, unit := range a.Spec.GPUHolds {
		if !slices.Contains(old.GPUHolds, unit) {
			out = append(out, "hold "+v1alpha1.LedgerEntry(a.Group, unit))
		}
	}
	for _, unit := range old.GPUHolds {
		if !slices.Contains(a.Spec.GPUHolds, unit) {
			out = append(out, "let go "+v1alpha1.LedgerEntry(a.Group, unit))
		}
	}
	if was, is := pins(old), pins(a.Spec); was != is {
		out = append(out, fmt.Sprintf("%s %s -> %s", a.Group, was, is))
	}
	return out
}

// pins lists the pins of a group: its own, and those of its instances.
func pins(spec v1alpha1.ServingGroupSpec) string {
	words := []string{spec.Revision + ":"}
	for _, i := range spec.Instances {
		words = append(words, strings.TrimSuffix(v1alpha1.UnitName(i.Role, *i.Ordinal)+"="+i.Revision, "="))
	}
	return strings.Join(words, " ")
}

// rows runs a table: what a snapshot leads to.
type row struct {
	in   Snapshot
	want []string
}

func run(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			if diff := diffSteps(r.want, steps(r.in, Decide(r.in))); diff != "" {
				t.Errorf("Decide() (-want +got):\n%s", diff)
			}
		})
	}
}
