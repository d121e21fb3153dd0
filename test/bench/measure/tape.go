package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
)

// A frame is a version of an object and when a watch showed it, or showed that it is gone.
type frame struct {
	at     time.Time
	gone   bool
	object client.Object
}

// A tape records the Pods and ServingGroups of one ModelServing. Frames are stamped as they come.
type tape struct {
	watches []apiwatch.Interface
	done    sync.WaitGroup

	mu     sync.Mutex
	frames []frame
}

// record starts a tape; its first frames are what is there. The caller ends it.
func (b *bench) record(ctx context.Context, name string) (*tape, error) {
	t := &tape{}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &v1alpha1.ServingGroupList{}} {
		if err := b.listTo(ctx, t, name, list); err != nil {
			t.end()
			return nil, fmt.Errorf("watch modelserving %s: %w", name, err)
		}
	}
	return t, nil
}

func (b *bench) listTo(ctx context.Context, t *tape, name string, list client.ObjectList) error {
	mine := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.LabelModelServing: name}}
	if err := b.Objects.List(ctx, list, mine...); err != nil {
		return err
	}
	now := b.config.Clock.Now()
	switch l := list.(type) {
	case *corev1.PodList:
		for i := range l.Items {
			t.add(frame{at: now, object: &l.Items[i]})
		}
	case *v1alpha1.ServingGroupList:
		for i := range l.Items {
			t.add(frame{at: now, object: &l.Items[i]})
		}
	}
	source, err := b.Objects.Watch(ctx, list, append(mine, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})...)
	if err != nil {
		return err
	}
	t.watches = append(t.watches, source)
	t.done.Go(func() {
		for e := range source.ResultChan() {
			if o, ok := e.Object.(client.Object); ok {
				t.add(frame{at: b.config.Clock.Now(), gone: e.Type == apiwatch.Deleted, object: o})
			}
		}
	})
	return nil
}

func (t *tape) add(f frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames = append(t.frames, f)
}

// end ends the tape and returns its frames in the order in which they came.
func (t *tape) end() []frame {
	for _, w := range t.watches {
		w.Stop()
	}
	t.done.Wait()
	return t.frames
}

// An outage is the time in which not all Pods of a unit were in service.
type outage struct {
	from, to time.Time
	// left is when each Pod was first seen out of service.
	left map[string]time.Time
}

// outageOf returns the outage of the unit that has that many Pods: all of them were in service at the begin
// of the frames, and have to be at their end.
func outageOf(frames []frame, pods int) (outage, error) {
	out := outage{left: map[string]time.Time{}}
	serving, all := map[string]bool{}, false
	for _, f := range frames {
		pod, ok := f.object.(*corev1.Pod)
		if !ok {
			continue
		}
		was := serving[pod.Name]
		if serving[pod.Name] = !f.gone && pod.DeletionTimestamp == nil && readiness.Ready(pod); !serving[pod.Name] {
			delete(serving, pod.Name)
		}
		if was && !serving[pod.Name] && out.left[pod.Name].IsZero() {
			out.left[pod.Name] = f.at
		}
		before := all
		switch all = len(serving) == pods; {
		case before && !all && out.from.IsZero():
			out.from = f.at
		case all && !before && !out.from.IsZero():
			out.to = f.at
		}
	}
	if !all || out.from.IsZero() {
		return out, fmt.Errorf("%d Pods of %d are in service at the end, out of service since %v: %v", len(serving), pods, out.from, serving)
	}
	return out, nil
}

// drainPermitted returns when the first update was seen that may drain.
func drainPermitted(frames []frame) (time.Time, error) {
	for _, f := range frames {
		group, ok := f.object.(*v1alpha1.ServingGroup)
		if !ok {
			continue
		}
		for _, u := range group.Spec.Updates {
			if u.Permit.Allows(v1alpha1.PermitDrain) {
				return f.at, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("no update was permitted to drain in %d frames", len(frames))
}
