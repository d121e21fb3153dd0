package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// A Plan is what follows from a Snapshot.
type Plan struct {
	// Actions are to be taken in their order; one that fails ends the pass.
	Actions []Action
	// Report is what the status says.
	Report Report
	// Recheck is when the snapshot is to be judged again although nothing has changed. 0: never.
	Recheck time.Duration
}

// ActionKind says what an Action does.
type ActionKind string

// The kinds of actions. Each is safe to repeat, and each but Create is bound to what was read.
const (
	// Book enters units into the ledger. It precedes every Write that takes a unit out of service, and
	// is written even if all of them are in the ledger: the write, bound to what was read, proves that
	// declaration and ledger are today's.
	Book ActionKind = "Book"
	// Record writes the answers to requests, and with an accepted retry that no revision is rejected. It
	// precedes every Write that follows from them, and is written even if they are known: the write, bound
	// to what was read, proves that the requests are today's.
	Record ActionKind = "Record"
	// Reject makes the target the revision that no unit is brought to. It precedes every Write that takes a
	// unit back.
	Reject ActionKind = "Reject"
	// Strike takes units from the ledger; the shell first reads their group live and leaves those
	// whose update is still open, or whose group is still there in the case of a group's removal.
	Strike ActionKind = "Strike"
	// Create makes a ServingGroup.
	Create ActionKind = "Create"
	// Write replaces the spec of a ServingGroup, bound to UID and resourceVersion.
	Write ActionKind = "Write"
	// Delete deletes a ServingGroup, bound to UID and resourceVersion.
	Delete ActionKind = "Delete"
)

// An Action is one write. Which fields are set depends on Kind.
type Action struct {
	Kind ActionKind
	// Entries are the units of Book and Strike, as in status.updating.
	Entries []string
	// Group, UID and ResourceVersion say what Write and Delete are about; Group is also the name of
	// what Create makes.
	Group           string
	UID             types.UID
	ResourceVersion string
	// Beside: the action need not wait for the one before it.
	Beside bool
	// Spec is that of Create and Write, whole.
	Spec v1alpha1.ServingGroupSpec
	// Event is the reason of the event that tells of the action once it succeeded, Message its
	// text. Empty: none.
	Event   string
	Message string
}

// A Report is what the status of the ModelServing is to say.
type Report struct {
	Replicas, Ready, Available, Updated int32
	// Complete: as many ServingGroups as declared live, at least one, and all their units, protected
	// ones included, are at the target and available. The current revision becomes the target.
	Complete    bool
	Progressing Verdict
	Blocked     Verdict
	// Enough: at least replicas less maxUnavailable groups are available.
	Enough Verdict
	// Answers are those to the requests, in their order.
	Answers []Answer
}

// An Answer is what becomes of a request. One that is accepted has begun once all actions are taken.
type Answer struct {
	Request
	Outcome v1alpha1.RequestOutcome
	Message string
}

// A Verdict is a condition's status, reason and message.
type Verdict struct {
	True    bool
	Reason  v1alpha1.ConditionReason
	Message string
}
