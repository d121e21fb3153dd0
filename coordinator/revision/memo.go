package revision

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// maxMemo bounds what a Memo keeps of each kind.
const maxMemo = 1024

// A Reading is what a revision says, ready for use. It is shared and must not be changed.
type Reading struct {
	Data Data
	// Digests are the RoleDigests by role.
	Digests map[string]string

	canonical []byte
}

// A Memo spares reading what was read before: every pass of a controller needs the same few revisions.
// It is no memory of anything: what it returns follows from what it is given. The zero Memo is ready, a
// nil one keeps nothing, and all methods may be called from several goroutines.
type Memo struct {
	mu       sync.Mutex
	stored   map[string]Reading
	declared map[generation]Reading
}

// generation is one state of a spec.
type generation struct {
	uid    types.UID
	number int64
}

// Read is Decode.
func (m *Memo) Read(cr *appsv1.ControllerRevision) (Reading, error) {
	// The bytes are the key: no identity could promise that they are the same.
	return remember(m, m.ofStored, string(cr.Data.Raw), func() (Reading, error) {
		d, canonical, err := decode(cr)
		if err != nil {
			return Reading{}, err
		}
		return d.reading(canonical), nil
	})
}

// Project is Project of the spec.
func (m *Memo) Project(ms *v1alpha1.ModelServing) (Reading, error) {
	if ms.UID == "" || ms.Generation == 0 {
		m = nil // it never was on an API server
	}
	return remember(m, m.ofDeclared, generation{ms.UID, ms.Generation}, func() (Reading, error) {
		d, canonical, err := projection(&ms.Spec)
		if err != nil {
			return Reading{}, err
		}
		return d.reading(canonical), nil
	})
}

func (m *Memo) ofStored() *map[string]Reading       { return &m.stored }
func (m *Memo) ofDeclared() *map[generation]Reading { return &m.declared }

// remember returns what is kept under the key, or what read returns, which it keeps unless it failed.
func remember[K comparable](m *Memo, in func() *map[K]Reading, key K, read func() (Reading, error)) (Reading, error) {
	if m == nil {
		return read()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := in()
	if r, ok := (*kept)[key]; ok {
		return r, nil
	}
	r, err := read()
	if err != nil {
		return Reading{}, err
	}
	if *kept == nil || len(*kept) >= maxMemo {
		*kept = map[K]Reading{}
	}
	(*kept)[key] = r
	return r, nil
}

func (d Data) reading(canonical []byte) Reading {
	r := Reading{Data: d, Digests: make(map[string]string, len(d.Roles)), canonical: canonical}
	for _, role := range d.Roles {
		r.Digests[role.Name] = d.RoleDigest(role.Name)
	}
	return r
}
