//go:build lab

package crash

import (
	"context"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pitstop.dev/api/v1alpha1"
)

// A watcher has the newest version of every order, and remembers every version of every Pod.
type watcher struct {
	pods, orders cache.SharedIndexInformer

	mu   sync.Mutex
	seen map[types.UID][]sighting
}

// A sighting is what one version of a Pod says of its update.
type sighting struct {
	Version    string
	Generation int64
	Images     string
	PatchedAt  string
	Hold       string
	Gate       corev1.ConditionStatus
	Ready      corev1.ConditionStatus
}

func newWatcher(updates rest.Interface, pods cache.SharedIndexInformer) (*watcher, error) {
	w := &watcher{pods: pods, seen: map[types.UID][]sighting{}}
	w.orders = cache.NewSharedIndexInformer(
		cache.NewListWatchFromClient(updates, "inplaceupdates", namespace, fields.Everything()),
		&v1alpha1.InPlaceUpdate{}, 0, cache.Indexers{})
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.note, UpdateFunc: func(_, obj any) { w.note(obj) },
	})
	return w, err
}

func (w *watcher) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { w.pods.RunWithContext(ctx) })
	wg.Go(func() { w.orders.RunWithContext(ctx) })
	wg.Wait()
}

func (w *watcher) await(t *testing.T) {
	t.Helper()
	if !cache.WaitForCacheSync(t.Context().Done(), w.pods.HasSynced, w.orders.HasSynced) {
		t.Fatal("caches did not fill")
	}
}

func (w *watcher) note(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	s := sighting{
		Version: pod.ResourceVersion, Generation: pod.Generation,
		PatchedAt: pod.Annotations[v1alpha1.PatchedAt], Hold: pod.Annotations[v1alpha1.HoldInPlace],
	}
	for _, c := range pod.Spec.Containers {
		s.Images += c.Image + " "
	}
	s.Gate, s.Ready = statusOf(pod, v1alpha1.InService), statusOf(pod, corev1.PodReady)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[pod.UID] = append(w.seen[pod.UID], s)
}

// sightings are all versions of the Pod that were seen, the oldest first.
func (w *watcher) sightings(pod types.UID) []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen[pod])
}

// latest is the newest version seen.
func (w *watcher) latest(pod types.UID) sighting {
	s := w.sightings(pod)
	if len(s) == 0 {
		return sighting{}
	}
	return s[len(s)-1]
}

// order is the newest version of the order seen; nil if there is none.
func (w *watcher) order(name string) *v1alpha1.InPlaceUpdate {
	obj, _, _ := w.orders.GetStore().GetByKey(namespace + "/" + name)
	u, _ := obj.(*v1alpha1.InPlaceUpdate)
	return u
}

func statusOf(pod *corev1.Pod, condition corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status
		}
	}
	return ""
}
