package cri

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A Process is the first process of a container.
type Process struct {
	ContainerID string
	PodUID      string
	Container   string // name
	State       State  // of the container
	// PID is in the PID namespace of the runtime; 0: the container does not run, or the runtime does not say.
	PID int32
}

// Process returns the first process of the container with this id, or ErrContainerNotFound.
func (c *Client) Process(ctx context.Context, containerID string) (Process, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	r, err := c.runtime.ContainerStatus(ctx, &criv1.ContainerStatusRequest{ContainerId: containerID, Verbose: true})
	if status.Code(err) == codes.NotFound {
		return Process{}, fmt.Errorf("process of container %s: %w", containerID, ErrContainerNotFound)
	}
	if err != nil {
		return Process{}, fmt.Errorf("process of container %s: %w", containerID, translate(err))
	}
	s := r.GetStatus()
	return Process{
		ContainerID: s.GetId(),
		PodUID:      s.GetLabels()[labelPodUID],
		Container:   cmp.Or(s.GetLabels()[labelContainerName], s.GetMetadata().GetName()),
		State:       state(s.GetState()),
		PID:         firstPID(r.GetInfo()),
	}, nil
}

// firstPID reads what containerd and CRI-O put into a verbose answer. Other runtimes say nothing there.
func firstPID(info map[string]string) int32 {
	var task struct {
		PID int32 `json:"pid"`
	}
	if err := json.Unmarshal([]byte(info["info"]), &task); err != nil || task.PID < 0 {
		return 0
	}
	return task.PID
}
