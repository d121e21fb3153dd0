// Package states is what an agent says of its node at /v1/states: the JSON that kubectl pitstop node and pitstop-agent
// check read. Fields are only added.
package states

import (
	"time"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

// Path is where the agent serves States.
const Path = "/v1/states"

// States is what is known of a node.
type States struct {
	Node    string    `json:"node"`
	Version string    `json:"version"`
	At      time.Time `json:"at,omitzero"`
	Checks  []Check   `json:"checks"`
	GPUs    GPUs      `json:"gpus"`
}

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	OK      Status = "OK"
	Problem Status = "Problem"
	// Unknown: the check could not be made.
	Unknown Status = "Unknown"
)

// A Check is the outcome of one check.
type Check struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// GPUs are those of the node as they were last read.
type GPUs struct {
	// State is gpu.Absent on a node without GPUs; empty where no probe is configured.
	State   gpu.State `json:"state,omitempty"`
	Message string    `json:"message,omitempty"`
	Driver  string    `json:"driver,omitempty"`
	// At is when they were read.
	At time.Time `json:"at,omitzero"`
	// Missed is when nobody listened for the driver's errors last.
	Missed  time.Time `json:"missed,omitzero"`
	Devices []Device  `json:"devices,omitempty"`
	// Unattributed are errors of which the driver did not say which GPU they are about.
	Unattributed []health.Error `json:"unattributed,omitempty"`
	// PodsKnown: each Device has all its Pods. They are not while the API server has not listed any to this agent.
	PodsKnown bool `json:"podsKnown"`
	// ResidentsKnown: each Device has all its residents.
	ResidentsKnown bool `json:"residentsKnown"`
}

// A Device is one GPU.
type Device struct {
	Name    string         `json:"name,omitempty"`
	Memory  *gpu.Memory    `json:"memory,omitempty"`
	Verdict health.Verdict `json:"verdict"`
	// Pods were given the GPU, or a part of it, as namespace/name.
	Pods      []string   `json:"pods,omitempty"`
	Residents []Resident `json:"residents,omitempty"`
}

// A Resident is a process that holds memory of a GPU. Its command line is not told: it may hold secrets.
type Resident struct {
	PID int32 `json:"pid"`
	// Name is that of the program.
	Name string `json:"name,omitempty"`
	// Pod is namespace/name; empty: of no Pod, or of one that could not be found out.
	Pod       string `json:"pod,omitempty"`
	PodUID    string `json:"podUID,omitempty"`
	Container string `json:"container,omitempty"`
	// MIG is the UUID of the MIG device that it is on; empty without MIG.
	MIG string `json:"mig,omitempty"`
	// UsedMiB is -1 if the driver does not tell.
	UsedMiB int64 `json:"usedMiB"`
	// Doubt says what could not be found out.
	Doubt string `json:"doubt,omitempty"`
}
