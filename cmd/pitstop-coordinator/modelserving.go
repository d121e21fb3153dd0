package main

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"pitstop.dev/coordinator/serving/modelserving"
)

// serveModels adds the controller that makes ServingGroups and says how far each may be worked on.
func serveModels(ctx context.Context, mgr ctrl.Manager) error {
	r, err := modelserving.New(modelserving.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Events: mgr.GetEventRecorder("pitstop-coordinator"), Metrics: metrics.Registry, Writes: 16,
	})
	if err != nil {
		return err
	}
	return r.Setup(ctx, mgr)
}
