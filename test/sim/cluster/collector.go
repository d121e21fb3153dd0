package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Orphan is an object whose owners are all gone.
type Orphan struct{ object client.Object }

// Orphans returns what the garbage collector would delete now.
func (s *Server) Orphans() []Orphan {
	uids := map[string]bool{}
	for _, t := range s.tables {
		for _, o := range t.objects {
			uids[string(o.GetUID())] = true
		}
	}
	var out []Orphan
	for _, kind := range []string{ServingGroup, InPlaceUpdate, ControllerRevision, Pod, Service} {
		for _, o := range s.All(kind) {
			if o.GetDeletionTimestamp() == nil && orphaned(o, uids) {
				out = append(out, Orphan{o})
			}
		}
	}
	return out
}

func orphaned(o client.Object, uids map[string]bool) bool {
	for _, owner := range o.GetOwnerReferences() {
		if uids[string(owner.UID)] {
			return false
		}
	}
	return len(o.GetOwnerReferences()) > 0
}

// Collect deletes the orphan as the garbage collector does, bound to its UID.
func (s *Server) Collect(o Orphan) error {
	uid := o.object.GetUID()
	return client.IgnoreNotFound(s.delete(caller{name: "garbage collector"}, o.object,
		client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
}

// Release removes a Pod at once, as kubelet does once its containers have ended.
func (s *Server) Release(by string, o client.Object) error {
	now, uid := int64(0), o.GetUID()
	return client.IgnoreNotFound(s.delete(caller{name: by}, o,
		client.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}}))
}
