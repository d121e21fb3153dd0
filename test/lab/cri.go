package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// criLimit bounds one call to a runtime.
const criLimit = 60 * time.Second

// dial returns a connection to the runtime behind a socket.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// runtimeReady asks a runtime whether it can run containers.
func runtimeReady(ctx context.Context, socket string) error {
	c, err := dial(socket)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := cri.NewRuntimeServiceClient(c).Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return err
	}
	var failed error
	for _, condition := range s.GetStatus().GetConditions() {
		vital := condition.GetType() == cri.RuntimeReady || condition.GetType() == cri.NetworkReady // others warn
		if vital && !condition.GetStatus() {
			failed = errors.Join(failed, fmt.Errorf("%s: %s", condition.GetType(), condition.GetMessage()))
		}
	}
	return failed
}

// pull makes a runtime fetch an image that it lacks.
func pull(ctx context.Context, socket, ref string) error {
	c, err := dial(socket)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, criLimit)
	defer cancel()
	images := cri.NewImageServiceClient(c)
	spec := &cri.ImageSpec{Image: ref}
	have, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: spec})
	if err == nil && have.GetImage() != nil {
		return nil
	}
	if _, err := images.PullImage(ctx, &cri.PullImageRequest{Image: spec}); err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return nil
}
