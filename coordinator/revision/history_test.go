package revision

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"pitstop.dev/api/v1alpha1"
)

// serving is the ModelServing that owns the revisions of the tests.
func serving() *v1alpha1.ModelServing {
	return &v1alpha1.ModelServing{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "llm-uid"}}
}

// saying returns Data that differs by the letter alone.
func saying(t *testing.T, letter string) Data {
	t.Helper()
	var s v1alpha1.ModelServingSpec
	role := v1alpha1.Role{Name: "engine"}
	role.EntryTemplate.Spec.Hostname = letter
	s.Template.Roles = []v1alpha1.Role{role}
	d, err := Project(&s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// revision returns one that says the letter, with a number. Its name is the letter.
func revision(t *testing.T, letter string, number int64, opts ...func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
	t.Helper()
	cr, err := New(serving(), saying(t, letter), number, 0)
	if err != nil {
		t.Fatal(err)
	}
	cr.Name, cr.UID = letter, types.UID("uid of "+letter)
	for _, opt := range opts {
		opt(cr)
	}
	return cr
}

func named(name string) func(*appsv1.ControllerRevision) {
	return func(cr *appsv1.ControllerRevision) { cr.Name = name }
}

func holdingText(text string) func(*appsv1.ControllerRevision) {
	return func(cr *appsv1.ControllerRevision) { cr.Data.Raw = []byte(text) }
}

func foreign(cr *appsv1.ControllerRevision) { cr.OwnerReferences[0].UID = "a former llm" }

func notControlled(cr *appsv1.ControllerRevision) { cr.OwnerReferences[0].Controller = new(false) }

func terminating(cr *appsv1.ControllerRevision) {
	cr.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0)))
}

// freshName is what a revision that says the letter is called when it is created.
func freshName(t *testing.T, letter string, collisions int32) string {
	t.Helper()
	cr, err := New(serving(), saying(t, letter), 0, collisions)
	if err != nil {
		t.Fatal(err)
	}
	return cr.Name
}

// outline is a Decision without what its objects hold.
type outline struct {
	Target         string
	Create, Raise  int64 // the number; 0 if there is none
	CollisionCount int32
	Delete         string
	Unreadable     string
}

func outlineOf(d Decision) outline {
	o := outline{Target: d.Target, CollisionCount: d.CollisionCount, Unreadable: strings.Join(d.Unreadable, " ")}
	if d.Create != nil {
		o.Create = d.Create.Revision
	}
	if d.Raise != nil {
		o.Raise = d.Raise.Revision
	}
	var names []string
	for _, cr := range d.Delete {
		names = append(names, cr.Name)
	}
	o.Delete = strings.Join(names, " ")
	return o
}

func TestDecide(t *testing.T) {
	ofA := freshName(t, "a", 0)
	for name, tt := range map[string]struct {
		stored     []*appsv1.ControllerRevision
		references []string
		limit      int32
		collisions int32
		want       outline // of what says a
	}{
		"the first revision has the number 1": {
			want: outline{Target: ofA, Create: 1},
		},
		"a new one has the number after the highest": {
			stored: []*appsv1.ControllerRevision{revision(t, "c", 7), revision(t, "b", 3)},
			limit:  2,
			want:   outline{Target: ofA, Create: 8},
		},
		"what is stored already needs nothing": {
			stored: []*appsv1.ControllerRevision{revision(t, "b", 3), revision(t, "a", 7)},
			limit:  1,
			want:   outline{Target: "a"},
		},
		"an older one that says the same only gets a new number": {
			stored: []*appsv1.ControllerRevision{revision(t, "a", 1), revision(t, "b", 2), revision(t, "c", 3)},
			limit:  9,
			want:   outline{Target: "a", Raise: 4},
		},
		"a number is not shared": {
			stored: []*appsv1.ControllerRevision{revision(t, "a", 2), revision(t, "b", 2)},
			limit:  9,
			want:   outline{Target: "a", Raise: 3},
		},
		"of two that say the same the later one is used": {
			stored: []*appsv1.ControllerRevision{revision(t, "a", 4, named("a2")), revision(t, "a", 3)},
			limit:  9,
			want:   outline{Target: "a2"},
		},
		"one that an older build stored in another form is used": {
			stored: []*appsv1.ControllerRevision{revision(t, "a", 1, named("old"), holdingText(
				`{"version":"v1","roles":[{"name":"engine","workerReplicas":0,"entryTemplate":{"metadata":{"creationTimestamp":null},"spec":{"hostname":"a","dnsPolicy":"ClusterFirst"}}}]}`))},
			want: outline{Target: "old"},
		},
		"a name that another content has is left for another": {
			stored: []*appsv1.ControllerRevision{revision(t, "b", 1, named(ofA))},
			limit:  9,
			want:   outline{Target: freshName(t, "a", 1), Create: 2, CollisionCount: 1},
		},
		"several names are taken": {
			stored: []*appsv1.ControllerRevision{revision(t, "b", 1, named(ofA)), revision(t, "c", 2, named(freshName(t, "a", 1)))},
			limit:  9,
			want:   outline{Target: freshName(t, "a", 2), Create: 3, CollisionCount: 2},
		},
		"the collision count stays": {
			collisions: 3,
			want:       outline{Target: freshName(t, "a", 3), Create: 1, CollisionCount: 3},
		},
		"a name found under a lower collision count is used": {
			stored:     []*appsv1.ControllerRevision{revision(t, "a", 1, named(ofA))},
			collisions: 3,
			want:       outline{Target: ofA, CollisionCount: 3},
		},
		"another owner's is not used, counted or deleted, but has its name": {
			stored: []*appsv1.ControllerRevision{
				revision(t, "a", 9, foreign, named(ofA)),
				revision(t, "b", 8, foreign),
				revision(t, "c", 7, notControlled),
			},
			want: outline{Target: freshName(t, "a", 1), Create: 1, CollisionCount: 1},
		},
		"one that is going away is not used, but has its name": {
			stored: []*appsv1.ControllerRevision{revision(t, "a", 1, terminating, named(ofA))},
			want:   outline{Target: freshName(t, "a", 1), Create: 1, CollisionCount: 1},
		},
		"one that cannot be read is not used; its number counts": {
			stored: []*appsv1.ControllerRevision{revision(t, "a", 5, holdingText(`{"version":"v2"}`), named(ofA))},
			limit:  9,
			want:   outline{Target: freshName(t, "a", 1), Create: 6, CollisionCount: 1, Unreadable: ofA},
		},
		"one that cannot be read is kept while something refers to it": {
			stored:     []*appsv1.ControllerRevision{revision(t, "x", 1, holdingText(`{`)), revision(t, "y", 2, holdingText(``)), revision(t, "a", 3)},
			references: []string{"x"},
			want:       outline{Target: "a", Delete: "y", Unreadable: "x y"},
		},
		"the oldest go that are beyond the limit": {
			stored: []*appsv1.ControllerRevision{revision(t, "c", 3), revision(t, "b", 2), revision(t, "e", 5), revision(t, "d", 4), revision(t, "a", 6)},
			limit:  2,
			want:   outline{Target: "a", Delete: "b c"},
		},
		"what is referred to is kept beside the limit": {
			stored:     []*appsv1.ControllerRevision{revision(t, "b", 1), revision(t, "c", 2), revision(t, "d", 3), revision(t, "e", 4), revision(t, "a", 5)},
			references: []string{"b", "d", "no such revision"},
			limit:      1,
			want:       outline{Target: "a", Delete: "c"},
		},
		"the target is kept beside the limit, though it is the oldest": {
			stored: []*appsv1.ControllerRevision{revision(t, "a", 1), revision(t, "b", 2), revision(t, "c", 3)},
			want:   outline{Target: "a", Raise: 4, Delete: "b c"},
		},
		"less than nothing is nothing": {
			stored: []*appsv1.ControllerRevision{revision(t, "b", 1), revision(t, "a", 2)},
			limit:  -1,
			want:   outline{Target: "a", Delete: "b"},
		},
		"a new target does not save the others": {
			stored: []*appsv1.ControllerRevision{revision(t, "b", 1)},
			want:   outline{Target: ofA, Create: 2, Delete: "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := History{
				Owner: serving(), Stored: tt.stored, Data: saying(t, "a"),
				References: sets.New(tt.references...), Limit: tt.limit, CollisionCount: tt.collisions,
			}
			for range 2 { // in either order of what is stored
				d, err := Decide(h)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, outlineOf(d)); diff != "" {
					t.Errorf("Decide (-want +got):\n%s", diff)
				}
				h.Stored = slices.Clone(h.Stored)
				slices.Reverse(h.Stored)
			}
		})
	}
}

func TestDecideRefusesData(t *testing.T) {
	if d, err := Decide(History{Owner: serving(), Data: Data{Roles: []Role{{}}}}); err == nil {
		t.Errorf("%+v", d)
	}
}

func TestNew(t *testing.T) {
	cr, err := New(serving(), saying(t, "a"), 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(cr, serving()) || cr.OwnerReferences[0].Kind != "ModelServing" || cr.OwnerReferences[0].APIVersion != "pitstop.dev/v1alpha1" {
		t.Errorf("owner %+v", cr.OwnerReferences)
	}
	hash, _ := strings.CutPrefix(cr.Name, "llm-")
	want := map[string]string{v1alpha1.LabelModelServing: "llm", appsv1.ControllerRevisionHashLabelKey: hash}
	if diff := cmp.Diff(want, cr.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if cr.Namespace != "ns" || cr.Revision != 3 {
		t.Errorf("%s, number %d", cr.Namespace, cr.Revision)
	}
	if d, err := Decode(cr); err != nil || cmp.Diff(saying(t, "a"), d) != "" {
		t.Errorf("decoded %+v, %v", d, err)
	}
}

func TestNamesFit(t *testing.T) {
	for _, ms := range []string{"a", strings.Repeat("b", 52), strings.Repeat("c", 53), strings.Repeat("d", 63), strings.Repeat("e", 51) + "-" + strings.Repeat("e", 9), strings.Repeat("f.", 31)} {
		got := name(ms, "0123456789")
		if errs := append(validation.IsDNS1123Subdomain(got), validation.IsValidLabelValue(got)...); len(errs) > 0 || len(got) > maxName {
			t.Errorf("%s of %s: %v", got, ms, errs)
		}
		if !strings.HasPrefix(got, ms[:min(len(ms), 51)]) {
			t.Errorf("%s of %s", got, ms)
		}
	}
}

func TestReferences(t *testing.T) {
	ms := serving()
	ms.Status.CurrentRevision, ms.Status.UpdateRevision = "current", "update"
	groups := []v1alpha1.ServingGroup{{}, {
		Spec: v1alpha1.ServingGroupSpec{
			Revision:  "pin",
			Instances: []v1alpha1.RoleInstance{{Revision: "own pin"}, {}},
			Updates:   []v1alpha1.UnitUpdate{{Target: "target", Previous: "previous"}, {}},
		},
		Status: v1alpha1.ServingGroupStatus{Instances: []v1alpha1.InstanceStatus{{Revision: "seen"}, {}}},
	}}
	want := []string{"current", "own pin", "pin", "previous", "seen", "target", "update"}
	if diff := cmp.Diff(want, sets.List(References(ms, groups))); diff != "" {
		t.Errorf("References (-want +got):\n%s", diff)
	}
	if got := References(serving(), nil); got.Len() > 0 {
		t.Errorf("of nothing: %v", got)
	}
}
