package v1alpha1

import (
	"strconv"
	"strings"
)

// Labels of the objects that belong to a ModelServing. They select and inform; they are never
// identity: that is the controller's UID in the owner references. More of them stand in pod.go.
const (
	// LabelModelServing is the ModelServing's name.
	LabelModelServing = "pitstop.dev/modelserving"
	// LabelRole is the role's name.
	LabelRole = "pitstop.dev/role"
	// LabelInstance is the role instance's ordinal.
	LabelInstance = "pitstop.dev/instance"
	// LabelLeader is "true" on one Pod of each ServingGroup.
	LabelLeader = "pitstop.dev/leader"
	// LabelStable is "true" on the Pods that serve the stable revision's traffic.
	LabelStable = "pitstop.dev/stable"
	// LabelPin is on a pin Pod and on no other: the name of the ServingGroup for whose updates it has kubelet
	// bring an image to a node. A pin Pod has none of the labels of a ModelServing's Pods.
	LabelPin = "pitstop.dev/pin-pod"
)

// UnitAttempt is an annotation on an InPlaceUpdate of a ServingGroup's Pod: the attempt of the unit for
// which the present attempt was given; "0" where no update of the unit asks for it.
const UnitAttempt = "pitstop.dev/unit-attempt"

// Environment of every container of a ModelServing's Pod.
const (
	// EnvGroupSize is the number of Pods in the role instance.
	EnvGroupSize = "GROUP_SIZE"
	// EnvEntryAddress is the DNS name of the instance's entry Pod.
	EnvEntryAddress = "ENTRY_ADDRESS"
	// EnvWorkerIndex is the Pod's index in its role instance: 0 is the entry Pod.
	EnvWorkerIndex = "WORKER_INDEX"
)

// ServingGroupName returns the name of the ServingGroup at an ordinal of a ModelServing.
func ServingGroupName(modelServing string, ordinal int32) string {
	return numbered(modelServing, ordinal)
}

// UnitName returns the name of a role instance within its ServingGroup.
func UnitName(role string, instance int32) string {
	return numbered(role, instance)
}

// numbered is what controllers call by the thousand.
func numbered(name string, number int32) string {
	return name + "-" + strconv.FormatInt(int64(number), 10)
}

// ParseUnit is the inverse of UnitName. It reports false for any other text, the empty one, which
// stands for the whole group, included.
func ParseUnit(unit string) (role string, instance int32, ok bool) {
	i := strings.LastIndexByte(unit, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(unit[i+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != unit[i+1:] {
		return "", 0, false
	}
	return unit[:i], int32(n), true
}

// LedgerMark is an annotation of a ServingGroup. The ModelServing controller changes it before it
// strikes one of the group's units from status.updating, so that whoever still holds an older
// version of the group fails to write it.
const LedgerMark = "pitstop.dev/ledger-mark"

// LedgerEntry returns the name of a unit in status.updating: that of its group, and after a slash
// that of the role instance, if it is one.
func LedgerEntry(servingGroup, unit string) string {
	if unit == "" {
		return servingGroup
	}
	return servingGroup + "/" + unit
}

// EntryPodName returns the name of a role instance's entry Pod, and of its headless Service.
func EntryPodName(servingGroup, role string, instance int32) string {
	return PodName(servingGroup, role, instance, 0)
}

// PodName returns the name of one Pod of a role instance.
func PodName(servingGroup, role string, instance, index int32) string {
	return numbered(UnitName(servingGroup+"-"+role, instance), index)
}
