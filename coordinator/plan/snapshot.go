// Package plan decides what the ModelServing controller does next. It takes values and returns
// values: what is declared, the ServingGroups as they are, and the time; then actions, and for
// all that is not done yet the reason.
package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// A Snapshot is all that a decision rests on.
type Snapshot struct {
	Now     time.Time
	Serving Serving
	// Target is the revision of the spec; it is stored and readable.
	Target string
	// Current is status.currentRevision: what protected units are rebuilt at. Empty: Target.
	Current string
	// Layouts has the roles of every revision that could be read, Target's always. A revision that
	// a group names and that is missing here is unresolved: nothing of what depends on it may be
	// created or deleted.
	Layouts map[string]Layout
	// Obstacles says, by revision, what keeps a unit that is pinned there from being brought to the target
	// in place. A revision that is missing here has none.
	Obstacles map[string]string
	// Rejected is status.rejectedRevision.
	Rejected string
	// Requests are what people asked for and is not done yet, one of a verb.
	Requests []Request
	// Ledger is status.updating.
	Ledger []string
	// Groups are the ServingGroups that the ModelServing owns, by ordinal. Those that are being
	// deleted are among them.
	Groups []Group
}

// A Request is what a person asked for.
type Request struct {
	Verb v1alpha1.Verb
	ID   string
	// Unit is as in the ledger, empty where it is about all.
	Unit string
	// Accepted: that is written already, and whoever wrote it may have died before the rest.
	Accepted bool
	// Malformed: what was written cannot be read.
	Malformed bool
}

// Serving is what is declared, with every percentage resolved and every default set.
type Serving struct {
	Name     string
	Replicas int32
	Paused   bool
	Type     v1alpha1.RolloutStrategyType
	// InPlace: units are updated in place. Rollback: one that fails is taken back.
	InPlace, Rollback bool
	MinReady          time.Duration
	// Deadline is progressDeadlineSeconds: what lasts longer is reported as blocking.
	Deadline time.Duration
	// MaxUnavailable, MaxSurge and Partition count ServingGroups; with RoleRollingUpdate they are
	// 0 and mean nothing.
	MaxUnavailable, MaxSurge, Partition int32
	// MaxUnavailableGroups caps RoleRollingUpdate over all groups. 0: no cap.
	MaxUnavailableGroups int32
	// Roles are the declared roles, by name.
	Roles []Role
}

// Role is a declared role, with every percentage resolved.
type Role struct {
	Name                                          string
	Replicas, MaxUnavailable, MaxSurge, Partition int32
}

// A Layout says what a revision makes of each role: by role name.
type Layout map[string]RoleLayout

// RoleLayout is one role of a revision.
type RoleLayout struct {
	// Digest is equal for two revisions if their Pods of the role are the same.
	Digest string
	// Workers is the number of worker Pods of an instance.
	Workers int32
}

// A Group is a ServingGroup as it was read.
type Group struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Generation      int64
	Deleting        bool
	Spec            v1alpha1.ServingGroupSpec
	Status          v1alpha1.ServingGroupStatus
}
