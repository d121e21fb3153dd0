// Package modelserving is the controller of ModelServings. It owns the ControllerRevisions, the
// ServingGroups and their spec, and the status of the ModelServing; it never touches a Pod.
//
// A pass observes, plans, acts and reports. The order of its writes is what makes it safe to die
// between any two of them:
//
//	revision -> status (what protected units are rebuilt at) -> the plan's actions -> status ->
//	annotations of requests that are answered -> history
//
// so that a revision is stored before anything refers to it, and a unit is in the ledger before it
// is touched. Every write is bound to the version that was read: a pass that rests on an outdated
// view ends at its first write, and the next one starts anew.
package modelserving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/coordinator/revision"
)

const (
	// staleRetry is how soon a pass that met an outdated cache is repeated, if no change that the
	// cache catches up with repeats it before.
	staleRetry = 250 * time.Millisecond
	// refusedRetry is how often that is tried again which the API server refuses, or the name of
	// which another owner has: nothing tells when it would go.
	refusedRetry = 30 * time.Second
	// firstRetry is the pause after the first error; it doubles up to refusedRetry.
	firstRetry = 50 * time.Millisecond
)

// ownerUID is the index of objects by the UID of their controller.
const ownerUID = "ownerUID"

// Config is what a Reconciler depends on. All fields but the last four are required.
type Config struct {
	// Client reads from caches, which may be behind, and writes. It has the index ownerUID on
	// ServingGroups.
	Client client.Client
	// Live reads past the caches.
	Live client.Reader
	// Clock tells the time.
	Clock clock.PassiveClock
	// Events takes events.
	Events Recorder
	// Decide makes the plan. Default plan.Decide.
	Decide func(plan.Snapshot) plan.Plan
	// Metrics takes the metrics. Default: they are kept and not exported.
	Metrics prometheus.Registerer
	// Workers is how many ModelServings are worked on at a time. Default 4.
	Workers int
	// Writes is how many ServingGroups of one ModelServing are written at a time. Default 1.
	Writes int
}

// Validate reports what is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.Live == nil || c.Clock == nil || c.Events == nil {
		return errors.New("client, live reader, clock and events are required")
	}
	return nil
}

// A Reconciler brings ModelServings to what is declared, one pass at a time. It keeps nothing between
// passes that they depend on: metrics, and what revisions say, which never changes.
type Reconciler struct {
	Config
	metrics   *metrics
	memo      memo
	revisions revision.Memo
}

// New returns a Reconciler. It starts nothing.
func New(cfg Config) (*Reconciler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Decide == nil {
		cfg.Decide = plan.Decide
	}
	if cfg.Workers == 0 {
		cfg.Workers = 4
	}
	if cfg.Writes == 0 {
		cfg.Writes = 1
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	return &Reconciler{Config: cfg, metrics: m}, nil
}

// Setup registers the controller, its watches and its index with a manager.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.ServingGroup{}, ownerUID, ByOwnerUID); err != nil {
		return fmt.Errorf("index of owners: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("modelserving").
		For(&v1alpha1.ModelServing{}).
		Owns(&v1alpha1.ServingGroup{}).
		Owns(&appsv1.ControllerRevision{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, refusedRetry),
		}).
		Complete(r)
}

// ByOwnerUID is the function of the index ownerUID.
func ByOwnerUID(obj client.Object) []string {
	if owner := metav1.GetControllerOf(obj); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// Reconcile makes one pass over a ModelServing. What belongs to one that is being deleted goes by
// garbage collection.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ms v1alpha1.ModelServing
	err := r.Client.Get(ctx, req.NamespacedName, &ms)
	if apierrors.IsNotFound(err) || err == nil && !ms.DeletionTimestamp.IsZero() {
		r.metrics.forget(req.NamespacedName)
		r.memo.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	p := &pass{
		Reconciler: r, ms: &ms, now: r.Clock.Now(),
		fenced: map[string]version{}, written: map[string]*v1alpha1.ServingGroup{}, struck: map[string]bool{},
	}
	again, err := p.run(ctx)
	if stale(err) {
		logr.FromContextOrDiscard(ctx).V(2).Info("the view is outdated", "modelserving", req.String(), "cause", err.Error())
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// A pass is one look at a ModelServing and what follows from it.
type pass struct {
	*Reconciler
	ms     *v1alpha1.ModelServing // as it was read or, after a write, as the API server answered
	now    time.Time
	items  []v1alpha1.ServingGroup           // those that the ModelServing owns, by ordinal
	groups map[string]*v1alpha1.ServingGroup // the same by name
	fenced map[string]version                // those that a mark was left on
	fresh  bool                              // whether the API server confirmed ms
	// written are the groups as the API server answered to writes of this pass; struck says of which
	// ledger entries this pass knows that they are closed.
	written map[string]*v1alpha1.ServingGroup
	struck  map[string]bool
	target  string    // the revision of the spec
	decided plan.Plan // what this pass is to do and to report
	troubles
}

// run returns when the ModelServing is to be judged again although nothing has changed.
func (p *pass) run(ctx context.Context) (time.Duration, error) {
	if err := p.list(ctx); err != nil {
		return 0, err
	}
	versions, err := p.store(ctx)
	if refused(err) {
		return refusedRetry, p.reportUnstored(ctx, err)
	}
	if err != nil {
		return 0, err
	}
	p.target = versions.target
	snapshot, err := p.observe(versions)
	if err != nil {
		return 0, err
	}
	p.decided = p.Decide(snapshot)
	if err := p.act(ctx, p.decided.Actions); err != nil {
		if stale(err) {
			return 0, errors.Join(err, p.keepStrikes(ctx)) // a report would be about what no longer is
		}
		return 0, errors.Join(err, p.report(ctx))
	}
	if err := p.report(ctx); err != nil {
		return 0, err
	}
	if err := p.dropRequests(ctx); err != nil {
		return 0, err
	}
	return p.again(p.decided.Recheck), p.trim(ctx, versions)
}
