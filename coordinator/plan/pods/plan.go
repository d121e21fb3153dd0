package pods

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// A Plan is what follows from a Snapshot.
type Plan struct {
	// Actions are to be taken in their order.
	Actions []Action
	// Status is what the status is to say; times in it are old where nothing has changed.
	Status v1alpha1.ServingGroupStatus
	// Blocked is in Status as a condition too.
	Blocked Verdict
	// Ready is in Status as a condition too.
	Ready Verdict
	// Notices are events that tell of what is new in Status.
	Notices []Notice
	// Outages are how long units were out of service that are back in Status and were not before.
	Outages []time.Duration
	// Refusals are why attempts in place were given up before their swap that are refused in Status and were
	// not before.
	Refusals []v1alpha1.UnitReason
	// Recheck is when the snapshot is to be judged again although nothing has changed. 0: never.
	Recheck time.Duration
}

// A Verdict is a condition's status, reason and message.
type Verdict struct {
	True    bool
	Reason  v1alpha1.ConditionReason
	Message string
}

// A Notice is an event on the ServingGroup.
type Notice struct {
	Reason, Message string
	// Warning: somebody should look at it.
	Warning bool
}

// ActionKind says what an Action does.
type ActionKind string

// The kinds of actions. Each is safe to repeat, and each that changes an object is bound to the one
// that was read.
const (
	// CreateService makes the headless Service of an instance.
	CreateService ActionKind = "CreateService"
	// DeleteService deletes one, by UID.
	DeleteService ActionKind = "DeleteService"
	// CreatePod makes a Pod.
	CreatePod ActionKind = "CreatePod"
	// DeletePod deletes one, by UID and the version that was read.
	DeletePod ActionKind = "DeletePod"
	// CreateOrder makes the InPlaceUpdate of a Pod.
	CreateOrder ActionKind = "CreateOrder"
	// UpdateOrder raises its attempt or its permit.
	UpdateOrder ActionKind = "UpdateOrder"
	// DeleteOrder deletes one, by UID.
	DeleteOrder ActionKind = "DeleteOrder"
	// CreatePin makes a pin Pod.
	CreatePin ActionKind = "CreatePin"
	// DeletePin deletes one, by UID.
	DeletePin ActionKind = "DeletePin"
	// ClearHold takes the annotation hold.unit from a Pod.
	ClearHold ActionKind = "ClearHold"
	// PlaceGPUHold gives a Pod the annotation hold.gpu-health, ClearGPUHold takes it away.
	PlaceGPUHold ActionKind = "PlaceGPUHold"
	ClearGPUHold ActionKind = "ClearGPUHold"
	// OpenGate opens the gate of a Pod for the first time, and takes hold.unit away with it.
	OpenGate ActionKind = "OpenGate"
	// SetLeader sets the leader label of a Pod, UnsetLeader removes it.
	SetLeader   ActionKind = "SetLeader"
	UnsetLeader ActionKind = "UnsetLeader"
	// RestoreLabels writes the labels that say where a Pod belongs.
	RestoreLabels ActionKind = "RestoreLabels"
	// RestoreFinalizer has the ServingGroup reserve its ordinal again.
	RestoreFinalizer ActionKind = "RestoreFinalizer"
	// RemoveFinalizer lets the ServingGroup go.
	RemoveFinalizer ActionKind = "RemoveFinalizer"
)

// An Action is one step to take.
type Action struct {
	Kind ActionKind
	// Name, UID and ResourceVersion say what the action is about; the latter two are empty where the
	// object is made.
	Name            string
	UID             types.UID
	ResourceVersion string
	// Pod says what CreatePod makes, and for which instance CreateService does.
	Pod NewPod
	// Order is what CreateOrder and UpdateOrder write.
	Order NewOrder
	// Pin says what CreatePin makes.
	Pin NewPin
}

// NewPod says which Pod to make.
type NewPod struct {
	Role            string
	Instance, Index int32
	// Revision is the pin, Digest what it says of the role.
	Revision, Digest string
	// Size is the number of Pods in the instance.
	Size int32
	// Held: the Pod is born with hold.unit. HeldGPU: it is born with hold.gpu-health.
	Held, HeldGPU bool
	Leader        bool
}

// NewOrder says what an InPlaceUpdate asks for.
type NewOrder struct {
	PodUID  types.UID
	Node    string
	Attempt int64
	Key     string
	Permit  v1alpha1.Permit
	// Containers are those to change, none for a mere drain. Revision and Digest are what the Pod says
	// that it is once it is opened; empty: what it says now.
	Containers       []v1alpha1.ContainerImage
	Revision, Digest string
	// Alone: the Pod is its unit, so that it may be opened as soon as its new container is proved.
	Alone bool
}

// KeyRecovery is the key of an order that no update of the unit asks for.
const KeyRecovery = "0"

// OrderKey says for which attempt of a unit an order is given.
func OrderKey(attempt int64) string { return strconv.FormatInt(attempt, 10) }

// Decisive reports whether the plan does anything, or reports a stage or phase that old does not, or fewer
// Pods: one that caches do not show any more may have lost its labels only. What a plan from a cache decides has to be decided anew from live readings before it is acted on.
func (p Plan) Decisive(old v1alpha1.ServingGroupStatus) bool {
	if len(p.Actions) > 0 || len(p.Notices) > 0 {
		return true
	}
	stages := make(map[string]v1alpha1.UnitUpdateStatus, len(old.Updates))
	for _, u := range old.Updates {
		stages[u.Unit] = u
	}
	for _, u := range p.Status.Updates {
		if was := stages[u.Unit]; was.Stage != u.Stage || was.Attempt != u.Attempt || was.Cleared != u.Cleared {
			return true
		}
	}
	was, is := phasesOf(old), phasesOf(p.Status)
	for unit, i := range is {
		if was[unit] == nil || was[unit].Phase != i.Phase {
			return true
		}
	}
	if slices.ContainsFunc(old.PinPods, func(name string) bool { return !slices.Contains(p.Status.PinPods, name) }) {
		return true
	}
	for unit, i := range was {
		if is[unit] == nil || is[unit].LivePods < i.LivePods {
			return true
		}
	}
	return false
}

func phasesOf(s v1alpha1.ServingGroupStatus) map[string]*v1alpha1.InstanceStatus {
	out := make(map[string]*v1alpha1.InstanceStatus, len(s.Instances))
	for n := range s.Instances {
		if i := &s.Instances[n]; i.Ordinal != nil {
			out[v1alpha1.UnitName(i.Role, *i.Ordinal)] = i
		}
	}
	return out
}
