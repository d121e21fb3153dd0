package servinggroup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/serving/servinggroup"
)

const (
	space  = "models"
	system = "pitstop-system"
	node   = "node-a"
	// dying keeps a deleted Pod until kubelet has stopped it.
	dying = "test/kubelet"
)

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// errCut is the answer to a write at which the coordinator died.
var errCut = errors.New("the coordinator died")

// A world is an API server, one node, and the controller.
type world struct {
	t      *testing.T
	api    client.WithWatch
	clock  *clocktesting.FakePassiveClock
	r      *servinggroup.Reconciler
	counts *prometheus.Registry // of the present controller
	events []string
	trace  []string
	// cut has the n-th write from now fail, before or after it took effect. 0: none.
	cut      int
	cutAfter bool
	// refuse may answer a write instead of the API server.
	refuse func(verb string, obj client.Object) error
	// stale, if set, is what the cache answers for Pods.
	stale []corev1.Pod
	// unseen is a ModelServing that the cache does not show.
	unseen string
	// meanwhile happens between the two readings of a live look.
	meanwhile func()
	// pinImage is the flag of the coordinator.
	pinImage string
	serial   int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(start()), pinImage: pinImage}
	scheme := runtime.NewScheme()
	w.must(errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	builder := fake.NewClientBuilder().WithScheme(scheme).
		WithObjectTracker(clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())).
		WithStatusSubresource(&v1alpha1.ServingGroup{}, &v1alpha1.InPlaceUpdate{}).
		WithIndex(&corev1.Pod{}, servinggroup.IndexOwner, servinggroup.OwnerUID).
		WithIndex(&corev1.Service{}, servinggroup.IndexOwner, servinggroup.OwnerUID).
		WithInterceptorFuncs(interceptor.Funcs{Create: w.create, Delete: w.remove, SubResourcePatch: w.patchStatus})
	w.api = builder.Build()
	for _, o := range objects {
		w.must(w.api.Create(t.Context(), o))
	}
	w.restart()
	return w
}

// restart puts a new controller in the place of the old one.
func (w *world) restart() {
	w.t.Helper()
	w.counts = prometheus.NewRegistry()
	r, err := servinggroup.New(servinggroup.Config{
		Client: interceptor.NewClient(w.api, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return w.write("create", o, func() error { return c.Create(ctx, o, opts...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				return w.write("update", o, func() error { return c.Update(ctx, o, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return w.write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				return w.write("report", o, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				verb := "mark"
				if data, err := p.Data(o); err != nil || strings.Contains(string(data), string(v1alpha1.InService)) {
					verb = "open"
				}
				return w.write(verb, o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, serving := o.(*v1alpha1.ModelServing); serving && key.Name == w.unseen {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "modelservings"}, key.Name)
				}
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if pods, ok := l.(*corev1.PodList); ok && w.stale != nil {
					pods.Items = slices.Clone(w.stale)
					return nil
				}
				return cached(l, c.List(ctx, l, opts...))
			},
		}),
		Pins: pinReader{w.api}, Pin: servinggroup.PinConfig{Image: w.pinImage},
		Live: &liveReader{w.api, w}, Clock: w.clock, Events: w, Namespace: system, Registerer: w.counts,
	})
	w.must(err)
	w.r = r
}

// cached leaves what the coordinator's caches hold: they select by a label.
func cached(l client.ObjectList, err error) error {
	if err != nil {
		return err
	}
	items, err := meta.ExtractList(l)
	if err != nil {
		return err
	}
	return meta.SetList(l, slices.DeleteFunc(items, func(o runtime.Object) bool {
		object, ok := o.(client.Object)
		_, group := o.(*v1alpha1.ServingGroup)
		return ok && !group && object.GetLabels()[v1alpha1.LabelModelServing] == ""
	}))
}

// A liveReader reads from the API server.
type liveReader struct {
	client.Reader
	w *world
}

func (l *liveReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.then(l.Reader.List(ctx, list, opts...))
}

func (l *liveReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, o, opts...)
	if _, group := o.(*v1alpha1.ServingGroup); group {
		return l.then(err)
	}
	return err
}

// then has happen what happens between the first reading of a live look and the second one.
func (l *liveReader) then(err error) error {
	if happens := l.w.meanwhile; happens != nil {
		l.w.meanwhile = nil
		happens()
	}
	return err
}

// write lets the controller write, unless it is to die here.
func (w *world) write(verb string, o client.Object, do func() error) error {
	if w.refuse != nil {
		if err := w.refuse(verb, o); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%s %s %s", verb, strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."), o.GetName())
	if w.cut--; w.cut == 0 && !w.cutAfter {
		return errCut
	}
	if err := do(); err != nil {
		return err
	}
	w.trace = append(w.trace, name)
	if w.cut == 0 && w.cutAfter {
		return errCut
	}
	return nil
}

func (w *world) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	w.serial++
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.serial)))
	}
	o.SetCreationTimestamp(metav1.NewTime(w.clock.Now()))
	o.SetGeneration(1)
	if p, ok := o.(*corev1.Pod); ok {
		p.Finalizers = append(p.Finalizers, dying)
	}
	return c.Create(ctx, o, opts...)
}

func (w *world) remove(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	have, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return errors.New("no object")
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), have); err != nil {
		return err
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != have.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("another UID"))
	}
	return c.Delete(ctx, o)
}

// patchStatus is what the real server does with a patch of pods/status that touches metadata.
func (w *world) patchStatus(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	var have corev1.Pod
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), &have); err != nil {
		return err
	}
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	var bound struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &bound); err != nil {
		return err
	}
	if bound.Metadata.UID != have.UID || bound.Metadata.ResourceVersion != "" && bound.Metadata.ResourceVersion != have.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, have.Name, errors.New("another object"))
	}
	before, err := json.Marshal(have)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, data, have)
	if err != nil {
		return err
	}
	var next corev1.Pod
	if err := json.Unmarshal(after, &next); err != nil {
		return err
	}
	status := next.Status
	if err := c.Update(ctx, &next); err != nil {
		return err
	}
	next.Status = status
	return c.Status().Update(ctx, &next)
}

// Eventf implements servinggroup.Events.
func (w *world) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.events = append(w.events, reason+": "+fmt.Sprintf(note, args...))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// reconcile calls the controller until it writes nothing more.
func (w *world) reconcile() {
	w.t.Helper()
	for range 30 {
		before := len(w.trace)
		_, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: space, Name: "llm-0"}})
		if errors.Is(err, errCut) {
			w.restart()
			continue
		}
		w.must(err)
		if len(w.trace) == before {
			return
		}
	}
	w.t.Fatalf("the controller does not come to rest: %s", strings.Join(w.trace[len(w.trace)-10:], ", "))
}

// settle lets controller and kubelet do what they have to do.
func (w *world) settle() {
	w.t.Helper()
	for range 12 {
		w.reconcile()
		if !w.kubelet() {
			return
		}
	}
	w.t.Fatal("the world does not come to rest")
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	w.must(w.api.List(w.t.Context(), &list, client.InNamespace(space)))
	return list.Items
}

func (w *world) pod(name string) corev1.Pod {
	w.t.Helper()
	var p corev1.Pod
	w.must(w.api.Get(w.t.Context(), types.NamespacedName{Namespace: space, Name: name}, &p))
	return p
}

func (w *world) group() *v1alpha1.ServingGroup {
	w.t.Helper()
	var sg v1alpha1.ServingGroup
	w.must(w.api.Get(w.t.Context(), types.NamespacedName{Namespace: space, Name: "llm-0"}, &sg))
	return &sg
}

// order is what the ModelServing controller does: it changes the spec.
func (w *world) order(change func(*v1alpha1.ServingGroupSpec)) {
	w.t.Helper()
	sg := w.group()
	change(&sg.Spec)
	sg.Generation++
	w.must(w.api.Update(w.t.Context(), sg))
}

// stage returns how far the unit is, as the ModelServing controller may believe it.
func (w *world) stage(unit string) v1alpha1.UnitStage {
	w.t.Helper()
	sg := w.group()
	for _, u := range sg.Status.Updates {
		if u.Unit == unit && sg.Status.ObservedGeneration == sg.Generation {
			return u.Stage
		}
	}
	return ""
}
