// Package history says what the stored revisions of a ModelServing are, what uses them and what
// changed from one to the next, and makes the spec that goes back to one. It is pure: everything
// was read before.
package history

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/revision"
)

// Facts are the objects as they were read at Now. Groups and Revisions may hold those of others:
// ownership by UID decides.
type Facts struct {
	Serving   *v1alpha1.ModelServing
	Groups    []*v1alpha1.ServingGroup
	Revisions []*appsv1.ControllerRevision
	Now       time.Time
}

// A History lists the revisions of a ModelServing, the oldest first.
type History struct {
	Namespace    string      `json:"namespace"`
	ModelServing string      `json:"modelServing"`
	Now          metav1.Time `json:"now"`
	Revisions    []Entry     `json:"revisions"`
	// Note is what else one should know.
	Note string `json:"note,omitempty"`
}

// An Entry is one revision.
type Entry struct {
	// Number is what undo takes. A revision that is declared again gets a new one.
	Number  int64       `json:"number"`
	Name    string      `json:"name"`
	Created metav1.Time `json:"created"`
	// Declared: it says what the spec says now.
	Declared bool `json:"declared"`
	Uses     Uses `json:"uses"`
	// Problem says why the revision cannot be read; then it has no images and no changes.
	Problem string  `json:"problem,omitempty"`
	Images  []Image `json:"images"`
	// Changes are against the readable one before; the first has none.
	Changes []Change `json:"changes"`
}

// Uses are what refers to a revision.
type Uses struct {
	// Target: the rollout leads to it. Current: all units had it when the last rollout was complete.
	Target  bool `json:"target"`
	Current bool `json:"current"`
	// Groups and Instances are pinned to it, Instances by a pin of their own.
	Groups    []string `json:"groups,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Updates lead to it or come from it, and need it until they end.
	Updates []string `json:"updates,omitempty"`
}

// An Image is that of one container.
type Image struct {
	Role string `json:"role"`
	// Template is entryTemplate or workerTemplate.
	Template  string `json:"template"`
	Container string `json:"container"`
	Image     string `json:"image"`
}

// Of lists the revisions.
func Of(f Facts) History {
	ms := f.Serving
	h := History{Namespace: ms.Namespace, ModelServing: ms.Name, Now: metav1.NewTime(f.Now), Revisions: []Entry{}}
	declared, err := encoded(f)
	if err != nil {
		h.Note = "what the spec declares cannot be compared: " + err.Error()
	}
	var before []byte
	for _, cr := range own(f) {
		e := Entry{Number: cr.Revision, Name: cr.Name, Created: cr.CreationTimestamp, Uses: uses(f, cr.Name), Images: []Image{}, Changes: []Change{}}
		data, content, err := read(cr)
		if err != nil {
			e.Problem = problem(err)
			h.Revisions = append(h.Revisions, e)
			continue
		}
		e.Declared = declared != nil && bytes.Equal(content, declared)
		e.Images = images(data)
		if before != nil {
			e.Changes = changes(before, content)
		}
		before = content
		h.Revisions = append(h.Revisions, e)
	}
	stored := slices.ContainsFunc(h.Revisions, func(e Entry) bool { return e.Declared })
	if declared != nil && !stored {
		h.Note = "what the spec declares now is not stored yet: the coordinator does that when it takes up the change"
	}
	return h
}

// own are the revisions that the ModelServing controls, by number.
func own(f Facts) []*appsv1.ControllerRevision {
	var own []*appsv1.ControllerRevision
	for _, cr := range f.Revisions {
		if cr.DeletionTimestamp == nil && metav1.IsControlledBy(cr, f.Serving) {
			own = append(own, cr)
		}
	}
	slices.SortFunc(own, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return own
}

// encoded is what the spec declares, in the form in which revisions can be compared.
func encoded(f Facts) ([]byte, error) {
	data, err := revision.Project(&f.Serving.Spec)
	if err != nil {
		return nil, err
	}
	return data.Encode()
}

// read returns what a revision says, and that in the form in which revisions can be compared.
func read(cr *appsv1.ControllerRevision) (revision.Data, []byte, error) {
	data, err := revision.Decode(cr)
	if err != nil {
		return revision.Data{}, nil, err
	}
	content, err := data.Encode()
	return data, content, err
}

// problem says why a revision cannot be read, without saying again that it cannot.
func problem(err error) string {
	return strings.TrimPrefix(err.Error(), revision.ErrUnreadable.Error()+": ")
}

func uses(f Facts, name string) Uses {
	u := Uses{Target: f.Serving.Status.UpdateRevision == name, Current: f.Serving.Status.CurrentRevision == name}
	for _, sg := range f.Groups {
		if !metav1.IsControlledBy(sg, f.Serving) {
			continue
		}
		if sg.Spec.Revision == name {
			u.Groups = append(u.Groups, sg.Name)
		}
		for _, i := range sg.Spec.Instances {
			if i.Revision == name && i.Ordinal != nil {
				u.Instances = append(u.Instances, v1alpha1.LedgerEntry(sg.Name, v1alpha1.UnitName(i.Role, *i.Ordinal)))
			}
		}
		for _, o := range sg.Spec.Updates {
			if o.Target == name || o.Previous == name {
				u.Updates = append(u.Updates, v1alpha1.LedgerEntry(sg.Name, o.Unit))
			}
		}
	}
	slices.Sort(u.Groups)
	slices.Sort(u.Instances)
	slices.Sort(u.Updates)
	return u
}

func images(d revision.Data) []Image {
	all := []Image{}
	for _, r := range d.Roles {
		for _, c := range r.EntryTemplate.Spec.Containers {
			all = append(all, Image{r.Name, "entryTemplate", c.Name, c.Image})
		}
		if r.WorkerTemplate == nil {
			continue
		}
		for _, c := range r.WorkerTemplate.Spec.Containers {
			all = append(all, Image{r.Name, "workerTemplate", c.Name, c.Image})
		}
	}
	return all
}
