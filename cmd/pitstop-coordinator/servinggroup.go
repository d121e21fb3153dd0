package main

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"pitstop.dev/coordinator/serving/servinggroup"
)

// serveGroups adds the controller that makes the Pods of ServingGroups.
func serveGroups(ctx context.Context, mgr ctrl.Manager, namespace string) error {
	r, err := servinggroup.New(servinggroup.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Events: mgr.GetEventRecorder("pitstop-coordinator"), Namespace: namespace, Registerer: metrics.Registry, Trifles: time.Second,
	})
	if err != nil {
		return err
	}
	return r.Setup(ctx, mgr)
}
