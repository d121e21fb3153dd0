package attribution

import (
	"context"
	"errors"
	"fmt"

	"pitstop.dev/cri"
)

// CRI is the runtime behind a client of package cri.
type CRI struct {
	Client interface {
		Process(ctx context.Context, containerID string) (cri.Process, error)
	}
}

// Container implements Runtime.
func (c CRI) Container(ctx context.Context, id string) (Container, error) {
	p, err := c.Client.Process(ctx, id)
	if errors.Is(err, cri.ErrContainerNotFound) {
		return Container{}, fmt.Errorf("container %s: %w", id, ErrUnknownContainer)
	}
	if err != nil {
		return Container{}, err
	}
	if p.ContainerID != id {
		return Container{}, fmt.Errorf("container %s: the runtime answers for %s", id, p.ContainerID)
	}
	return Container{PodUID: p.PodUID, Name: p.Container, PID: p.PID}, nil
}
