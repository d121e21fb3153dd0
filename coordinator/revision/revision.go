// Package revision says what of a ModelServing is versioned, when two versions are the same, and
// which ControllerRevisions hold them. It decides and does not act: values in, values out.
//
// What is stored is a projection of the spec in one canonical form, so that one declaration has one
// sequence of bytes, whatever way it was written:
//
//   - Roles stand in the order of their names, and so does every list whose order has no meaning.
//   - What the API server would fill in is left out, never written down: a field that Kubernetes
//     adds or defaults anew makes no new bytes, and a Pod made from the data is the one that the
//     server would have made from what the user wrote.
//   - Quantities have one spelling, null and empty are absent.
//   - What Pitstop itself puts on Pods is left out.
//
// Replicas, budgets, partitions, recovery and rollout are not versioned.
package revision

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// ErrUnreadable reports a ControllerRevision of which this build does not know what it says: damaged,
// of another shape, or written by a later version. It is never evidence of a difference.
var ErrUnreadable = errors.New("revision cannot be read")

// version is the form of the stored data. Data of any other is unreadable.
const version = "v1"

// Data is what a revision says: the versioned part of a ModelServing. That of Project and Decode is
// canonical; it is shared and must not be changed.
type Data struct {
	// SchedulerName is the scheduler of Pods whose template names none; empty is the cluster's default.
	SchedulerName string
	// Roles are sorted by name.
	Roles []Role
}

// A Role is one kind of work, as a revision has it.
type Role struct {
	Name           string `json:"name"`
	WorkerReplicas int32  `json:"workerReplicas,omitempty"`
	// EntryTemplate is never nil.
	EntryTemplate *corev1.PodTemplateSpec `json:"entryTemplate"`
	// WorkerTemplate is nil if there are no workers: a template that no Pod is made from is not versioned.
	WorkerTemplate *corev1.PodTemplateSpec `json:"workerTemplate,omitempty"`
}

// stored is Data as it is written.
type stored struct {
	Version       string `json:"version"`
	SchedulerName string `json:"schedulerName,omitempty"`
	Roles         []Role `json:"roles"`
}

// Role returns the role of a name.
func (d Data) Role(name string) (Role, bool) {
	for _, r := range d.Roles {
		if r.Name == name {
			return r, true
		}
	}
	return Role{}, false
}

// RoleDigest is equal for two revisions exactly if the Pods of the role are the same in both. It is
// empty if there is no such role, and fits a label or an annotation.
func (d Data) RoleDigest(name string) string {
	r, ok := d.Role(name)
	if !ok {
		return ""
	}
	data, err := Data{SchedulerName: d.SchedulerName, Roles: []Role{r}}.Encode()
	if err != nil {
		panic(fmt.Sprintf("role %s: %v", name, err)) // neither Project nor Decode returns such Data
	}
	return digest(data)[:32]
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Encode returns the canonical bytes: equal for two Data exactly if they say the same.
func (d Data) Encode() ([]byte, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	s := stored{Version: version, SchedulerName: d.SchedulerName}
	for _, r := range d.Roles {
		s.Roles = append(s.Roles, r.normalised(d.SchedulerName))
	}
	if s.SchedulerName == corev1.DefaultSchedulerName {
		s.SchedulerName = ""
	}
	slices.SortFunc(s.Roles, func(a, b Role) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return canonical(data)
}

func (d Data) validate() error {
	seen := map[string]bool{}
	for _, r := range d.Roles {
		switch {
		case r.Name == "" || seen[r.Name]:
			return fmt.Errorf("role %q: the name is empty or not unique", r.Name)
		case r.EntryTemplate == nil:
			return fmt.Errorf("role %s: no template of the entry Pod", r.Name)
		case r.WorkerReplicas < 0 || r.WorkerReplicas > 0 && r.WorkerTemplate == nil:
			return fmt.Errorf("role %s: %d workers without a template", r.Name, r.WorkerReplicas)
		}
		seen[r.Name] = true
	}
	return nil
}

// Decode returns what a revision says, or an error that wraps ErrUnreadable.
func Decode(cr *appsv1.ControllerRevision) (Data, error) {
	d, _, err := decode(cr)
	return d, err
}

// decode returns also the canonical bytes, which are those of this build: an older one may have left
// less out.
func decode(cr *appsv1.ControllerRevision) (Data, []byte, error) {
	unreadable := func(err error) (Data, []byte, error) {
		return Data{}, nil, fmt.Errorf("%w: %s: %w", ErrUnreadable, cr.Name, err)
	}
	d, err := parse(cr.Data.Raw)
	if err != nil {
		return unreadable(err)
	}
	data, err := d.Encode()
	if err != nil {
		return unreadable(err)
	}
	if !bytes.Equal(data, cr.Data.Raw) {
		if d, err = parse(data); err != nil {
			return unreadable(err)
		}
	}
	return d, data, nil
}

// parse is strict. A field that this build does not know was written by a later one: to pass over it
// would rebuild Pods without it.
func parse(data []byte) (Data, error) {
	var head struct {
		Version string `json:"version"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &head); err != nil {
		return Data{}, err
	}
	if head.Version != version {
		return Data{}, fmt.Errorf("data version %q, known is %q", head.Version, version)
	}
	var s stored
	unknown, err := kjson.UnmarshalStrict(data, &s)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return Data{}, err
	}
	d := Data{SchedulerName: s.SchedulerName, Roles: s.Roles}
	return d, d.validate()
}
