package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/coordinator/revision"
)

// An Undo is the way back to a revision.
type Undo struct {
	Number  int64    `json:"toRevision"`
	Name    string   `json:"name"`
	Changes []Change `json:"changes"`
	// Notes are what one should know of what follows.
	Notes []string                  `json:"notes,omitempty"`
	spec  v1alpha1.ModelServingSpec // what is to be declared
}

// Before stands for the revision before the one that is declared.
const Before int64 = 0

// To returns the way back to the revision of a number, or to the one Before. Replicas, budgets and
// partitions stay those of today. The error is an *order.RefusalError.
func To(f Facts, number int64) (Undo, error) {
	object := fmt.Sprintf("modelserving %s/%s", f.Serving.Namespace, f.Serving.Name)
	if f.Serving.DeletionTimestamp != nil {
		return Undo{}, &order.RefusalError{Object: object, Why: "is being deleted"}
	}
	declared, err := encoded(f)
	if err != nil {
		return Undo{}, &order.RefusalError{Object: object, Why: "declares what cannot be compared: " + err.Error()}
	}
	all := own(f)
	for _, cr := range slices.Backward(all) { // the highest number first
		if number != Before && cr.Revision != number {
			continue
		}
		data, content, err := read(cr)
		switch {
		case err != nil:
			return Undo{}, &order.RefusalError{
				Object: fmt.Sprintf("revision %d of %s", cr.Revision, object),
				Why:    "cannot be read: " + problem(err),
				Way:    "use the kubectl-pitstop of the coordinator's version, or choose another with --to-revision: " + numbers(f),
			}
		case !bytes.Equal(content, declared):
			u := Undo{Number: cr.Revision, Name: cr.Name, Changes: changes(declared, content), spec: *f.Serving.Spec.DeepCopy()}
			data.Apply(&u.spec)
			u.Notes = notes(f.Serving, data)
			return u, u.check(object, content)
		case number != Before:
			return Undo{}, &order.RefusalError{Object: object, Why: fmt.Sprintf("declares already what revision %d says", number)}
		}
	}
	if number == Before {
		return Undo{}, &order.RefusalError{Object: object, Why: "has no stored revision before the one that is declared", Way: numbers(f)}
	}
	return Undo{}, &order.RefusalError{Object: object, Why: fmt.Sprintf("has no revision %d", number), Way: numbers(f)}
}

// check refuses a spec that would not say what the revision says: writing it would start a rollout
// to something else.
func (u Undo) check(object string, content []byte) error {
	data, err := revision.Project(&u.spec)
	if err != nil {
		return &order.RefusalError{Object: object, Why: "cannot go back: " + err.Error()}
	}
	if got, err := data.Encode(); err != nil || !bytes.Equal(got, content) {
		return &order.RefusalError{
			Object: object, Why: fmt.Sprintf("cannot go back to revision %d: its fields, written into the spec of today, say something else", u.Number),
			Way: "write the fields into the spec by hand: `kubectl get controllerrevision " + u.Name + " -o yaml`",
		}
	}
	return nil
}

// numbers lists what there is to go back to.
func numbers(f Facts) string {
	var all []string
	for _, e := range Of(f).Revisions {
		text := fmt.Sprint(e.Number)
		switch {
		case e.Problem != "":
			text += " (cannot be read)"
		case e.Declared:
			text += " (declared now)"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "no revision is stored"
	}
	return "there are: " + strings.Join(all, ", ")
}

func notes(ms *v1alpha1.ModelServing, data revision.Data) []string {
	var all []string
	today := map[string]bool{}
	for _, r := range ms.Spec.Template.Roles {
		today[r.Name] = true
		if _, ok := data.Role(r.Name); !ok {
			all = append(all, fmt.Sprintf("role %s is not in the revision and goes", r.Name))
		}
	}
	for _, r := range data.Roles {
		if !today[r.Name] {
			all = append(all, fmt.Sprintf("role %s comes back with 1 replica", r.Name))
		}
	}
	if ms.Spec.Paused {
		all = append(all, "the ModelServing is paused: the rollout starts with `kubectl pitstop resume "+ms.Name+"`")
	}
	if c := ms.Spec.RolloutStrategy.RollingUpdateConfiguration; c != nil && c.Partition != nil && c.Partition.String() != "0" && c.Partition.String() != "0%" {
		all = append(all, "the partition stays "+c.Partition.String()+": groups with an ordinal below it keep the revision that they have")
	}
	return all
}

// Patch is the merge patch that declares the revision, for the ModelServing as it was read: it holds
// resourceVersion and UID, and what this build does not know of the roles of today.
func (u Undo) Patch(read map[string]any) ([]byte, error) {
	known, _, err := unstructured.NestedSlice(read, "spec", "template", "roles")
	if err != nil {
		return nil, fmt.Errorf("read modelserving: %w", err)
	}
	object := unstructured.Unstructured{Object: read}
	var roles []any
	for _, r := range u.spec.Template.Roles {
		role, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r)
		if err != nil {
			return nil, fmt.Errorf("encode role %s: %w", r.Name, err)
		}
		for _, v := range known {
			if today, ok := v.(map[string]any); ok && today["name"] == r.Name {
				role = merged(today, role)
			}
		}
		roles = append(roles, role)
	}
	var scheduler any // null takes the field away
	if u.spec.SchedulerName != "" {
		scheduler = u.spec.SchedulerName
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion()},
		"spec":     map[string]any{"schedulerName": scheduler, "template": map[string]any{"roles": roles}},
	})
}

// merged is the role of today with the versioned fields of another.
func merged(today, versioned map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(today)
	for _, key := range []string{"workerReplicas", "entryTemplate", "workerTemplate"} {
		delete(out, key)
		if v, ok := versioned[key]; ok {
			out[key] = v
		}
	}
	return out
}
