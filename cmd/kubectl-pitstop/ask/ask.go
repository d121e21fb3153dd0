// Package ask is what a person asks of the controller of a ModelServing beside the spec: how a request is written,
// and what has become of it. It takes values and returns values.
package ask

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// A Subject is what an argument names: a Pod, or a unit of a ModelServing. A bare name may be either.
type Subject struct {
	// Pod is the name of a Pod, empty if the argument names none.
	Pod string
	// Group is the name of a ServingGroup, empty if the argument names none; Part is `<role>-<n>`, or empty for
	// the whole group.
	Group, Part string
}

// Unit is the name of the unit as in status.updating.
func (s Subject) Unit() string { return v1alpha1.LedgerEntry(s.Group, s.Part) }

// ReadSubject reads NAME, pod/NAME, GROUP/ROLE-N, sg/GROUP and sg/GROUP/ROLE-N. It is false for anything else. As
// the name of a ServingGroup ends with its ordinal, none is like the word for a kind.
func ReadSubject(arg string) (Subject, bool) {
	words := strings.Split(arg, "/")
	if slices.Contains(words, "") {
		return Subject{}, false
	}
	kind := strings.ToLower(words[0])
	switch {
	case len(words) == 1:
		return Subject{Pod: arg, Group: arg}, true
	case slices.Contains([]string{"pod", "pods", "po"}, kind):
		return Subject{Pod: words[1]}, len(words) == 2
	case slices.Contains([]string{"servinggroup", "servinggroups", "sg", "servinggroup.pitstop.dev", "servinggroups.pitstop.dev"}, kind):
		words = words[1:]
	}
	s := Subject{Group: words[0]}
	if len(words) == 2 {
		_, _, ok := v1alpha1.ParseUnit(words[1])
		s.Part = words[1]
		return s, ok
	}
	return s, len(words) == 1
}

// A Request is what a person asks of the controller of a ModelServing.
type Request struct {
	Verb v1alpha1.Verb
	// ID is one that was never used before.
	ID string
	// Unit is empty where the request is about the whole ModelServing.
	Unit string
}

// Patch returns the merge patch that puts the request on the ModelServing as it was read. One that is not answered
// yet is not replaced: that is a *order.ConflictError.
func Patch(ms *v1alpha1.ModelServing, r Request) ([]byte, error) {
	object := fmt.Sprintf("modelserving %s/%s", ms.Namespace, ms.Name)
	if ms.DeletionTimestamp != nil {
		return nil, &order.RefusalError{Object: object, Why: "is being deleted"}
	}
	if value, stands := ms.Annotations[r.Verb.Annotation()]; stands {
		if id, _, _ := v1alpha1.ParseRequest(value); AnswerTo(ms, Request{Verb: r.Verb, ID: id}) == nil {
			return nil, &order.ConflictError{
				Object: object,
				Why:    fmt.Sprintf("has a request to %s that is not answered yet: %s", r.Verb, value),
				Way:    "wait for its answer, or take it back: `" + TakeBack(ms, r.Verb) + "`",
			}
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": ms.UID, "resourceVersion": ms.ResourceVersion,
		"annotations": map[string]any{r.Verb.Annotation(): v1alpha1.FormatRequest(r.ID, r.Unit)},
	}})
}

// TakeBack is the command by which a request is taken back that was not answered.
func TakeBack(ms *v1alpha1.ModelServing, verb v1alpha1.Verb) string {
	return fmt.Sprintf("kubectl -n %s annotate modelserving/%s %s-", ms.Namespace, ms.Name, verb.Annotation())
}

// AnswerTo returns the controller's answer to the request, nil if there is none.
func AnswerTo(ms *v1alpha1.ModelServing, r Request) *v1alpha1.RequestStatus {
	for i := range ms.Status.Requests {
		if a := &ms.Status.Requests[i]; a.Verb == r.Verb && a.ID == r.ID {
			return a
		}
	}
	return nil
}

// Progress says how far the attempt is that was made for the request, and whether it has ended; err is not nil if
// it ended badly.
func Progress(sg *v1alpha1.ServingGroup, part string, r Request) (text string, ended bool, err error) {
	var open *v1alpha1.UnitUpdate
	for i := range sg.Spec.Updates {
		if u := &sg.Spec.Updates[i]; u.Unit == part && !u.Preparing() {
			open = u
		}
	}
	object, way := "unit "+r.Unit, explain(sg)
	switch {
	case open != nil && (open.Request == nil || open.Request.ID != r.ID):
		return "", true, &order.ConflictError{Object: object, Why: fmt.Sprintf("has gone on to attempt %d", open.Attempt), Way: way}
	case open == nil && sg.Status.ObservedGeneration != sg.Generation:
		return "", false, nil
	case open == nil:
		return "", true, unready(sg, part, r)
	}
	for _, s := range sg.Status.Updates {
		if s.Unit != part || s.Attempt != open.Attempt {
			continue
		}
		if s.Stage == v1alpha1.UnitFailed {
			return "", true, &order.RefusalError{Object: object, Why: "failed: " + s.Message, Way: way}
		}
		return string(s.Stage), false, nil
	}
	return "", false, nil
}

// unready says that a unit that was created anew is not ready although its update is closed.
func unready(sg *v1alpha1.ServingGroup, part string, r Request) error {
	if r.Verb != v1alpha1.VerbRecreate {
		return nil
	}
	for _, i := range sg.Status.Instances {
		unit := v1alpha1.UnitName(i.Role, *i.Ordinal)
		if (part == "" || part == unit) && !i.Ready {
			return &order.RefusalError{Object: "unit " + r.Unit, Why: "is not ready: " + i.Message, Way: explain(sg)}
		}
	}
	return nil
}

// explain is the command that says more.
func explain(sg *v1alpha1.ServingGroup) string {
	name := "NAME"
	if owner := metav1.GetControllerOfNoCopy(sg); owner != nil {
		name = owner.Name
	}
	return "see `kubectl pitstop explain modelserving/" + name + "`"
}
