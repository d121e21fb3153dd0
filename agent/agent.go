package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"pitstop.dev/agent/health"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// workers is how many Pods are looked at side by side. Nothing that takes long holds one.
const workers = 2

// An Agent works on the Pods of one node.
type Agent struct {
	cfg     Config
	api     *apiServer
	kubelet kubelet
	node    *nodeReader
	keeper  *keeper
	images  *images
	drains  *drains
	stops   *stops
	looks   *looks
	feed    *cri.Feed
	events  *events
	metrics *metrics
	health  *health.Monitor

	pods    *store[*corev1.Pod]
	updates *store[*v1alpha1.InPlaceUpdate]
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	tracks  *tracks
	counted *counted
}

// New returns an Agent that does nothing until Run.
func New(cfg Config) (*Agent, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	m := newMetrics()
	cfg.Journal.Observe = m.observeCommit
	api, err := newAPIServer(cfg.API, m.countWrites(cfg.WrapTransport))
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, api: api, metrics: m,
		kubelet: kubelet{dir: cfg.KubeletDir}, node: &nodeReader{api: api, name: cfg.NodeName},
		keeper: newKeeper(cfg),
		images: newImages(cfg), drains: newDrains(cfg), stops: newStops(cfg),
		looks:  newLooks(cfg),
		feed:   cfg.Runtime.NewFeed(),
		events: newEvents(api, cfg.NodeName),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryFirst/10, retryMost),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: cfg.Clock}),
		tracks:  newTracks(),
		counted: newCounted(),
	}
	a.pods = newStore(api.podsOf(cfg.NodeName), &corev1.Pod{}, cfg.Clock, a.queue.Add)
	a.updates = newStore(api.updatesOf(cfg.NodeName), &v1alpha1.InPlaceUpdate{}, cfg.Clock, a.queue.Add)
	a.health = health.NewMonitor(cfg.GPUs, healthAPI{a}, cfg.Clock)
	m.registry.MustRegister(a.health)
	if cfg.Health == nil && cfg.GPUs.Reader != nil {
		a.cfg.Health = a.health
	}
	return a, nil
}

// Run works until ctx ends, and leaves no goroutine and no lock behind. What concerns the node alone does not wait for the
// API server.
func (a *Agent) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	log := logr.FromContextOrDiscard(ctx)
	log.Info("agent starts", "node", a.cfg.NodeName, "version", a.cfg.Version)
	a.events.start(ctx)
	a.keeper.open(ctx)
	wg.Go(func() { a.keeper.tend(ctx, a.lookAtAll) })
	a.health.Begin(ctx) // nothing else may read the GPUs before
	wg.Go(func() { a.health.Run(ctx) })
	err := a.awaitServer(ctx)
	if err == nil {
		a.update(ctx, &wg)
		<-ctx.Done()
	}
	stop()
	a.queue.ShutDown()
	wg.Wait()
	a.images.wait()
	a.drains.wait()
	a.stops.wait()
	a.looks.wait()
	a.events.stop()
	log.Info("agent stops", "node", a.cfg.NodeName)
	return errors.Join(err, a.keeper.close())
}

// awaitServer returns an error if the API server may not be used.
func (a *Agent) awaitServer(ctx context.Context) error {
	if a.cfg.AwaitServer == nil {
		return nil
	}
	if err := a.cfg.AwaitServer(ctx); ctx.Err() == nil {
		return err
	}
	return nil // the agent ends
}

// update starts what updates Pods, once these and their orders are known.
func (a *Agent) update(ctx context.Context, wg *sync.WaitGroup) {
	for _, run := range []func(context.Context){a.pods.run, a.updates.run, a.feed.Run, a.follow, a.renewLease} {
		wg.Go(func() { run(ctx) })
	}
	if a.waitForSync(ctx) {
		for range workers {
			wg.Go(func() { a.work(ctx) })
		}
	}
}

// waitForSync returns true once both caches are filled.
func (a *Agent) waitForSync(ctx context.Context) bool {
	tick := a.cfg.Clock.NewTicker(retryFirst / 20)
	defer tick.Stop()
	for !a.Synced() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C():
		}
	}
	return true
}

// lookAtAll has every Pod looked at again.
func (a *Agent) lookAtAll() {
	for _, obj := range a.pods.objects.List() {
		if pod, ok := obj.(*corev1.Pod); ok {
			a.queue.Add(keyOf(pod))
		}
	}
}

// Synced reports whether the agent knows the Pods and orders of its node.
func (a *Agent) Synced() bool { return a.pods.synced() && a.updates.synced() }

// Ready returns nil if the agent can start updates, else why not.
func (a *Agent) Ready() error {
	if !a.Synced() {
		return errors.New("caches are not filled yet")
	}
	return a.keeper.problem()
}

// work looks at one Pod after the other.
func (a *Agent) work(ctx context.Context) {
	for {
		key, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		a.once(ctx, key)
		a.queue.Done(key)
	}
}

func (a *Agent) once(ctx context.Context, key types.NamespacedName) {
	log := logr.FromContextOrDiscard(ctx).WithValues("pod", key.String())
	again, err := a.reconcile(logr.NewContext(ctx, log), key)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errLookAgain):
		a.queue.AddRateLimited(key)
	case err != nil:
		log.Error(err, "update step")
		a.tracks.rest(key)
		a.queue.AddRateLimited(key)
	default:
		a.tracks.goOn(key)
		a.queue.Forget(key)
		if !again.IsZero() {
			a.queue.AddAfter(key, max(0, again.Sub(a.cfg.Clock.Now())))
		}
	}
}

// follow looks again at the Pods of which the runtime has news.
func (a *Agent) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.feed.Ready():
		}
		changes := a.feed.Take()
		if changes.All {
			for _, key := range a.tracks.due(a.cfg.Clock.Now()) {
				a.queue.Add(key)
			}
		}
		for _, uid := range changes.Pods {
			if key, ok := a.tracks.byPod(types.UID(uid)); ok {
				a.queue.Add(key)
			}
		}
	}
}
