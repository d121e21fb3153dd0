package history

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/agent"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/test/sim/cluster"
	"pitstop.dev/test/sim/world"
)

// enough is how many histories may pass before a planted fault has shown.
const enough = 200

// A fault is a coordinator, or agents, with one thing wrong, words of the rules that show it, and the seed from
// which on it is looked for: one is in one history of a hundred, and soon after its seed.
type fault struct {
	build  Build
	agents func(w *world.World, node string, l *agent.Look)
	rules  []string
	first  uint64
}

func faults() map[string]fault {
	return map[string]fault{
		"a budget that is one too high": {
			build: snapshots(func(s *plan.Snapshot) { s.Serving.MaxUnavailable++ }),
			rules: []string{"available >=", "units in update"},
		},
		"a surge that is one too high": {
			build: snapshots(func(s *plan.Snapshot) { s.Serving.MaxSurge++ }),
			rules: []string{"live <="},
		},
		"a partition that counts the groups that there are, not their ordinals": {
			build: snapshots(indexForOrdinal),
			rules: []string{"partition", "ends as declared"},
			first: 1200,
		},
		"a partition that is forgotten": {
			build: snapshots(func(s *plan.Snapshot) { s.Serving.Partition = 0 }),
			rules: []string{"partition"},
		},
		"a ledger that is not written": {
			build: plans(func(p *plan.Plan) { dropActions(p, plan.Book) }),
			rules: []string{"the ledger"},
		},
		"an own write that is read too late: the ledger is taken for empty": {
			build: snapshots(func(s *plan.Snapshot) { s.Ledger = nil }),
			rules: []string{"units in update", "available >=", "the ledger", "ends as declared", "nothing is written"},
		},
		"a unit that is struck out before its update is closed": {
			build: tampered(serving, tamper{live: openUpdatesHidden}),
			rules: []string{"the ledger", "a permit answers"},
		},
		"a pin that is written after its Pods": {
			build: tampered(serving, tamper{update: swapWithoutPin}),
			rules: []string{"the pin changes"},
		},
		"Pods that are replaced before their pin is written": {
			build: tampered(group, tamper{get: swapForDrain, live: swapForDrain}),
			rules: []string{"Pods are at", "a Pod is deleted", "is drained"},
		},
		"a former leader that writes over what is newer": {
			build: tampered(serving, tamper{update: withoutVersion}),
			rules: []string{"the ledger", "a permit", "the pin", "nothing panics", "available", "units", "Pods are", "a Pod", "partition", "live"},
		},
		"deletions that are not bound to a UID": {
			build: tampered(group, tamper{remove: withoutUID}),
			rules: []string{"a Pod is deleted", "nothing of another owner"},
		},
		"Pods that are not held while their unit is in update": {
			build: tampered(group, tamper{create: withoutHold}),
			rules: []string{"is held"},
		},
		"agents that are taken for dead": {
			build: tampered(group, tamper{get: noLease, live: noLease}),
			rules: []string{"drained before", "the coordinator opens"},
		},
		"a revision that is not stored before it is referred to": {
			build: tampered(serving, tamper{create: noRevision}),
			rules: []string{"a revision is stored"},
		},
		"recovery without a live look": {
			build: mixed(group, cacheForLive),
			rules: []string{"a Pod is deleted", "no unit serves", "Pods are at", "a history ends", "a permit", "the ledger"},
			first: 2001,
		},
	}
}

func TestEveryPlantedFaultShows(t *testing.T) {
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	all := faults()
	maps.Copy(all, inPlaceFaults())
	maps.Copy(all, requestFaults())
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(enough) {
				r, err := Run(t.Context(), Options{Seed: cmp.Or(f.first, 1000) + seed, Build: f.build, Agents: f.agents, Scheme: scheme})
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range r.Violations {
					if named(v.Rule, f.rules) {
						t.Logf("history %d: %s: %s", seed+1, v.Rule, v.Text)
						return
					}
					t.Logf("history %d shows something else: %s: %s", seed+1, v.Rule, v.Text)
				}
			}
			t.Errorf("%d histories and none shows it", enough)
		})
	}
}

func named(rule string, words []string) bool {
	for _, w := range words {
		if strings.Contains(rule, w) {
			return true
		}
	}
	return false
}

// snapshots is the coordinator with a planner that is told something else.
func snapshots(change func(*plan.Snapshot)) Build {
	return Planned(func(s plan.Snapshot) plan.Plan {
		change(&s)
		return plan.Decide(s)
	})
}

// plans is the coordinator with a planner that says something else.
func plans(change func(*plan.Plan)) Build {
	return Planned(func(s plan.Snapshot) plan.Plan {
		p := plan.Decide(s)
		change(&p)
		return p
	})
}

func dropActions(p *plan.Plan, kind plan.ActionKind) {
	var kept []plan.Action
	for _, a := range p.Actions {
		if a.Kind != kind {
			kept = append(kept, a)
		}
	}
	p.Actions = kept
}

// indexForOrdinal protects the first groups that there are.
func indexForOrdinal(s *plan.Snapshot) {
	if n := int(s.Serving.Partition); n > 0 && n < len(s.Groups) {
		s.Serving.Partition = *s.Groups[n].Spec.Ordinal
	}
}

// tamper comes between the coordinator and its client. Every field may be nil.
type tamper struct {
	get    func(client.Object) // after a cached reading
	live   func(client.Object) // after a live reading
	create func(client.Object) (goOn bool)
	update func(live client.Reader, o client.Object)
	remove func([]client.DeleteOption) []client.DeleteOption
	list   func(client.ObjectList) // after a cached reading
	// liveList comes after a live reading.
	liveList func(client.ObjectList)
}

// tampered is the coordinator with one of its controllers on a client that is tampered with.
func tampered(who controller, t tamper) Build {
	return mixed(who, func(d Deps) Deps {
		d.Client = tamperedClient{Client: d.Client, live: d.Live, tamper: t}
		d.Live = tamperedReader{Reader: d.Live, tamper: t}
		return d
	})
}

// mixed is the coordinator with one of its controllers on something else.
func mixed(who controller, change func(Deps) Deps) Build {
	return func(d Deps) (Reconcilers, error) {
		all, err := Real(d)
		if err != nil {
			return Reconcilers{}, err
		}
		other, err := Real(change(d))
		if who == serving {
			all.ModelServing = other.ModelServing
		} else {
			all.ServingGroup = other.ServingGroup
		}
		return all, err
	}
}

type tamperedReader struct {
	client.Reader
	tamper tamper
}

func (r tamperedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	return after(err, r.tamper.live, o)
}

func (r tamperedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := r.Reader.List(ctx, list, opts...)
	if err == nil && r.tamper.liveList != nil {
		r.tamper.liveList(list)
	}
	return err
}

type tamperedClient struct {
	client.Client
	live   client.Reader
	tamper tamper
}

func (c tamperedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	return after(err, c.tamper.get, o)
}

func (c tamperedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if err == nil && c.tamper.list != nil {
		c.tamper.list(list)
	}
	return err
}

func (c tamperedClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if c.tamper.create != nil && !c.tamper.create(o) {
		return nil
	}
	return c.Client.Create(ctx, o, opts...)
}

func (c tamperedClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if c.tamper.update != nil {
		c.tamper.update(c.live, o)
	}
	return c.Client.Update(ctx, o, opts...)
}

func (c tamperedClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if c.tamper.remove != nil {
		opts = c.tamper.remove(opts)
	}
	return c.Client.Delete(ctx, o, opts...)
}

// errHidden stands for an object that the fault does not let through.
var errHidden = errors.New("hidden")

func after(err error, f func(client.Object), o client.Object) (out error) {
	if err != nil || f == nil {
		return err
	}
	defer func() {
		if r := recover(); r == any(errHidden) {
			out = apierrors.NewNotFound(coordinationv1.Resource("leases"), o.GetName())
		} else if r != nil {
			panic(r)
		}
	}()
	f(o)
	return nil
}

func noLease(o client.Object) {
	if _, ok := o.(*coordinationv1.Lease); ok {
		panic(errHidden)
	}
}

func openUpdatesHidden(o client.Object) {
	if g, ok := o.(*v1alpha1.ServingGroup); ok {
		g.Spec.Updates = nil
	}
}

// swapForDrain goes ahead of the permit.
func swapForDrain(o client.Object) {
	if g, ok := o.(*v1alpha1.ServingGroup); ok {
		for i := range g.Spec.Updates {
			if u := &g.Spec.Updates[i]; u.Unit == "" && u.Target != "" && u.Permit == v1alpha1.PermitDrain {
				u.Permit, g.Spec.Revision = v1alpha1.PermitSwap, u.Target
			}
		}
	}
}

func swapWithoutPin(_ client.Reader, o client.Object) {
	if g, ok := o.(*v1alpha1.ServingGroup); ok {
		for _, u := range g.Spec.Updates {
			if u.Unit == "" && u.Permit.Allows(v1alpha1.PermitSwap) && u.Previous != "" {
				g.Spec.Revision = u.Previous
			}
		}
	}
}

func withoutVersion(live client.Reader, o client.Object) {
	g, ok := o.(*v1alpha1.ServingGroup)
	if !ok {
		return
	}
	var now v1alpha1.ServingGroup
	if err := live.Get(context.Background(), client.ObjectKeyFromObject(g), &now); err == nil && now.UID == g.UID {
		g.ResourceVersion = now.ResourceVersion
	}
}

func withoutUID([]client.DeleteOption) []client.DeleteOption { return nil }

func withoutHold(o client.Object) bool {
	if pod, ok := o.(*corev1.Pod); ok {
		delete(pod.Annotations, v1alpha1.HoldUnit)
	}
	return true
}

func noRevision(o client.Object) bool {
	_, is := o.(*appsv1.ControllerRevision)
	return !is
}

// cacheForLive has the ServingGroup controller take its cache for what is.
func cacheForLive(d Deps) Deps {
	d.Live = d.Client
	return d
}
