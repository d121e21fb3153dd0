package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// What Pitstop writes on Pods. Holders other than these are operators: any word after
// HoldPrefix that is a legal annotation name.
const (
	// InService is the readiness gate, and the Pod condition of the same name. The Pod is in
	// traffic only while it is True. The agent of the Pod's node alone writes it once it is
	// present; see Opening in the design for the first write.
	InService corev1.PodConditionType = "pitstop.dev/InService"

	// HoldPrefix starts the annotation of one hold. What follows names the holder; the value is
	// the holder's own. A Pod with any such annotation is kept out of traffic.
	HoldPrefix = "pitstop.dev/hold."

	// HoldInPlace is the agent's hold for an open update. Its value is the attempt's Token.
	HoldInPlace = HoldPrefix + "inplace"

	// HoldUnit is the coordinator's hold on a Pod that was created into a unit in update.
	HoldUnit = HoldPrefix + "unit"

	// HoldDevice is the agent's hold on a Pod that lost a GPU.
	HoldDevice = HoldPrefix + "device"

	// HoldGPUHealth is the coordinator's hold on a Pod with a sick GPU.
	HoldGPUHealth = HoldPrefix + "gpu-health"

	// Draining asks the Pod's router for the end of its requests: the Token of the attempt that
	// drains the Pod. The agent alone writes it, with the hold, and removes it with the hold.
	Draining = "pitstop.dev/draining"

	// Drained is the router's answer to Draining: the same Token, once the router has no request
	// left in the Pod and sends none. The agent removes it. See docs/router.md.
	Drained = "pitstop.dev/drained"

	// PatchedAt says which attempt patched the images of the Pod last: a PatchMark. The agent
	// writes it with the images.
	PatchedAt = "pitstop.dev/patched-at"

	// RoleDigest is the digest of what the Pod's revision says of its role: what the Pod was made from.
	RoleDigest = "pitstop.dev/role-digest"

	// MetricsPort names the port, by number or by name, where the engine serves its metrics.
	// Without it the container port named "http" counts.
	MetricsPort = "pitstop.dev/metrics-port"

	// ResidentPrefix starts the annotation that declares how much memory a container may keep on each of its GPUs
	// while another container of the Pod is updated, as a weight server does. What follows names the container;
	// the value is in MiB: see ResidentMiB.
	ResidentPrefix = "pitstop.dev/resident."

	// LabelRevision carries the revision that the Pod runs. The opening write sets it last.
	LabelRevision = "pitstop.dev/revision"

	// LabelIndex is the index of a Pod in its role instance; 0 is the entry Pod.
	LabelIndex = "pitstop.dev/index"

	// LabelServingGroup names the ServingGroup that a Pod belongs to. It is a label for people
	// and selectors: ownership is by UID.
	LabelServingGroup = "pitstop.dev/servinggroup"
)
