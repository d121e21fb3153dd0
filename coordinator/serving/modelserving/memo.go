package modelserving

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"pitstop.dev/coordinator/revision"
)

// memo spares passes over an unchanged ModelServing to read the same revisions again. What it holds
// follows from its key alone, and a restart loses nothing but time. The zero value is empty.
type memo struct {
	mu   sync.Mutex
	last map[types.NamespacedName]remembered
}

type remembered struct {
	key      string
	versions versions
}

func (m *memo) recall(ms types.NamespacedName, key string) (versions, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.last[ms]
	return r.versions, ok && r.key == key
}

func (m *memo) remember(ms types.NamespacedName, key string, v versions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = map[types.NamespacedName]remembered{}
	}
	m.last[ms] = remembered{key, v}
}

func (m *memo) forget(ms types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, ms)
}

// key says all that a decision on revisions depends on: the spec by its generation, the revisions by
// their versions, and what refers to them.
func key(h revision.History) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %d %q", h.Owner.UID, h.Owner.Generation, h.CollisionCount, sets.List(h.References))
	stored := make([]string, 0, len(h.Stored))
	for _, cr := range h.Stored {
		stored = append(stored, string(cr.UID)+" "+cr.ResourceVersion)
	}
	slices.Sort(stored)
	return b.String() + strings.Join(stored, ",")
}
