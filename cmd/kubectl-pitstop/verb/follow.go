package verb

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
)

// A viewer is shown what happens to InPlaceUpdates. It ends the watch by true or an error.
type viewer interface {
	changed(u *v1alpha1.InPlaceUpdate) (bool, error)
	gone(u *v1alpha1.InPlaceUpdate) (bool, error)
	tick()
}

// A selection says which objects are watched: those of a namespace, all if it is empty,
// or the one of this name if there is one.
type selection struct{ namespace, name string }

// follow shows v every state of the selected objects, first the present one, and a tick every
// second, until v has seen enough or ctx ends. It survives a lost connection.
func (c *cluster) follow(ctx context.Context, clk clock.WithTicker, s selection, v viewer) error {
	return c.watch(ctx, clk, v1alpha1.InPlaceUpdates, s, sight{func(e watch.Event) (bool, error) { return show(v, e) }, v.tick})
}

// A sight is shown events, and ends a watch by true or an error. Once a second it gets a tick.
type sight struct {
	see  func(watch.Event) (bool, error)
	tick func()
}

// watch shows every state of the selected objects, first the present one, until enough is seen or ctx ends.
func (c *cluster) watch(ctx context.Context, clk clock.WithTicker, kind schema.GroupVersionResource, s selection, v sight) error {
	resource := c.Dynamic.Resource(kind).Namespace(s.namespace)
	narrow := func(o metav1.ListOptions) metav1.ListOptions {
		if s.name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
		}
		return o
	}
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, narrow(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, narrow(o))
		},
	}, c.Dynamic)
	_, _, events, ended := watchtools.NewIndexerInformerWatcher(lw, &unstructured.Unstructured{})
	defer func() { events.Stop(); <-ended }()
	ticker := clk.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
			v.tick()
		case event, ok := <-events.ResultChan():
			if !ok {
				return fmt.Errorf("watch of %s ended", kind.Resource)
			}
			if done, err := v.see(event); done || err != nil {
				return err
			}
		}
	}
}

func show(v viewer, event watch.Event) (bool, error) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return false, fmt.Errorf("watch of inplaceupdates: unexpected %T", event.Object)
	}
	u, err := decode[v1alpha1.InPlaceUpdate](object)
	if err != nil {
		return false, err
	}
	if event.Type == watch.Deleted {
		return v.gone(u)
	}
	return v.changed(u)
}
