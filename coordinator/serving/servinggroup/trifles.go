package servinggroup

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// trifling reports whether two statuses differ in nothing that anybody acts upon: in texts, in counts
// of Pods and, while an update is open, in how long an instance has not served.
func trifling(a, b v1alpha1.ServingGroupStatus) bool {
	return equality.Semantic.DeepEqual(essence(a), essence(b))
}

func essence(st v1alpha1.ServingGroupStatus) v1alpha1.ServingGroupStatus {
	st.ReadyPods, st.LivePods = 0, 0
	st.Conditions, st.Updates, st.Instances = slices.Clone(st.Conditions), slices.Clone(st.Updates), slices.Clone(st.Instances)
	for n := range st.Conditions {
		st.Conditions[n].Message = ""
	}
	for n := range st.Updates {
		st.Updates[n].Reason, st.Updates[n].Message = "", ""
	}
	for n := range st.Instances {
		i := &st.Instances[n]
		i.ReadyPods, i.LivePods, i.Message = 0, 0, ""
		if len(st.Updates) > 0 {
			i.DownSince = nil
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
