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
func serveGroups(ctx context.Context, mgr ctrl.Manager, f *flags) error {
	pins, err := servinggroup.PinCache(ctx, mgr)
	if err != nil {
		return err
	}
	r, err := servinggroup.New(servinggroup.Config{
		Client: mgr.GetClient(), Pins: pins, Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Events: mgr.GetEventRecorder("pitstop-coordinator"), Namespace: f.namespace, Registerer: metrics.Registry, Trifles: time.Second,
		Pin: servinggroup.PinConfig{Image: f.pinImage, Priority: f.pinPriority},
	})
	if err != nil {
		return err
	}
	return r.Setup(ctx, mgr, pins)
}
