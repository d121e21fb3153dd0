// Package pods decides what the ServingGroup controller does with the Pods of one ServingGroup. It
// takes values and returns values.
//
// A role instance is covered by an open update of its own, or of the whole group, or by none. What
// is covered follows the update alone:
//
//	Draining -> Drained -> (permit Swap) Swapping -> Verified -> (permit Serve) InService
//	                                       |  ^
//	                                       Failed
//
// With method InPlace it is Preparing -> Prepared before that, while the unit serves and is covered by
// nothing; and Refused where an attempt ends before its swap. A unit that is created anew on request has all its
// Pods taken at Swap; that the last of them is gone is written before the first new one is made. A back-out is the same update with the pin for its target and permit Serve: no Pod is at another
// revision then, so that nothing is deleted. What is not covered follows its phase, which the status
// keeps:
//
//	Creating -> Running -> Recreating -> Creating     Removing: it is no longer declared
//
// Recreating ends once no Pod of the instance is left, and is written before the first new Pod is
// made: so every Pod found in that phase is an old one.
package pods

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// A Snapshot is all that a decision rests on.
type Snapshot struct {
	Now      time.Time
	Group    Group
	Settings Settings
	// Revisions has every revision that could be read, by name. Of what is pinned to one that is
	// missing here nothing is created or deleted.
	Revisions map[string]Revision
	// Pods are those that the group owns, in any order.
	Pods []Pod
	// Orders are the InPlaceUpdates of the names of the group's Pods, whoever made them.
	Orders []Order
	// Services are those that the group owns.
	Services []Service
	// Pins are the pin Pods that the group owns, by name.
	Pins []Pin
	// NoImageVolumes: the cluster has none, so that there are no pin Pods.
	NoImageVolumes bool
	// Agents says until when the agent of a node counts as alive. A node that is missing here has
	// none.
	Agents map[string]time.Time
	// Behind are the nodes whose agents are too old to follow an order for an update in place.
	Behind map[string]bool
}

// A Group is the ServingGroup as it was read.
type Group struct {
	Name       string
	UID        types.UID
	Generation int64
	Deleting   bool
	// Finalizer: the finalizer that reserves the ordinal is set.
	Finalizer bool
	Spec      v1alpha1.ServingGroupSpec
	Status    v1alpha1.ServingGroupStatus
}

// Settings are what the ModelServing says, defaults set.
type Settings struct {
	Recovery     v1alpha1.RecoveryPolicy
	RestartGrace time.Duration
	Deadline     time.Duration
	// DrainFor is how long a drain may take from the moment that a Pod is taken out of traffic.
	DrainFor time.Duration
	// Back are the roles that are drained after the others.
	Back map[string]bool
}

// A Revision says what its Pods are like: by role name.
type Revision map[string]Shape

// A Shape is one role of a revision.
type Shape struct {
	// Digest is equal for two revisions if their Pods of the role are the same.
	Digest string
	// Workers is the number of worker Pods of an instance.
	Workers int32
	// Entry and Worker are the images of the regular containers, by name.
	Entry, Worker map[string]string
}

// A Pod is a Pod that the group owns. Role, Instance and Index come from its name.
type Pod struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Role            string
	Instance, Index int32
	// Revision is the Pod's label, Digest the annotation that says what it was made from, or last
	// changed to.
	Revision, Digest string
	// Images are those of the Pod's regular containers by name. Read only for an update in place, or where one
	// may have left them. Patched: an agent has changed some.
	Images  map[string]string
	Patched bool
	// Credentials tell apart what kubelet pulls the Pod's images with. PullSecrets: there are Secrets among them.
	// Read where Images are.
	Credentials string
	PullSecrets bool
	// Node is empty as long as the Pod is not scheduled.
	Node    string
	Created time.Time
	// Deleting: the Pod has a deletionTimestamp, which is DeletedAt: the end of its grace period.
	Deleting  bool
	DeletedAt time.Time
	// Ended: its phase is final.
	Ended bool
	// NodeLost: its node does not answer.
	NodeLost        bool
	ContainersReady bool
	Ready           bool
	ReadySince      time.Time
	// Restarted is since when a container that was restarted has not been ready; zero if none is.
	Restarted time.Time
	// Idle: it is certain that no request is running in it.
	Idle bool
	// GateAbsent: the Pod has our readiness gate, and the condition does not exist yet.
	GateAbsent bool
	// HeldUnit and HeldInPlace: the Pod has that hold. HeldOther: it has yet another one.
	HeldUnit, HeldInPlace, HeldOther bool
	// HeldGPU: it has the hold gpu-health, which counts as another one too. GPUFault is what its agent says of a sick
	// GPU; empty if none is. GPUUnknown: the agent cannot tell, so that what it said before holds. DriverReleased is
	// what it says where it has let go of the GPU driver for a while.
	HeldGPU        bool
	GPUFault       string
	GPUUnknown     bool
	DriverReleased string
	Leader         bool
	// Mislabelled: labels that say where the Pod belongs are not what they were.
	Mislabelled  bool
	DeletionCost int64
	// Trouble says in words what keeps the Pod from being ready; it may be empty.
	Trouble string
}

// An Order is an InPlaceUpdate.
type Order struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Deleting        bool
	PodUID          types.UID
	// Ours: its servingGroupUID is the group's.
	Ours    bool
	Attempt int64
	// Key is what the attempt was given for: see OrderKey.
	Key    string
	Permit v1alpha1.Permit
	// ReportedAttempt, Stage, Reason and Message are the agent's report.
	ReportedAttempt int64
	Stage           v1alpha1.Stage
	Reason          v1alpha1.Reason
	Message         string
}

// A Service is a headless Service.
type Service struct {
	Name     string
	UID      types.UID
	Deleting bool
}
