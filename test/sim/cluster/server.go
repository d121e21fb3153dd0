package cluster

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// The kinds that the server knows.
const (
	ModelServing       = "ModelServing"
	ServingGroup       = "ServingGroup"
	InPlaceUpdate      = "InPlaceUpdate"
	ControllerRevision = "ControllerRevision"
	Pod                = "Pod"
	Service            = "Service"
	Node               = "Node"
	Lease              = "Lease"
	// PinPod are those Pods that have the label of pin Pods: caches hold them apart from the others.
	PinPod = "PinPod"
)

// A Verb is what a write did.
type Verb string

// The verbs. A deletion is Mark while the object stays, with a deletionTimestamp, and Remove when
// it is gone.
const (
	Create       Verb = "create"
	Update       Verb = "update"
	UpdateStatus Verb = "status"
	Mark         Verb = "delete"
	Remove       Verb = "remove"
)

// A Write is one change of the stored objects. The objects must not be changed.
type Write struct {
	At   time.Time
	By   string
	Verb Verb
	Kind string
	Key  types.NamespacedName
	// Old and New are the object before and after. Old is nil for Create, New for Remove.
	Old, New client.Object
	// Frame is the call of the reconciler that wrote; nil for everybody else.
	Frame *Frame
	// Bound: the write carried the resourceVersion or, for a deletion, the UID of what it changed.
	Bound bool
}

// Object is the object after the write, or before it where it is gone.
func (w Write) Object() client.Object {
	if w.New == nil {
		return w.Old
	}
	return w.New
}

// A Server holds the stored objects and everything that they ever were.
type Server struct {
	clock    clock.PassiveClock
	scheme   *runtime.Scheme
	tables   map[string]*table
	revision int64
	uids     int64
	watchers []func(Write)
	// Admit, if it is set, may refuse a creation with the error that the API server would give.
	Admit func(object client.Object) error
}

// table has all objects of one kind. Stored objects are never changed, only replaced.
type table struct {
	objects  map[types.NamespacedName]client.Object
	log      []change
	versions map[types.NamespacedName][]change
}

// change is one entry of a kind's watch; object is nil where it went.
type change struct {
	at     time.Time
	key    types.NamespacedName
	object client.Object
}

// Scheme returns a scheme with the kinds that the server knows. Servers may share it.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return s, nil
}

// New returns a server without objects.
func New(c clock.PassiveClock, scheme *runtime.Scheme) *Server {
	s := &Server{clock: c, scheme: scheme, tables: map[string]*table{}}
	for _, kind := range []string{ModelServing, ServingGroup, InPlaceUpdate, ControllerRevision, Pod, Service, Node, Lease} {
		s.tables[kind] = &table{
			objects:  map[types.NamespacedName]client.Object{},
			versions: map[types.NamespacedName][]change{},
		}
	}
	return s
}

// Watch has f called after every write, in the order of the calls of Watch.
func (s *Server) Watch(f func(Write)) { s.watchers = append(s.watchers, f) }

// Stored returns the object as it is stored, or nil. It must not be changed.
func (s *Server) Stored(kind string, key types.NamespacedName) client.Object {
	return s.table(kind).objects[key]
}

// All returns the stored objects of a kind by namespace and name. They must not be changed.
func (s *Server) All(kind string) []client.Object { return sorted(s.table(kind).objects) }

// Versions returns what the object was at any time from just before since on, the oldest first. They must not
// be changed. A nil entry stands for a time without the object.
func (s *Server) Versions(kind string, key types.NamespacedName, since time.Time) []client.Object {
	all := s.table(kind).versions[key]
	first := len(all)
	for first > 0 && !all[first-1].at.Before(since) {
		first--
	}
	var out []client.Object
	if first > 0 {
		first--
	} else {
		out = append(out, nil)
	}
	for _, v := range all[first:] {
		out = append(out, v.object)
	}
	return out
}

// Revision is the number of writes so far.
func (s *Server) Revision() int64 { return s.revision }

func (s *Server) table(kind string) *table {
	if kind == PinPod {
		kind = Pod
	}
	t, ok := s.tables[kind]
	if !ok {
		panic(fmt.Sprintf("no kind %q on this server", kind))
	}
	return t
}

// store puts the object, which nobody may change from now on, and tells everybody.
func (s *Server) store(w Write) {
	w.At = s.clock.Now()
	s.revision++
	if w.New != nil {
		w.New.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	}
	t := s.table(w.Kind)
	c := change{at: w.At, key: w.Key, object: w.New}
	t.log = append(t.log, c)
	t.versions[w.Key] = append(t.versions[w.Key], c)
	if w.New == nil {
		delete(t.objects, w.Key)
	} else {
		t.objects[w.Key] = w.New
	}
	for _, f := range s.watchers {
		f(w)
	}
}

func (s *Server) newUID(kind string) types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("%s-uid-%d", kind, s.uids))
}

func sorted(objects map[types.NamespacedName]client.Object) []client.Object {
	return selected(objects, func(types.NamespacedName, client.Object) bool { return true })
}

// selected are the objects that one wants, by namespace and name.
func selected(objects map[types.NamespacedName]client.Object, wanted func(types.NamespacedName, client.Object) bool) []client.Object {
	keys := make([]types.NamespacedName, 0, len(objects))
	for key, o := range objects {
		if wanted(key, o) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	out := make([]client.Object, len(keys))
	for i, key := range keys {
		out[i] = objects[key]
	}
	return out
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// kindOf names the object's kind by its Go type: typed clients leave the TypeMeta empty.
func kindOf(object any) string { return reflect.TypeOf(object).Elem().Name() }
