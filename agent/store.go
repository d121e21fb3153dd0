package agent

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// writtenFor bounds how long an own write is preferred to a cache that does not have the object.
const writtenFor = 10 * time.Second

// An object is what a store holds.
type object interface {
	metav1.Object
	runtime.Object
}

// A store is a cache of one kind of object that shows the agent its own writes at once. Objects
// in it are shared: nobody may change them.
type store[T object] struct {
	objects    cache.Store
	controller cache.Controller
	clock      clock.PassiveClock

	mu      sync.Mutex
	written map[types.NamespacedName]write[T]
}

type write[T object] struct {
	object T
	at     time.Time
}

// newStore returns a store that calls changed with the key of every object that changes.
func newStore[T object](lw cache.ListerWatcher, kind T, c clock.PassiveClock, changed func(types.NamespacedName)) *store[T] {
	s := &store[T]{clock: c, written: map[types.NamespacedName]write[T]{}}
	notify := func(obj any) {
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		if o, ok := obj.(T); ok {
			changed(keyOf(o))
		}
	}
	s.objects, s.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    kind,
		Transform:     slim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    notify,
			UpdateFunc: func(_, obj any) { notify(obj) },
			DeleteFunc: func(obj any) {
				if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = d.Obj
				}
				if o, ok := obj.(T); ok {
					s.forget(o)
					changed(keyOf(o))
				}
			},
		},
	})
	return s
}

func (s *store[T]) run(ctx context.Context) { s.controller.RunWithContext(ctx) }

func (s *store[T]) synced() bool { return s.controller.HasSynced() }

// get returns the newest version that is known, and false if there is none.
func (s *store[T]) get(key types.NamespacedName) (T, bool) {
	var cached T
	obj, found, _ := s.objects.GetByKey(key.String())
	if found {
		cached, found = obj.(T)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, wrote := s.written[key]
	switch {
	case !wrote:
		return cached, found
	case !found && s.clock.Since(w.at) < writtenFor:
		return w.object, true
	case !found || !newer(w.object, cached):
		delete(s.written, key)
		return cached, found
	}
	return w.object, true
}

// wrote remembers the API server's answer to a write.
func (s *store[T]) wrote(o T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[keyOf(o)] = write[T]{object: o, at: s.clock.Now()}
}

// forget drops what was written of an object that is gone.
func (s *store[T]) forget(o T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.written[keyOf(o)]; ok && w.object.GetUID() == o.GetUID() {
		delete(s.written, keyOf(o))
	}
}

// uids returns the UIDs of all objects in the cache.
func (s *store[T]) uids() []types.UID {
	var uids []types.UID
	for _, obj := range s.objects.List() {
		if o, ok := obj.(T); ok {
			uids = append(uids, o.GetUID())
		}
	}
	return uids
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// newer reports whether a is a later version than b. Versions that cannot be compared are not.
func newer(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
