package servinggroup

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// trifling reports whether two statuses differ in nothing that anybody acts upon: in texts, in counts of
// Pods, in the revision of an instance that is not ready. While updates are open and at the stages that
// they were at, neither acts anybody upon how long an instance has not served, nor upon a spec's having
// been observed.
func trifling(a, b v1alpha1.ServingGroupStatus) bool {
	a, b = essence(a), essence(b)
	if len(a.Updates) > 0 && len(b.Updates) > 0 {
		observe(&a, 0)
		observe(&b, 0)
	}
	return equality.Semantic.DeepEqual(a, b)
}

// observe has the status say which generation it is about.
func observe(st *v1alpha1.ServingGroupStatus, generation int64) {
	st.ObservedGeneration = generation
	for n := range st.Conditions {
		st.Conditions[n].ObservedGeneration = generation
	}
}

// essence is the status without texts and counts.
func essence(st v1alpha1.ServingGroupStatus) v1alpha1.ServingGroupStatus {
	st.ReadyPods, st.LivePods = 0, 0
	st.Conditions, st.Updates, st.Instances = slices.Clone(st.Conditions), slices.Clone(st.Updates), slices.Clone(st.Instances)
	for n := range st.Conditions {
		st.Conditions[n].Message = ""
	}
	for n := range st.Updates {
		st.Updates[n].Reason, st.Updates[n].Message, st.Updates[n].Deadline = "", "", nil
	}
	for n := range st.Instances {
		i := &st.Instances[n]
		i.ReadyPods, i.LivePods, i.Message = 0, 0, ""
		if len(st.Updates) > 0 {
			i.DownSince = nil
		}
		if !i.Ready {
			i.Revision = "" // which one it is not ready at
		}
	}
	return st
}

// A patience keeps since when trifles have not been reported. A restart costs nothing but that they
// are a little later. The zero value is empty; it may be used from several goroutines.
type patience struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// left returns how long trifles of the group may yet wait.
func (p *patience) left(group types.NamespacedName, now time.Time, most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, waits := p.since[group]
	if !waits {
		if p.since == nil {
			p.since = make(map[types.NamespacedName]time.Time)
		}
		p.since[group], since = now, now
	}
	return since.Add(most).Sub(now)
}

// end is called when nothing waits any more.
func (p *patience) end(group types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, group)
}
