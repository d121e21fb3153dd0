package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// IndexOwner is the index that a cached client may select by: the UID of the controller owner.
const IndexOwner = "ownerUID"

// A Call is one call of a Client, before it is answered.
type Call struct {
	By     string
	Verb   string
	Kind   string
	Object client.Object // nil for List
}

// Write reports whether the call changes anything.
func (c Call) Write() bool { return c.Verb != "get" && c.Verb != "list" }

// A Hook comes between a client and the server. Time may pass in it.
type Hook interface {
	// Before may fail the call; then nothing was done.
	Before(c Call) error
	// After may take the answer away; what was written stays.
	After(c Call) error
}

// A Client is one process's way to the server.
type Client struct {
	server *Server
	name   string
	hook   Hook
	caches map[string]*Cache // nil: reads are live
	pins   bool              // it reads Pods from the cache of pin Pods
	frames *[]*Frame
	// Shuffle orders lists out of the caches, which have no order; nil leaves them sorted.
	Shuffle func(n int, swap func(i, j int))
}

var _ client.Client = (*Client)(nil)

// Direct returns a client that reads what is stored.
func (s *Server) Direct(name string) *Client {
	return &Client{server: s, name: name, frames: &[]*Frame{}}
}

// Cached returns a client that reads caches. lag says, by kind and number of changes so far, how
// many changes the cache has not been told of when it starts.
func (s *Server) Cached(name string, hook Hook, lag func(kind string, changes int) int) *Client {
	c := &Client{server: s, name: name, hook: hook, caches: map[string]*Cache{}, frames: &[]*Frame{}}
	for _, kind := range []string{ModelServing, ServingGroup, InPlaceUpdate, ControllerRevision, Pod, PinPod, Service, Node, Lease} {
		t := s.table(kind)
		c.caches[kind] = newCache(t, held(kind), len(t.log)-lag(kind, len(t.log)))
	}
	return c
}

// Pins returns a client of the same process that reads Pods from the cache of pin Pods.
func (c *Client) Pins() *Client {
	pins := *c
	pins.pins = true
	return &pins
}

// Live returns a client of the same process that reads what is stored.
func (c *Client) Live() *Client {
	return &Client{server: c.server, name: c.name, hook: c.hook, frames: c.frames}
}

// Begin starts the record of one call of a reconciler; its end is the function's call.
func (c *Client) Begin(name string) (end func()) {
	*c.frames = append(*c.frames, &Frame{Name: name, asOf: map[string]time.Time{}, now: c.server.clock.Now()})
	return func() { *c.frames = (*c.frames)[:len(*c.frames)-1] }
}

// Told is how many changes of the kind the cache knows; Changes is how many there were.
func (c *Client) Told(kind string) int { return c.caches[kind].told }

// Changes is how many changes of the kind there were.
func (s *Server) Changes(kind string) int { return len(s.table(kind).log) }

// ChangesSince is how many of them there were since t.
func (s *Server) ChangesSince(kind string, t time.Time) int {
	n, log := 0, s.table(kind).log
	for n < len(log) && log[len(log)-1-n].at.After(t) {
		n++
	}
	return n
}

// Advance tells the cache of a kind its changes up to the n-th, and returns the objects as they
// are now or, where they went, as they were. They must not be changed.
func (c *Client) Advance(kind string, n int) []client.Object { return c.caches[kind].advance(n) }

// Known returns what the cache knows of a kind. The objects must not be changed.
func (c *Client) Known(kind string) []client.Object { return sorted(c.caches[kind].objects) }

func (c *Client) caller() caller {
	by := caller{name: c.name}
	if n := len(*c.frames); n > 0 {
		by.frame = (*c.frames)[n-1]
	}
	return by
}

// call runs do between the hook's two halves.
func (c *Client) call(ctx context.Context, call Call, do func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", call.Verb, call.Kind, err)
	}
	if c.hook == nil {
		return do()
	}
	call.By = c.name
	if err := c.hook.Before(call); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return c.hook.After(call)
}

// Get reads one object.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	kind := kindOf(o)
	return c.call(ctx, Call{Verb: "get", Kind: kind, Object: o}, func() error {
		stored, ok := c.objects(kind)[key]
		if !ok {
			return apierrors.NewNotFound(resource(kind), key.Name)
		}
		copyInto(stored, o)
		return nil
	})
}

// objects is what the client sees of a kind; reading is noted in the frame.
func (c *Client) objects(kind string) map[types.NamespacedName]client.Object {
	if c.caches == nil {
		return c.server.table(kind).objects
	}
	if c.pins && kind == Pod {
		kind = PinPod
	}
	cache, ok := c.caches[kind]
	if !ok {
		panic(fmt.Sprintf("no cache of %q", kind))
	}
	if by := c.caller(); by.frame != nil {
		by.frame.read(kind, cache.asOf(c.server.clock.Now()))
	}
	return cache.objects
}

// List reads the objects of a kind that options select.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind := strings.TrimSuffix(kindOf(list), "List")
	o := (&client.ListOptions{}).ApplyOptions(opts)
	return c.call(ctx, Call{Verb: "list", Kind: kind}, func() error {
		listInto(c.matching(kind, o), list)
		return nil
	})
}

func (c *Client) matching(kind string, o *client.ListOptions) []client.Object {
	owner, byOwner := c.ownerOf(o)
	out := selected(c.objects(kind), func(key types.NamespacedName, object client.Object) bool {
		switch {
		case o.Namespace != "" && key.Namespace != o.Namespace:
		case byOwner && controllerOf(object) != owner:
		case o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())):
		default:
			return true
		}
		return false
	})
	if c.caches != nil && c.Shuffle != nil {
		c.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// ownerOf is the one index that there is, and only a cache has it.
func (c *Client) ownerOf(o *client.ListOptions) (uid string, ok bool) {
	if o.FieldSelector == nil || o.FieldSelector.Empty() {
		return "", false
	}
	uid, ok = o.FieldSelector.RequiresExactMatch(IndexOwner)
	if !ok || c.caches == nil || len(o.FieldSelector.Requirements()) != 1 {
		panic(fmt.Sprintf("cannot select by %s (live: %t)", o.FieldSelector, c.caches == nil))
	}
	return uid, true
}

// Create stores a new object.
func (c *Client) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	none(opts)
	return c.call(ctx, Call{Verb: "create", Kind: kindOf(o), Object: o}, func() error { return c.server.create(c.caller(), o) })
}

// Update replaces all but the status; it needs the resourceVersion.
func (c *Client) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	none(opts)
	return c.call(ctx, Call{Verb: "update", Kind: kindOf(o), Object: o}, func() error { return c.server.update(c.caller(), Update, o) })
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	return c.call(ctx, Call{Verb: "delete", Kind: kindOf(o), Object: o}, func() error { return c.server.delete(c.caller(), o, *options) })
}

// Status returns the writer of the status subresource.
func (c *Client) Status() client.SubResourceWriter { return statusWriter{c} }

type statusWriter struct{ c *Client }

func (w statusWriter) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	none(opts)
	call := Call{Verb: "status", Kind: kindOf(o), Object: o}
	return w.c.call(ctx, call, func() error { return w.c.server.update(w.c.caller(), UpdateStatus, o) })
}

func (w statusWriter) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	pod, ok := o.(*corev1.Pod)
	none(opts)
	if !ok || p.Type() != types.StrategicMergePatchType {
		panic("not simulated: a patch other than a strategic merge patch of a Pod's status")
	}
	data, err := p.Data(o)
	if err != nil {
		return fmt.Errorf("read patch: %w", err)
	}
	call := Call{Verb: "patch", Kind: Pod, Object: o}
	return w.c.call(ctx, call, func() error { return w.c.server.patchPodStatus(w.c.caller(), pod, data) })
}

// none ends the history where there are options: the simulation does not know what they do.
func none[T any](opts []T) {
	if len(opts) > 0 {
		panic(fmt.Sprintf("not simulated: %T", opts))
	}
}

var errUnused = errors.New("not simulated")

func (statusWriter) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	panic(errUnused)
}

func (statusWriter) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	panic(errUnused)
}

// Apply is not simulated.
func (c *Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	panic(errUnused)
}

// Patch applies a merge patch that removes annotations of a ModelServing, and no other.
func (c *Client) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	ms, ok := o.(*v1alpha1.ModelServing)
	none(opts)
	if !ok || p.Type() != types.MergePatchType {
		panic("not simulated: a patch other than a merge patch of a ModelServing")
	}
	data, err := p.Data(o)
	if err != nil {
		return fmt.Errorf("read patch: %w", err)
	}
	call := Call{Verb: "patch", Kind: ModelServing, Object: o}
	return c.call(ctx, call, func() error { return c.server.patchServing(c.caller(), ms, data) })
}

// DeleteAllOf is not simulated.
func (c *Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	panic(errUnused)
}

// SubResource is not simulated.
func (c *Client) SubResource(string) client.SubResourceClient { panic(errUnused) }

// Scheme has the kinds of the server.
func (c *Client) Scheme() *runtime.Scheme { return c.server.scheme }

// RESTMapper is not simulated.
func (c *Client) RESTMapper() meta.RESTMapper { panic(errUnused) }

// GroupVersionKindFor looks the type up in the scheme.
func (c *Client) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := c.server.scheme.ObjectKinds(o)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("kind of %T: %w", o, err)
	}
	return kinds[0], nil
}

// IsObjectNamespaced is true of all kinds but Node.
func (c *Client) IsObjectNamespaced(o runtime.Object) (bool, error) { return kindOf(o) != Node, nil }
