// Package servinggroup is the controller that makes the Pods of ServingGroups: thin, around the
// decisions of package pods.
//
// A pass reads the group from the cache and decides. If that leads to any action, or to a report that
// a unit is further than before, group and Pods are read again from the API server and decided anew:
// what a late cache says is never acted upon. Every write is bound to what was read.
package servinggroup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/coordinator/plan/pods"
)

const (
	// again is when a pass is repeated whose readings were outdated.
	again = 200 * time.Millisecond
	// lookAtName is when a name that another owner has is tried again.
	lookAtName = 10 * time.Second
)

// Config is what a Reconciler works with. All fields but the last three are required.
type Config struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Pins reads pin Pods from their own cache: the other one has only what is part of a ModelServing.
	Pins client.Reader
	// Live reads from the API server.
	Live client.Reader
	// Clock is the time that Leases, holds and deadlines are judged by.
	Clock clock.PassiveClock
	// Events takes events.
	Events Events
	// Namespace is that of the agents' Leases.
	Namespace string
	// Registerer takes the metrics; nil: they are not registered.
	Registerer prometheus.Registerer
	// Trifles is how long the status may say outdated texts and counts of Pods. Default: no time.
	Trifles time.Duration
	// Pin says what pin Pods are like.
	Pin PinConfig
}

// Validate reports what is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.Pins == nil || c.Live == nil || c.Clock == nil || c.Events == nil || c.Namespace == "" {
		return errors.New("servinggroup: client, reader of pin Pods, live reader, clock, events and namespace are all required")
	}
	return nil
}

// A Reconciler takes ServingGroups to what their spec says. It keeps nothing that it could not read
// again, and may be used from several goroutines.
type Reconciler struct {
	cfg      Config
	memo     memo
	patience patience
	metrics  *metrics
	// noVolumes is until when the API server is taken not to know image volumes, in nanoseconds since 1970.
	noVolumes atomic.Int64
}

// New returns a Reconciler. It starts nothing.
func New(cfg Config) (*Reconciler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Reconciler{cfg: cfg, metrics: newMetrics()}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(r.metrics); err != nil {
			return nil, fmt.Errorf("servinggroup metrics: %w", err)
		}
	}
	return r, nil
}

// Reconcile takes one ServingGroup as far as it goes now.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer func(start time.Time) { r.metrics.took(r.cfg.Clock.Since(start)) }(r.cfg.Clock.Now())
	s, plan, err := r.decide(ctx, req)
	if err != nil {
		return result(pods.Plan{}, outcome{}, err)
	}
	if s == nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	out := r.act(ctx, s, plan.Actions)
	wait, err := r.report(ctx, s, plan, out)
	if wait > 0 && (plan.Recheck == 0 || wait < plan.Recheck) {
		plan.Recheck = wait
	}
	return result(plan, out, err)
}

// forget drops what is kept of a group that is gone.
func (r *Reconciler) forget(group types.NamespacedName) {
	r.metrics.forget(group)
	r.patience.end(group)
}

// decide looks and decides, twice if the first look leads to anything.
func (r *Reconciler) decide(ctx context.Context, req ctrl.Request) (*sight, pods.Plan, error) {
	s, err := r.look(ctx, req.NamespacedName, cached)
	if err != nil || s == nil {
		return nil, pods.Plan{}, err
	}
	plan := pods.Decide(s.snap)
	if !plan.Decisive(s.sg.Status) {
		return s, plan, nil
	}
	if s, err = r.look(ctx, req.NamespacedName, live); err != nil || s == nil {
		return nil, pods.Plan{}, err
	}
	return s, pods.Decide(s.snap), nil
}

// result says when the group is to be looked at again. Readings that were outdated are no error.
func result(plan pods.Plan, out outcome, reported error) (ctrl.Result, error) {
	err := errors.Join(out.err, reported)
	switch {
	case err == nil && out.blocked.True && (plan.Recheck == 0 || plan.Recheck > lookAtName):
		return ctrl.Result{RequeueAfter: lookAtName}, nil
	case err == nil:
		return ctrl.Result{RequeueAfter: plan.Recheck}, nil
	case onlyLate(err):
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return ctrl.Result{}, err
}

// onlyLate reports whether nothing went wrong but that readings were outdated.
func onlyLate(err error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, one := range joined.Unwrap() {
			if !onlyLate(one) {
				return false
			}
		}
		return true
	}
	return errors.Is(err, errLate) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

func (r *Reconciler) logger(ctx context.Context) logr.Logger { return logr.FromContextOrDiscard(ctx) }
