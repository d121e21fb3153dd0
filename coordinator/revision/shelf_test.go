package revision

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// A shelf holds ControllerRevisions as the API server would. It dies at the cut-th write, before it
// or after it, as a process may.
type shelf struct {
	stored     map[string]*appsv1.ControllerRevision
	collisions int32
	births     int
	log        []string
}

// follow does what was decided, and stops after a number of writes; it reports whether it got to the end.
func (s *shelf) follow(t *testing.T, d Decision, writes int) bool {
	t.Helper()
	do := func(what string, write func()) bool {
		if writes == 0 {
			return false
		}
		writes--
		s.log = append(s.log, what)
		write()
		return true
	}
	if d.CollisionCount != s.collisions && !do(fmt.Sprintf("count %d", d.CollisionCount), func() { s.collisions = d.CollisionCount }) {
		return false
	}
	if cr := d.Create; cr != nil && !do("create "+cr.Name, func() {
		if s.stored[cr.Name] != nil {
			t.Fatalf("%s exists already", cr.Name)
		}
		cr.UID = types.UID(fmt.Sprint("uid ", s.births))
		s.births++
		s.stored[cr.Name] = cr
	}) {
		return false
	}
	if cr := d.Raise; cr != nil && !do(fmt.Sprint("raise ", cr.Name, " to ", cr.Revision), func() {
		if old := s.stored[cr.Name]; string(old.Data.Raw) != string(cr.Data.Raw) || old.UID != cr.UID {
			t.Fatalf("%s has changed", cr.Name)
		}
		s.stored[cr.Name] = cr
	}) {
		return false
	}
	for _, cr := range d.Delete {
		if !do("delete "+cr.Name, func() { delete(s.stored, cr.Name) }) {
			return false
		}
	}
	return true
}

func (s *shelf) list() []*appsv1.ControllerRevision {
	var all []*appsv1.ControllerRevision
	for _, cr := range s.stored { // in any order, as from a cache
		all = append(all, cr)
	}
	return all
}

func (s *shelf) outline() map[string]int64 {
	numbers := map[string]int64{}
	for _, cr := range s.stored {
		numbers[cr.Name] = cr.Revision
	}
	return numbers
}

func TestDecideSurvivesACutAfterEveryWrite(t *testing.T) {
	ofA := freshName(t, "a", 0)
	for name, stored := range map[string][]*appsv1.ControllerRevision{
		"a new revision under a name that is taken": {revision(t, "x", 1, named(ofA)), revision(t, "c", 2), revision(t, "d", 3)},
		"an old revision": {revision(t, "a", 1), revision(t, "b", 2), revision(t, "c", 3), revision(t, "d", 4)},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(cut int) *shelf {
				s := &shelf{stored: map[string]*appsv1.ControllerRevision{}}
				for _, cr := range stored {
					s.stored[cr.Name] = cr
				}
				for _, writes := range []int{cut, 100, 0} {
					h := History{Owner: serving(), Stored: s.list(), Data: saying(t, "a"), References: sets.New("c", ofA), Limit: 0, CollisionCount: s.collisions}
					d, err := Decide(h)
					if err != nil {
						t.Fatal(err)
					}
					if ended := s.follow(t, d, writes); !ended && writes != cut {
						t.Fatalf("cut %d: %v, and still %+v", cut, s.log, outlineOf(d))
					}
				}
				return s
			}
			whole := run(100)
			if len(whole.log) < 3 {
				t.Fatalf("only %v", whole.log)
			}
			for cut := range whole.log {
				s := run(cut)
				if diff := cmp.Diff(whole.outline(), s.outline()); diff != "" {
					t.Errorf("cut %d (-whole +cut):\n%s", cut, diff)
				}
				if diff := cmp.Diff(whole.log, s.log); diff != "" {
					t.Errorf("cut %d: writes (-whole +cut):\n%s", cut, diff)
				}
			}
		})
	}
}
