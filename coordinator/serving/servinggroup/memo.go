package servinggroup

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/coordinator/plan/pods"
	"pitstop.dev/coordinator/revision"
)

// maxMemo bounds the revisions that are kept.
const maxMemo = 512

// A memo keeps what revisions say: their data never changes, and many groups share one. It may be
// used from several goroutines.
type memo struct {
	mu   sync.Mutex
	kept map[types.UID]reading
}

type reading struct {
	data   revision.Data
	shapes pods.Revision
}

// imagesOf are the images of a template's regular containers, by name.
func imagesOf(t *corev1.PodTemplateSpec) map[string]string {
	if t == nil {
		return nil
	}
	images := make(map[string]string, len(t.Spec.Containers))
	for i := range t.Spec.Containers {
		images[t.Spec.Containers[i].Name] = t.Spec.Containers[i].Image
	}
	return images
}

// read returns what a revision says, and errors of revision.Decode.
func (m *memo) read(cr *appsv1.ControllerRevision) (reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one, ok := m.kept[cr.UID]; ok {
		return one, nil
	}
	data, err := revision.Decode(cr)
	if err != nil {
		return reading{}, err
	}
	one := reading{data: data, shapes: make(pods.Revision, len(data.Roles))}
	for _, role := range data.Roles {
		one.shapes[role.Name] = pods.Shape{
			Digest: data.RoleDigest(role.Name), Workers: role.WorkerReplicas,
			Entry: imagesOf(role.EntryTemplate), Worker: imagesOf(role.WorkerTemplate),
		}
	}
	if m.kept == nil || len(m.kept) >= maxMemo {
		m.kept = make(map[types.UID]reading)
	}
	m.kept[cr.UID] = one
	return one, nil
}
