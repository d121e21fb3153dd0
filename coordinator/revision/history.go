package revision

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"pitstop.dev/api/v1alpha1"
)

// History is what Decide goes by.
type History struct {
	// Owner is the ModelServing whose revisions these are.
	Owner *v1alpha1.ModelServing
	// Stored are the ControllerRevisions that were found in the namespace. Those of other owners are
	// never used nor touched, but their names are taken.
	Stored []*appsv1.ControllerRevision
	// Data is what is declared now, from Project.
	Data Data
	// References are the names that something still needs; see References.
	References sets.Set[string]
	// Limit is how many revisions are kept beside the target and those referred to.
	Limit int32
	// CollisionCount is MS.status.collisionCount, 0 if absent.
	CollisionCount int32
	// Memo spares reading Stored anew; it may be nil.
	Memo *Memo
}

// Decision is what is to be done. Its writes may be cut after any of them: a Decision on what is then
// stored leads to the same end.
type Decision struct {
	// Target is the name of the revision that says what is declared. It may be referred to only once
	// Create or Raise, if there is one, has succeeded.
	Target string
	// CollisionCount is to be kept in the status. It only grows.
	CollisionCount int32
	// Create is the target, if it is not stored yet. AlreadyExists means that Stored was incomplete:
	// decide again with that object among them.
	Create *appsv1.ControllerRevision
	// Raise is the stored target with a higher number, to be updated: it was declared again.
	Raise *appsv1.ControllerRevision
	// Delete are the revisions that nobody needs, the oldest first. They are to be deleted by UID, and
	// only after a live reading of what refers to revisions.
	Delete []*appsv1.ControllerRevision
	// Unreadable are the owner's revisions that cannot be read, by name.
	Unreadable []string
}

// Decide finds the revision that says what is declared, or makes one, and tells which are no longer
// needed. It changes none of what it is given.
func Decide(h History) (Decision, error) {
	data, err := h.Data.Encode()
	if err != nil {
		return Decision{}, fmt.Errorf("decide on revisions of %s: %w", h.Owner.Name, err)
	}
	own := h.own()
	d := Decision{CollisionCount: h.CollisionCount}
	var equal *appsv1.ControllerRevision
	for _, cr := range own {
		if bytes.Equal(cr.Data.Raw, data) {
			equal = cr
			continue
		}
		stored, err := h.Memo.Read(cr)
		if err != nil {
			d.Unreadable = append(d.Unreadable, cr.Name)
			continue
		}
		if bytes.Equal(stored.canonical, data) {
			equal = cr // of several the last one: the highest number
		}
	}
	slices.Sort(d.Unreadable)
	switch {
	case equal == nil:
		d.CollisionCount = h.freeCount(data)
		d.Create = build(h.Owner, data, d.CollisionCount)
		d.Create.Revision = nextNumber(own)
		d.Target = d.Create.Name
	case numberedAbove(own, equal):
		d.Target = equal.Name
	default:
		d.Raise = equal.DeepCopy()
		d.Raise.Revision = nextNumber(own)
		d.Target = equal.Name
	}
	d.Delete = h.superfluous(own, d.Target)
	return d, nil
}

// own returns the owner's revisions that are not going away, the oldest first.
func (h History) own() []*appsv1.ControllerRevision {
	var own []*appsv1.ControllerRevision
	for _, cr := range h.Stored {
		if cr.DeletionTimestamp.IsZero() && metav1.IsControlledBy(cr, h.Owner) {
			own = append(own, cr)
		}
	}
	slices.SortFunc(own, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name),
		)
	})
	return own
}

func nextNumber(own []*appsv1.ControllerRevision) int64 {
	if len(own) == 0 {
		return 1
	}
	return own[len(own)-1].Revision + 1
}

// numberedAbove says whether the revision's number is higher than those of all others.
func numberedAbove(own []*appsv1.ControllerRevision, cr *appsv1.ControllerRevision) bool {
	return !slices.ContainsFunc(own, func(other *appsv1.ControllerRevision) bool {
		return other != cr && other.Revision >= cr.Revision
	})
}

// freeCount returns the first collision count from the present one on under which the data gets a
// name that nobody has.
func (h History) freeCount(data []byte) int32 {
	taken := sets.New[string]()
	for _, cr := range h.Stored {
		taken.Insert(cr.Name)
	}
	count := h.CollisionCount
	for taken.Has(name(h.Owner.Name, hash(data, count))) {
		count++
	}
	return count
}

// superfluous returns those beyond the limit, the oldest first. An unreadable revision is kept while
// something refers to it: a later build may read it.
func (h History) superfluous(own []*appsv1.ControllerRevision, target string) []*appsv1.ControllerRevision {
	free := slices.DeleteFunc(slices.Clone(own), func(cr *appsv1.ControllerRevision) bool {
		return cr.Name == target || h.References.Has(cr.Name)
	})
	return free[:max(0, len(free)-int(max(0, h.Limit)))]
}
