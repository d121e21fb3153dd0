// Package record watches a ModelServing with all that belongs to it and judges every frame: each
// state that the API server showed, in the order in which it came to be. A watch that breaks is a
// gap, and a recording with a gap proves nothing.
package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// ErrGap reports that a watch broke: what it would have shown is unknown.
var ErrGap = errors.New("the recording has a gap")

// A Frame is one change of one object.
type Frame struct {
	// Version is the change's place among all changes of the cluster: etcd counts them.
	Version uint64
	Type    watch.EventType
	Object  client.Object
}

// A Recorder collects the frames of one namespace.
type Recorder struct {
	client  client.WithWatch
	watches []watch.Interface
	done    sync.WaitGroup

	mu      sync.Mutex
	frames  []Frame
	seen    map[string]uint64 // newest version by kind and name
	stopped bool
	err     error
}

// Start begins to record the namespace. The caller stops it.
func Start(ctx context.Context, c client.WithWatch, namespace string) (*Recorder, error) {
	r := &Recorder{client: c, seen: map[string]uint64{}}
	for _, list := range kinds() {
		if err := r.follow(ctx, list, namespace); err != nil {
			r.Stop()
			return nil, err
		}
	}
	return r, nil
}

func kinds() []client.ObjectList {
	return []client.ObjectList{&v1alpha1.ModelServingList{}, &v1alpha1.ServingGroupList{}, &corev1.PodList{}, &appsv1.ControllerRevisionList{}}
}

func (r *Recorder) follow(ctx context.Context, list client.ObjectList, namespace string) error {
	if err := r.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	for _, item := range items {
		r.add(watch.Added, item)
	}
	hour := int64(3600)
	w, err := r.client.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), TimeoutSeconds: &hour},
	})
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	r.watches = append(r.watches, w)
	r.done.Go(func() { r.drain(w) })
	return nil
}

func (r *Recorder) drain(w watch.Interface) {
	for e := range w.ResultChan() {
		r.add(e.Type, e.Object)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.err = errors.Join(r.err, ErrGap)
	}
}

func (r *Recorder) add(kind watch.EventType, item runtime.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := item.(client.Object)
	if !ok || kind == watch.Error || kind == watch.Bookmark {
		r.err = errors.Join(r.err, fmt.Errorf("%w: %s %v", ErrGap, kind, item))
		return
	}
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("%w: resourceVersion: %w", ErrGap, err))
		return
	}
	r.frames = append(r.frames, Frame{version, kind, o})
	r.seen[key(o)] = max(version, r.seen[key(o)])
}

func key(o client.Object) string { return fmt.Sprintf("%T %s", o, o.GetName()) }

// Stop ends the watches and waits for them.
func (r *Recorder) Stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	for _, w := range r.watches {
		w.Stop()
	}
	r.done.Wait()
}

// Frames waits until the recording has caught up with what the API server holds now, and returns
// it in the order of the changes. It returns ErrGap if a watch broke.
func (r *Recorder) Frames(ctx context.Context, namespace string) ([]Frame, error) {
	now := map[string]uint64{}
	for _, list := range kinds() {
		if err := r.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
			now[key(o)] = version
			return err
		}); err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !r.reached(now) {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the watches do not catch up: %w", ErrGap, ctx.Err())
		case <-tick.C:
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	frames := slices.Clone(r.frames)
	slices.SortStableFunc(frames, func(a, b Frame) int { return cmp.Compare(a.Version, b.Version) })
	return frames, r.err
}

// reached reports whether every object was seen as it is now, or the recording is broken.
func (r *Recorder) reached(now map[string]uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, version := range now {
		if r.seen[k] < version && r.err == nil {
			return false
		}
	}
	return true
}
