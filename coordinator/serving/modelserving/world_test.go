package modelserving_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/coordinator/serving/modelserving"
)

const namespace = "ns"

// errCut is what a coordinator that died sees of its last request.
var errCut = errors.New("cut")

// A world is an API server in memory with one coordinator, which dies where a test says so.
type world struct {
	t        *testing.T
	api      client.WithWatch // the objects, for the test
	client   client.WithWatch // what the controller writes through
	cache    client.Reader    // what the controller reads; nil: the objects as they are
	clock    *clocktesting.FakePassiveClock
	leader   *modelserving.Reconciler
	decide   func(plan.Snapshot) plan.Plan // default plan.Decide
	events   []string
	writes   []string // those that took effect
	refuse   func(verb string, obj client.Object) error
	onWrite  func(verb string, obj client.Object) // before it takes effect
	mu       sync.Mutex                           // of requests and writes
	requests int
	cut      int // number of the request to die at; 0: none
	after    bool
	serial   int
	abreast  int // how many ServingGroups are written at a time
}

func newWorld(t *testing.T, objs ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, decide: plan.Decide, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	w.api = builder(scheme).WithInterceptorFuncs(w.semantics()).Build()
	w.client = interceptor.NewClient(w.api, w.requestsOfTheController())
	for _, obj := range objs {
		if err := w.api.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// builder keeps no track of managed fields, which is most of the time that the fake takes.
func builder(scheme *runtime.Scheme) *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(scheme).WithGlobalResourceVersionCounter().
		WithObjectTracker(clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())).
		WithStatusSubresource(&v1alpha1.ModelServing{}, &v1alpha1.ServingGroup{}).
		WithIndex(&v1alpha1.ServingGroup{}, "ownerUID", modelserving.ByOwnerUID)
}

// semantics adds what the fake client lacks: UIDs, generations, the UID as a precondition.
func (w *world) semantics() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			w.serial++
			if obj.GetUID() == "" {
				obj.SetUID(types.UID(fmt.Sprintf("uid-%d", w.serial)))
			}
			obj.SetGeneration(1)
			obj.SetCreationTimestamp(metav1.NewTime(w.clock.Now()))
			return c.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			old := obj.DeepCopyObject().(client.Object)
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), old); err != nil {
				return err
			}
			obj.SetGeneration(old.GetGeneration())
			if !reflect.DeepEqual(specOf(old), specOf(obj)) {
				obj.SetGeneration(old.GetGeneration() + 1)
			}
			return c.Update(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			var o client.DeleteOptions
			o.ApplyOptions(opts)
			old := obj.DeepCopyObject().(client.Object)
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), old); err != nil {
				return err
			}
			if o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != old.GetUID() {
				return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("UID"))
			}
			return c.Delete(ctx, obj, opts...)
		},
	}
}

func specOf(obj client.Object) any {
	switch o := obj.(type) {
	case *v1alpha1.ModelServing:
		return o.Spec
	case *v1alpha1.ServingGroup:
		return o.Spec
	}
	return nil
}

// requestsOfTheController counts, refuses and cuts the controller's writes, and reads from the cache.
func (w *world) requestsOfTheController() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return w.reader().Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return w.reader().List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return w.request("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return w.request("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.request("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.request("patch", obj, func() error { return c.Patch(ctx, obj, p, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return w.request("update "+sub, obj, func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
		},
	}
}

func (w *world) reader() client.Reader {
	if w.cache != nil {
		return w.cache
	}
	return w.api
}

func (w *world) request(verb string, obj client.Object, do func() error) error {
	if w.onWrite != nil {
		w.onWrite(verb, obj)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	if w.refuse != nil {
		if err := w.refuse(verb, obj); err != nil {
			return err
		}
	}
	if w.requests == w.cut && !w.after {
		return errCut
	}
	if err := do(); err != nil {
		return err
	}
	w.writes = append(w.writes, fmt.Sprintf("%s %s %s", verb, kindOf(obj), obj.GetName()))
	if w.requests == w.cut {
		return errCut
	}
	return nil
}

func kindOf(obj client.Object) string {
	return reflect.TypeOf(obj).Elem().Name()
}

// Eventf makes the world the recorder of its controller.
func (w *world) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	w.events = append(w.events, fmt.Sprintf("%s %s: "+note, append([]any{kind, reason}, args...)...))
}

// freeze makes the controller read the objects as they are now, until thaw. The hidden ones it does
// not see at all.
func (w *world) freeze(hidden ...string) {
	w.t.Helper()
	b := builder(w.api.Scheme())
	for _, list := range []client.ObjectList{&v1alpha1.ModelServingList{}, &v1alpha1.ServingGroupList{}, &appsv1.ControllerRevisionList{}} {
		if err := w.api.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if obj := o.(client.Object); !slices.Contains(hidden, obj.GetName()) {
				b = b.WithObjects(obj)
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.cache = b.Build()
}

func (w *world) thaw() { w.cache = nil }

// pass lets the coordinator make one pass over the ModelServing named ms. One that died is followed by
// one that knows nothing.
func (w *world) pass() (ctrl.Result, error) {
	w.t.Helper()
	if w.leader == nil {
		decide := func(s plan.Snapshot) plan.Plan { return w.decide(s) }
		var err error
		w.leader, err = modelserving.New(modelserving.Config{Client: w.client, Live: w.api, Clock: w.clock, Events: w, Decide: decide, Writes: w.abreast})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	res, err := w.leader.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "ms"}})
	if errors.Is(err, errCut) {
		w.leader = nil
	}
	return res, err
}

func (w *world) mustPass() ctrl.Result {
	w.t.Helper()
	res, err := w.pass()
	if err != nil {
		w.t.Fatalf("pass: %v", err)
	}
	return res
}

func (w *world) serving() *v1alpha1.ModelServing {
	w.t.Helper()
	return get[v1alpha1.ModelServing](w, "ms")
}

// get reads one object; it fails the test if it is not there.
func get[T any, P interface {
	*T
	client.Object
}](w *world, name string,
) *T {
	w.t.Helper()
	var obj T
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, P(&obj)); err != nil {
		w.t.Fatal(err)
	}
	return &obj
}

// change writes one object as f changes it, for the user or the ServingGroup controller.
func change[T any, P interface {
	*T
	client.Object
}](w *world, name string, f func(*T),
) {
	w.t.Helper()
	obj := get[T, P](w, name)
	f(obj)
	if err := w.api.Update(w.t.Context(), P(obj)); err != nil {
		w.t.Fatal(err)
	}
	if kindOf(P(obj)) == "ControllerRevision" {
		return
	}
	status := get[T, P](w, name)
	f(status)
	if err := w.api.Status().Update(w.t.Context(), P(status)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) groups() map[string]*v1alpha1.ServingGroup {
	w.t.Helper()
	var list v1alpha1.ServingGroupList
	if err := w.api.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	groups := map[string]*v1alpha1.ServingGroup{}
	for i := range list.Items {
		groups[list.Items[i].Name] = &list.Items[i]
	}
	return groups
}

func (w *world) revisions() []appsv1.ControllerRevision {
	w.t.Helper()
	var list appsv1.ControllerRevisionList
	if err := w.api.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// declared is a ModelServing of one role.
func declared(replicas int32) *v1alpha1.ModelServing {
	return &v1alpha1.ModelServing{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ms", UID: "uid-ms"},
		Spec: v1alpha1.ModelServingSpec{
			Replicas: new(replicas), RevisionHistoryLimit: new(int32(10)),
			Template: v1alpha1.ServingGroupTemplate{Roles: []v1alpha1.Role{{Name: "prefill", Replicas: new(int32(1)), EntryTemplate: template("engine:1")}}},
		},
	}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: image}}}}
}

func setImage(image string) func(*v1alpha1.ModelServing) {
	return func(ms *v1alpha1.ModelServing) { ms.Spec.Template.Roles[0].EntryTemplate = template(image) }
}

func ordinal(n int) *int32 { return new(int32(n)) }

func number(n int) string { return strconv.Itoa(n) }
