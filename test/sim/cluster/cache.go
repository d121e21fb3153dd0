package cluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// Cache is what one process has been told of one kind so far.
type Cache struct {
	table   *table
	holds   func(client.Object) bool
	told    int
	objects map[types.NamespacedName]client.Object
}

// newCache returns a cache that has been told the first n changes.
func newCache(t *table, holds func(client.Object) bool, n int) *Cache {
	c := &Cache{table: t, holds: holds, objects: map[types.NamespacedName]client.Object{}}
	c.advance(n)
	return c
}

// advance tells the cache all changes up to the n-th, and returns the objects as they are now or,
// where they went, as they were. It never goes back.
func (c *Cache) advance(n int) []client.Object {
	var changed []client.Object
	for c.told < min(n, len(c.table.log)) {
		change := c.table.log[c.told]
		if change.object != nil && !c.holds(change.object) {
			change.object = nil
		}
		if was, ok := c.objects[change.key]; ok && (change.object == nil || change.object.GetUID() != was.GetUID()) {
			changed = append(changed, was)
		}
		if change.object != nil {
			changed = append(changed, change.object)
		}
		if change.object == nil {
			delete(c.objects, change.key)
		} else {
			c.objects[change.key] = change.object
		}
		c.told++
	}
	return changed
}

// held is what the cache of a kind holds.
func held(kind string) func(client.Object) bool {
	if kind == PinPod {
		return func(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelPin] != "" }
	}
	return cacheable
}

// cacheable reports whether the coordinator's caches hold the object: of some kinds they ask for those with
// a label only.
func cacheable(o client.Object) bool {
	switch kindOf(o) {
	case Pod, Service, ControllerRevision, InPlaceUpdate:
		_, ok := o.GetLabels()[v1alpha1.LabelModelServing]
		return ok
	}
	return true
}

// asOf is the time up to which the cache knows everything.
func (c *Cache) asOf(now time.Time) time.Time {
	if c.told < len(c.table.log) {
		return c.table.log[c.told].at
	}
	return now
}

// A Frame is one call of a reconciler, and how old what it read was.
type Frame struct {
	Name string
	asOf map[string]time.Time
	now  time.Time
}

// AsOf is a time up to which the call knew all changes of a kind: that of its oldest reading.
func (f *Frame) AsOf(kind string) time.Time {
	if t, ok := f.asOf[kind]; ok {
		return t
	}
	return f.now
}

func (f *Frame) read(kind string, asOf time.Time) {
	if t, ok := f.asOf[kind]; !ok || asOf.Before(t) {
		f.asOf[kind] = asOf
	}
}
