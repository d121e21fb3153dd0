package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stopSlack is how much longer than the grace period a stop may take: the time between
// SIGKILL and the exit that the runtime sees. A process in uninterruptible sleep never gets
// there, and the caller must look instead of waiting.
const stopSlack = 5 * time.Second

// Stop ends a container: its stop signal, then SIGKILL once grace is over. A container that
// has stopped or is gone is success, and so is the second of two equal calls. Grace counts
// in whole seconds, rounded up; 0 kills at once. The runtime sends the stop signal once per
// container, whoever asked, so that a Stop beside kubelet's own shortens the wait and does
// no more.
//
// An error says nothing about the container, which may be dead all the same: read it again.
// ErrStopTimeout means that the runtime had not seen it end in time, which is the deadline
// of ctx or 5 s after grace. If ctx ends before grace does, containerd kills nothing.
func (c *Client) Stop(ctx context.Context, containerID string, grace time.Duration) error {
	grace = max(grace, 0)
	seconds := int64((grace + time.Second - 1) / time.Second)
	bounded, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+stopSlack)
	defer cancel()
	_, err := c.runtime.StopContainer(bounded, &criv1.StopContainerRequest{ContainerId: containerID, Timeout: seconds})
	switch {
	case err == nil, status.Code(err) == codes.NotFound:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("stop container %s: %w", containerID, ctx.Err())
	case bounded.Err() != nil, status.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("stop container %s: %w", containerID, ErrStopTimeout)
	}
	return fmt.Errorf("stop container %s: %w", containerID, translate(err))
}
